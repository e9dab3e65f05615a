"""Defines fuzz targets for libFuzzer."""

load("@rules_cc//cc:cc_binary.bzl", "cc_binary")

def fuzz_target(name, deps):
    """Defines a program that calls LLVMFuzzerTestOneInput of `name`.cc. Needs --config=fuzz.

    Args:
      name: the name of the target, its source and its corpus.
      deps: the libraries under test.
    """
    cc_binary(
        name = name,
        testonly = True,
        srcs = [
            "fuzz.h",
            name + ".cc",
        ],
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],  # GCC knows no -fsanitize=fuzzer
        deps = deps + ["//base"],
    )
