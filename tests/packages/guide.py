# SPDX-License-Identifier: Apache-2.0
"""The commands that the documentation tells, which the tests run as they are written there."""

import os
import re

import harness

INSTALL = "docs/guides/install.md"


def block(heading, name=INSTALL):
    """Returns the lines of the first indented block behind the line `heading` of a page."""
    with open(os.path.join(harness.ROOT, name), encoding="utf-8") as file:
        _, found, text = ("\n" + file.read()).partition(f"\n{heading}\n")
    lines = re.search(r"(?:^    .*\n)+", text, re.MULTILINE)
    assert found and lines, f"{name} has no block behind {heading}"
    return [line[4:] for line in lines.group().splitlines()]


def session(heading, name=INSTALL):
    """Returns the first command behind "$ " that is below a heading, and the output that the page shows for it."""
    with open(os.path.join(harness.ROOT, name), encoding="utf-8") as file:
        _, _, text = ("\n" + file.read()).partition(f"\n{heading}\n")
    command, output = re.search(r"^    \$ (.*)\n((?:    .*\n)+)", text, re.MULTILINE).groups()
    return command, re.sub("^    ", "", output, flags=re.MULTILINE)


def printed(heading, name):
    """Returns the command of the first block below a heading behind which "# prints: OUTPUT" stands, and that output."""
    lines = [line for line in block(heading, name) if "# prints: " in line]
    assert len(lines) == 1, f"{name} has {len(lines)} commands with an output in the block behind {heading}"
    command, output = lines[0].split("# prints: ")
    return command.strip(), output + "\n"
