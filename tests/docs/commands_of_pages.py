# SPDX-License-Identifier: Apache-2.0
"""The commands in fenced blocks `sh` of the pages are run, and print what the pages show. docs/development/documentation.md
describes the form of these blocks."""

import os
import re
import shlex
import subprocess
import tempfile

import harness
import quorate_cli
import site_pages

SECONDS = 60  # the longest time of a command
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?")


def steps(text):
    """Returns [command, lines that it prints] of all blocks of a page."""
    found = []
    for block in BLOCK.findall(text):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found:
                found[-1][1].append(line)
    return found


def normal(lines):
    return [NUMBER.sub("N", " ".join(line.split())) for line in lines if line.strip()]


def matches(shown, printed):
    """Returns whether lines are as the page shows them; "..." stands for any lines."""
    if not shown:
        return not printed
    if shown[0] == "...":
        return any(matches(shown[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0] and matches(shown[1:], printed[1:])


def add_program(directory, name, command):
    """Makes a program of a command, whose process becomes that of the command, so that a page can kill it."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    os.chmod(path, 0o755)


def run_page(path):
    with tempfile.TemporaryDirectory(prefix="quorate-docs-") as directory, harness.Cluster(start=False) as cluster:
        programs = os.path.join(directory, "programs")
        add_program(programs, "quorate", [quorate_cli.PROGRAM])
        add_program(programs, "cluster", [harness.TOOL, "--dir", cluster.dir])
        cluster.start()
        environment = dict(os.environ, PATH=programs + ":" + os.environ["PATH"], QUORATE_SERVER=cluster.grpc(),
                           HOSTS=cluster.hosts(), HOME=directory,
                           HTTP=f"{harness.HOST}:{cluster.ports.base + 301}")
        commands = steps(path.read_text(encoding="utf-8"))
        for command, shown in commands:
            result = subprocess.run(["bash", "-c", command], cwd=directory, env=environment, text=True,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    timeout=SECONDS, check=False)
            assert result.returncode == 0, f"{command}: exit status {result.returncode}\n{result.stdout}"
            printed = result.stdout.splitlines()
            assert not shown or matches(normal(shown), normal(printed)), (
                f"{command}: the page shows\n" + "\n".join(shown) + "\nbut it prints\n" + result.stdout)
        return len(commands)


def test_pages_show_what_their_commands_print():
    pages = [path for path in site_pages.markdown_files() if BLOCK.search(path.read_text(encoding="utf-8"))]
    assert pages, "no page has a block of commands"
    return f"{sum(map(run_page, pages))} commands of {len(pages)} pages"
