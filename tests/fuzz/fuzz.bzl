"""Targets of libFuzzer."""

load("@rules_cc//cc:cc_binary.bzl", "cc_binary")

def fuzz_target(name, deps):
    """A program that calls LLVMFuzzerTestOneInput of `name`.cc; only with --config=fuzz.

    Args:
      name: of the target, its source and its corpus.
      deps: what it decodes with.
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
