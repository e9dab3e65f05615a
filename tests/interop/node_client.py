# SPDX-License-Identifier: Apache-2.0
"""Fetches node-zookeeper-client as tests/interop/node/package-lock.json pins it, and runs it."""

import os
import shutil

import npm_packages

SOURCES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "node")


def command(directory):
    """Returns the program's command line, without its arguments; installs the program at the first call."""
    if not os.path.exists(directory):
        npm_packages.install(os.path.join(SOURCES, "package-lock.json"), directory)
    program = os.path.join(directory, "program.js")  # beside its packages, where node looks for them
    if not os.path.exists(program):
        shutil.copy(os.path.join(SOURCES, "program.js"), program)
    return ["node", program]
