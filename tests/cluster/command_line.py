# SPDX-License-Identifier: Apache-2.0
"""Tests the help texts of `quorate` and its errors about unknown commands."""

import os
import re
import subprocess

import harness

CLI = os.environ.get("QUORATE", os.path.join(harness.ROOT, ".bazel/opt-bin/tools/quorate"))


def quorate(*arguments):
    return subprocess.run([CLI, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60, check=False)


def commands_of(text):
    """Returns the names and descriptions of the commands in a help text; none if it lists no commands."""
    listed = re.search(r"\nSubcommands:\n((?:  .*\n)+)", text)
    return re.findall(r"^  (\S+) +(\S.*)$", listed[1], re.MULTILINE) if listed else []


def check_help(*names):
    """Checks the help of a command and of its subcommands. Returns how many there are."""
    shown = quorate(*names, "--help")
    assert shown.returncode == 0 and not shown.stderr, shown
    assert f"Usage: {' '.join(('quorate', *names))}" in shown.stdout, shown.stdout
    asked = quorate("help", *names)
    assert asked.returncode == 0 and asked.stdout == shown.stdout, asked
    count = 1
    for name, description in commands_of(shown.stdout):
        below = quorate(*names, name, "--help").stdout
        assert below.startswith(description), f"{name}: {below}"
        count += check_help(*names, name)
    return count


def test_each_command_has_help():
    count = check_help()
    assert count > 15, count
    return f"{count} texts"


def test_a_command_that_is_not_there_is_named_with_those_like_it():
    for arguments, parents, wrong, meant in (
            (("statsu",), "quorate", "statsu", "status"),
            (("--server", "127.0.0.1:1", "bakcup", "file"), "quorate", "bakcup", "backup"),
            (("log", "dmup"), "quorate log", "dmup", "dump"),
            (("help", "lokc"), "quorate", "lokc", "lock")):
        result = quorate(*arguments)
        assert result.returncode == 2 and not result.stdout, result
        first, second = result.stderr.splitlines()
        assert first.startswith(f'{parents}: there is no command "{wrong}"; did you mean '), first
        assert re.search(rf"\b{meant}\b.*\?$", first), first
        assert second == f'"{parents} --help" names all.', second
    result = quorate("frobnicate")
    assert result.returncode == 2 and "did you mean" not in result.stderr, result
