# SPDX-License-Identifier: Apache-2.0
"""The commands in fenced blocks `sh` of the pages are run, with the programs that the pages show, and print what the pages
show. docs/development/documentation.md describes the form of these blocks."""

import contextlib
import os
import pathlib
import re
import shlex
import subprocess
import tempfile

from blocks import MAIN, files
import harness
import npm_packages
import quorate_cli
import site_pages

NODE_PACKAGES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "node/package-lock.json")
SECONDS = 60  # the longest time of a command
SIZE_MAX = 5  # the highest number of a member in a cluster that a page starts
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = os.path.join(harness.ROOT, ".bazel/opt-bin/tests/docs")  # those in C++, of pages
NUMBER = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?")
UNITS = re.compile(r"\bN (B|[KMGT]iB|ms|s|min|h|d)\b( N (ms|s|min|h)\b)*")  # of bytes and times
ROLE = re.compile(r"\b(leader|follower) ")  # of a member in a table: which one leads is not determined


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
    """Returns lines without what varies: numbers with their units, roles in tables, and blank space."""
    one_space = [" ".join(line.split()) for line in lines if line.strip()]
    return [ROLE.sub("ROLE ", UNITS.sub("N", NUMBER.sub("N", line))) for line in one_space]


def line_matches(shown, printed):
    """Returns whether a line is as the page shows it; "..." in it stands for any text."""
    return re.fullmatch(".*".join(map(re.escape, shown.split("..."))), printed) is not None


def matches(shown, printed):
    """Returns whether lines are as the page shows them; a line "..." stands for any lines."""
    if not shown:
        return not printed
    if shown[0] == "...":
        return any(matches(shown[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and line_matches(shown[0], printed[0]) and matches(shown[1:], printed[1:])


def add_program(directory, name, command):
    """Makes a program of a command, whose process becomes that of the command, so that a page can kill it."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    os.chmod(path, 0o755)


def run_command(command, directory, environment):
    """Runs a command of bash. Returns ("" or why it failed, what it printed)."""
    try:
        result = subprocess.run(["bash", "-c", command], cwd=directory, env=environment, text=True, errors="replace",
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        return f"not done after {SECONDS} s", (error.stdout or b"").decode(errors="replace")
    return f"exit status {result.returncode}" if result.returncode else "", result.stdout


def program_in_cpp(name):
    path = os.path.join(PROGRAMS, name)
    assert os.access(path, os.X_OK), f"{path} is missing: bazel build --config=opt //tests/docs:all"
    return path


@contextlib.contextmanager
def cluster_of_the_page(work, commands):
    """Makes work/tools/cluster, with the meaning that it has in a clone: its cluster is in work/.cluster, and runs when the
    page starts it. It has ports that nothing else uses."""
    if not any("tools/cluster" in command for command, _ in commands):
        yield
        return
    ports = harness.Reservation(SIZE_MAX)
    with contextlib.closing(ports.holder):
        tools = os.path.join(work, "tools")
        add_program(tools, "cluster.any", [harness.TOOL, "--dir", os.path.join(work, ".cluster")])
        script = pathlib.Path(tools, "cluster")
        script.write_text(f'#!/bin/sh\ncase "$1" in start) set -- "$@" --base-port {ports.base} ;; esac\n'
                          f'exec {tools}/cluster.any "$@"\n', encoding="utf-8")
        script.chmod(0o755)
        try:
            yield
        finally:
            if os.path.exists(os.path.join(work, ".cluster")):
                subprocess.run([script, "wipe"], capture_output=True, check=False)


def run_page(path):
    with tempfile.TemporaryDirectory(prefix="quorate-docs-") as directory, harness.Cluster(start=False) as cluster:
        text = path.read_text(encoding="utf-8")
        programs = os.path.join(directory, "programs")
        add_program(programs, "quorate", [quorate_cli.PROGRAM])
        add_program(programs, "cluster", [harness.TOOL, "--dir", cluster.dir])
        add_program(programs, "python3", ["/usr/bin/python3", "-B"])  # the one with Debian's packages
        work = os.path.join(directory, "work")
        if any(name.endswith(".js") for name in files(text)):
            npm_packages.install(NODE_PACKAGES, work)  # where node looks for them
        else:
            os.mkdir(work)
        for name, code in files(text).items():
            if name.endswith(".cc") and MAIN.search(code):
                add_program(programs, name.removesuffix(".cc"), [program_in_cpp(name.removesuffix(".cc"))])
            pathlib.Path(work, name).write_text(code, encoding="utf-8")
        cluster.start()
        environment = dict(os.environ, PATH=programs + ":" + os.environ["PATH"], QUORATE_SERVER=cluster.grpc(),
                           HOSTS=cluster.hosts(), HOME=directory, CLUSTER=cluster.dir, QUORATE_SOURCE=harness.ROOT,
                           HTTP=f"{harness.HOST}:{cluster.ports.base + 301}",
                           GRPC_VERBOSITY="NONE")  # gRPC logs the end of a program, now and then
        commands = steps(text)
        with cluster_of_the_page(work, commands):
            for command, shown in commands:
                problem, printed = run_command(command, work, environment)
                assert not problem, f"{command}: {problem}\n{printed}"
                assert not shown or matches(normal(shown), normal(printed.splitlines())), (
                    f"{command}: the page shows\n" + "\n".join(shown) + "\nbut it prints\n" + printed)
        return f"{len(commands)} commands"


def page_tests():
    """Returns (name, function, argument) for each page that has commands."""
    pages = [path for path in site_pages.markdown_files() if BLOCK.search(path.read_text(encoding="utf-8"))]
    assert pages, "no page has a block of commands"
    return [(f"docs commands of {path.relative_to(site_pages.ROOT)}", run_page, path) for path in pages]


def test_the_recipes_in_cpp_do_what_their_page_says():
    with harness.Cluster() as cluster:
        problem, output = harness.run_in_group([program_in_cpp("run_recipes"), cluster.grpc()], SECONDS)
        assert not problem, f"{problem}\n{output}"
        named = set(files((site_pages.ROOT / "docs/recipes-cpp.md").read_text(encoding="utf-8"))) - {"paused_holder.cc"}
        run = {line.removesuffix(": as described") for line in output.splitlines()}
        assert run == named, f"run_recipes.cc runs {sorted(run)}, the page has {sorted(named)}"
        return f"{len(run)} programs"


def test_the_programs_in_cpp_compile():
    """All of a page are one translation unit, as abseil and the standard library take most of the time."""
    pages = {}
    for path in site_pages.markdown_files():
        programs = files(path.read_text(encoding="utf-8"))
        if code := "\n".join(text for name, text in programs.items() if name.endswith(".cc")):
            pages[path] = code
    assert pages, "no page has a program in C++"
    for path, code in pages.items():
        result = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wshadow", "-Werror",
                                 "-I", harness.ROOT, "-x", "c++", "-"],
                                input=code, text=True, capture_output=True, timeout=SECONDS, check=False)
        assert result.returncode == 0, f"{path.relative_to(site_pages.ROOT)}:\n{result.stderr}"
    return f"{len(pages)} pages"


def test_a_page_differs_from_the_output_only_in_numbers_roles_and_ellipses():
    assert normal(["2  leader    up  4 min 2 s  6.7 KiB"]) == normal(["2  follower  up  7 s  512 B"])
    assert normal(["2  leader  up"]) != normal(["2  leader  down"])
    shown = normal(["Created 17 at   0x1f", "...", "error: ... refused"])
    assert matches(shown, normal(["Created 9 at 0x2", "any line", "another", "error: 127.0.0.1:80 refused"]))
    assert matches(shown, normal(["Created 9 at 0x2", "error: a refused"]))
    for printed in (["Created 9 at 0x2"], ["Removed 9 at 0x2", "error: a refused"],
                    ["Created 9 at 0x2", "error: a refused", "more"], ["Created 9 at 0x2", "error: accepted"]):
        assert not matches(shown, normal(printed)), printed


def test_a_block_is_a_file_if_its_first_line_names_one():
    text = "```python\n# lock.py\nimport os\n```\n\n```java\n// Lock.java\nclass Lock {}\n```\n\n```python\n# a remark\n1\n```\n"
    assert files(text) == {"lock.py": "# lock.py\nimport os\n", "Lock.java": "// Lock.java\nclass Lock {}\n"}
