"""Unit tests of ours."""

load("@rules_cc//cc:cc_test.bzl", "cc_test")

# The sources of a test are compiled with less optimisation than what they test: that takes a quarter
# less time, and a test spends its time elsewhere.
COPTS = select({
    "//third_party/build_defs:optimised": ["-O1"],
    "//conditions:default": [],
})

def quorate_cc_test(name, srcs = None, deps = [], size = "small", **kwargs):
    """A cc_test with Catch2 and its main function.

    Args:
      name: of the target; by default also of its only source, NAME.cc.
      srcs: the sources, if they are others.
      deps: without Catch2.
      size: as of cc_test.
      **kwargs: as of cc_test.
    """
    cc_test(
        name = name,
        size = size,
        srcs = srcs or [name + ".cc"],
        deps = deps + [
            "//third_party/catch2:main",
            "@catch2",
        ],
        copts = COPTS,
        **kwargs
    )
