"""How tests run `quorate`, the command line."""

import os
import subprocess

import harness

PROGRAM = os.environ.get("QUORATE") or os.path.join(harness.ROOT, ".bazel/opt-bin/tools/quorate")
SECONDS = 60  # that anything may take


def run(*arguments, typed="", seconds=SECONDS, environment=()):
    """The subprocess.CompletedProcess, with its two outputs. They are bytes if `typed`, the standard input, is;
    else both are text. `environment`: what it has beside what this process has."""
    return subprocess.run([PROGRAM, *map(str, arguments)], input=typed, capture_output=True, timeout=seconds, check=False,
                          text=isinstance(typed, str), env=dict(os.environ, **dict(environment)))
