# SPDX-License-Identifier: Apache-2.0
"""Builds and tests with Bazel, with the disk cache that QUORATE_DISK_CACHE names, if it does."""

import os
import subprocess

import harness


def command(verb, config, *arguments):
    cache = os.environ.get("QUORATE_DISK_CACHE")
    flags = [f"--disk_cache={cache}"] if cache else []
    return ["bazel", verb, f"--config={config}", *flags, *arguments]


def build(config, *targets):
    subprocess.run(command("build", config, *targets), cwd=harness.ROOT, check=True)


def test(config, *arguments):
    """Runs tests, whose output is shown if they fail."""
    subprocess.run(command("test", config, "--test_output=errors", *arguments), cwd=harness.ROOT, check=True)


def program(config, target):
    """The path of a program that was built: of "//tests/model", .bazel/<config>-bin/tests/model/model."""
    package, _, name = target.removeprefix("//").partition(":")
    return os.path.join(harness.ROOT, f".bazel/{config}-bin", package, name or os.path.basename(package))
