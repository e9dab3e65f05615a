# SPDX-License-Identifier: Apache-2.0
"""Runs `quorate`, the command line, in tests."""

import os
import subprocess

import harness

PROGRAM = os.environ.get("QUORATE") or os.path.join(harness.ROOT, ".bazel/opt-bin/tools/quorate")
SECONDS = 60  # the longest time of a command


def run(*arguments, typed="", seconds=SECONDS, environment=()):
    """Runs the command. Returns the subprocess.CompletedProcess with both outputs, which are bytes if `typed`, the
    standard input, is bytes, and text otherwise. `environment`: variables in addition to those of this process."""
    return subprocess.run([PROGRAM, *map(str, arguments)], input=typed, capture_output=True, timeout=seconds, check=False,
                          text=isinstance(typed, str), env=dict(os.environ, **dict(environment)))
