# SPDX-License-Identifier: Apache-2.0
"""Runs `quorate` for the tests."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time

import quorate_cli

PROGRAM = quorate_cli.PROGRAM
SECONDS = 30  # the longest time of any operation
_NUMBERS = itertools.count(1)


def prepare():
    # Resets signals that the caller of the tests ignores (nohup; `&` in a script), because programs inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if not os.access(PROGRAM, os.X_OK):
        sys.exit(f"{PROGRAM} is missing: bazel build --config=opt //tools:quorate")


def fresh(prefix):
    """Returns a path that no other test uses."""
    return f"/{prefix}-{next(_NUMBERS)}"


def servers(cluster, chroot=""):
    return cluster.command("grpc") + chroot


class Deadline:
    """The deadline of a loop that waits and calls `check` in each round."""

    def __init__(self):
        self.end = time.monotonic() + SECONDS

    def check(self, what):
        assert time.monotonic() < self.end, f"after {SECONDS} s: {what}"
        time.sleep(0.01)


class Outcome:
    def __init__(self, status, output, errors):
        self.status, self.output, self.errors = status, output, errors

    def __repr__(self):
        return f"status {self.status}\n--- output\n{self.output}--- errors\n{self.errors}"

    def objects(self):
        return [json.loads(line) for line in self.output.splitlines()]


def run(where, *arguments, typed="", status=None, environment=()):
    """Runs `quorate` with --server `where`. If `status` is given, fails if the command ends with another one."""
    result = quorate_cli.run("--server", where, *arguments, typed=typed, seconds=SECONDS, environment=environment)
    outcome = Outcome(result.returncode, result.stdout, result.stderr)
    assert status is None or outcome.status == status, f"{' '.join(map(str, result.args))}: {outcome}"
    return outcome


def shell(where, *words, typed="", status=0, options=()):
    """Runs `quorate shell` with one command, or with the lines of `typed`."""
    behind = ["--", *words] if words else []
    return run(where, "shell", *options, *behind, typed=typed, status=status)


class Running:
    """A `quorate` that runs beside the test. Its standard output and error are read line by line.
    Use as a context manager: the end of the `with` ends the command."""

    def __init__(self, where, *arguments, typed=False, **options):
        self.process = subprocess.Popen(
            [PROGRAM, "--server", where, *map(str, arguments)],
            stdin=subprocess.PIPE if typed else subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, **options)
        self.lines, self.is_done = [], False
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.is_done = True
            self.changed.notify_all()

    def wait_line(self, text, count=1):
        """Waits until `count` lines have `text` in them. Returns the last of these lines."""
        def found():
            return [line for line in self.lines if text in line]
        with self.changed:
            self.changed.wait_for(lambda: len(found()) >= count or self.is_done, SECONDS)
            assert len(found()) >= count, f"no {count} lines with {text!r} in {self.lines}"
            return found()[count - 1]

    def signal(self, number):
        os.kill(self.process.pid, number)

    def wait(self):
        """Waits for the end. Returns the exit status, as a shell shows it."""
        status = self.process.wait(SECONDS)
        return status if status >= 0 else 128 - status

    def stop(self):
        self.signal(signal.SIGTERM)
        return self.wait()
