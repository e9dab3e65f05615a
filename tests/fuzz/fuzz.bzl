"""Defines fuzz targets for libFuzzer."""

load("@rules_cc//cc:cc_binary.bzl", "cc_binary")
load("@rules_cc//cc:cc_library.bzl", "cc_library")

def fuzz_target(name, deps):
    """Defines a program that calls LLVMFuzzerTestOneInput of `name`.cc. Needs --config=asan_ubsan.

    The library `name`_input is built by every build of the repository, with any compiler: a target
    that no longer fits the functions that it calls is found there.

    Args:
      name: the name of the target, its source and its corpus.
      deps: the libraries under test.
    """
    cc_library(
        name = name + "_input",
        testonly = True,
        srcs = [
            "fuzz.h",
            name + ".cc",
        ],
        alwayslink = True,
        deps = deps + ["//base"],
    )
    cc_binary(
        name = name,
        testonly = True,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],  # GCC knows no -fsanitize=fuzzer
        deps = [":" + name + "_input"],
    )
