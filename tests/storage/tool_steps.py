#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Kills `quorate restore`, `import` and `rebuild` right before one of their operations on files.
Each time the directory is as before, or complete, or a server refuses it and says what to do. The same
command, run again, completes the work, and a server then has the right data.

  tests/storage/tool_steps.py [--filter TEXT]    tests every operation

As a module of tests/storage/run it tests some of them."""

import argparse
import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), HERE]
import crash_steps  # noqa: E402
import harness  # noqa: E402
import kills  # noqa: E402
import seed  # noqa: E402
import zkwire as zk  # noqa: E402

CLI = os.environ.get("QUORATE", os.path.join(harness.ROOT, ".bazel/opt-bin/tools/quorate"))
SECONDS = 30
NODES = 200
SUITE_STEPS = 3  # how many operations of each command the suite tests
# The line that a server logs after it has read its directories, whatever its ports.
ACCEPTED = re.compile(r"server \d+ of ")
SERVING = re.compile("listening for ZooKeeper clients on")
# The files that an unchanged directory may have.
UNTOUCHED = {"LOCK", "myid", "zoo.cfg"}
MEMBER_PARTS = {"identity", "hard_state", "log", "incarnation", "checkpoints"}
# Steps of these commands that are not steps of servers (crash_steps.KNOWN).
OWN_STEPS = {
    "create unfinished", "sync unfinished", "remove unfinished", "create myid", "truncate myid",
    "write myid", "sync myid", "create aside-#-#", "sync aside-#-#",
    *(f"rename {part}" for part in MEMBER_PARTS),
}


def is_known(step):
    """Returns whether `step`, which concerns a data or log directory or a file in it, is known."""
    operation, _, path = step.partition(" ")
    inside = path.partition("/")[2]
    if not inside:
        return operation in ("create", "sync")
    return f"{operation} {inside}" in crash_steps.KNOWN | OWN_STEPS


def run_tool(*arguments):
    """Runs the tool. Returns its output."""
    assert os.access(CLI, os.X_OK), f"{CLI} is missing: bazel build --config=opt //tools:quorate"
    result = subprocess.run([CLI, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=SECONDS, check=False)
    assert result.returncode == 0, f"{arguments[0]}: {result.stderr}"
    return result.stdout


class Material:
    """A backup, a ZooKeeper data directory and a member's directories with the same tree, and that tree."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="quorate-test-")
        atexit.register(self.remove)
        self.backup = self._path("backup")
        self.zookeeper = self._path("zookeeper")
        self.member = self._path("member")
        self.killer = crash_steps.make_killer(self.directory)
        self.ports = harness.Reservation(1)
        self.address = f"{harness.HOST}:{self.ports.base + 1}"
        with harness.Cluster("quorate", size=3, settings=crash_steps.SETTINGS) as cluster:
            with zk.Connection(cluster.address(1)) as connection:
                for i in range(NODES):
                    connection.create(f"/node-{i}", os.urandom(100))
                for i in range(3 * NODES):
                    connection.set(f"/node-{i % NODES}", b"%d" % i)
                connection.close()
            grpc = f"{harness.HOST}:{cluster.ports.base + 101}"
            run_tool("--server", grpc, "backup", self.backup)
            self.tree = self._walk(cluster.address(1))
            cluster.command("down")
            run_tool("export", "--zookeeper-snapshot", self.zookeeper, self.backup)
            shutil.copytree(cluster.member_dir(1), self.member,
                            ignore=lambda _, names: set(names) - MEMBER_PARTS
                            if "identity" in names else set())
        assert set(os.listdir(self.member)) == MEMBER_PARTS

    def _path(self, name):
        return os.path.join(self.directory, name)

    def remove(self):
        self.ports.release()
        shutil.rmtree(self.directory, ignore_errors=True)

    @staticmethod
    def _walk(address):
        """Reads the tree without the nodes that describe the servers, and without the root, whose Stat counts these
        nodes. Waits for a leader."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                return {path: node for path, node in kills.walk(address).items()
                        if path != "/" and not path.startswith("/zookeeper")}
            except zk.Closed:
                assert time.monotonic() < deadline, "the server has no leader"
                time.sleep(0.02)


class Killing:
    """Tests a command that is killed at one operation after the other."""

    def __init__(self, material):
        self.material = material
        self.root = os.path.join(material.directory, type(self).__name__)
        self.data = os.path.join(self.root, "data")
        self.log = self.data
        self.environment = dict(os.environ, LD_PRELOAD=material.killer, KILL_AT_DIRECTORY=self.root)

    def begin(self):
        """Makes the directories as they are before the command."""
        shutil.rmtree(self.root, ignore_errors=True)
        os.makedirs(self.root)

    def command(self):
        raise NotImplementedError

    def members(self):
        return (1,)

    def directories(self):
        """Returns the data and log directories, each once."""
        return sorted({self.data, self.log})

    def untouched(self):
        return not any(set(os.listdir(path)) - UNTOUCHED for path in self.directories()
                       if os.path.exists(path))

    def check_left(self, refusal):
        """Returns in which state the killed command left the directories: untouched, whole or refused. `refusal`: the
        output of a server that refused them, or None."""
        if self.untouched():
            return "untouched"
        if refusal is None:
            return "whole"
        assert self.advice() in refusal and self.root in refusal, f"it only says: {refusal}"
        return "refused"

    def advice(self):
        raise NotImplementedError

    def steps(self):
        """Returns the steps of the command, in order."""
        self.begin()
        report = self.root + ".steps"
        if os.path.exists(report):
            os.unlink(report)
        result = self._run_command(dict(self.environment, KILL_AT="0", KILL_AT_REPORT=report))
        assert result.returncode == 0, result.stderr
        with open(report, encoding="utf-8") as file:
            steps = file.read().splitlines()
        unknown = sorted(step for step in set(steps) if not is_known(step))
        assert not unknown, f"steps that are neither in OWN_STEPS nor steps of servers: {', '.join(unknown)}"
        return steps

    def kill(self, operation):
        """Kills the command before operation number `operation`. Returns the state of the directories: untouched,
        refused or whole."""
        self.begin()
        result = self._run_command(dict(self.environment, KILL_AT=str(operation)))
        assert result.returncode == -9, f"not killed: {result.returncode} {result.stderr}"
        copy = self.root + ".copy"
        shutil.copytree(self.root, copy)
        left = self.check_left(self._refusal())
        # Restores the directories from before the start of the server, which has changed them.
        shutil.rmtree(self.root)
        os.rename(copy, self.root)
        again = self._run_command(os.environ)
        if left == "whole":
            self.check_repeated_whole(again)
        else:
            assert again.returncode == 0, f"the second run, with directories that are {left}: {again.stderr}"
        self.check_done()
        return left

    def check_repeated_whole(self, result):
        assert result.returncode == 1 and "is not empty" in result.stderr, result.stderr

    def check_done(self):
        process = self._start(SERVING)
        try:
            tree = Material._walk(self.material.address)
        finally:
            process.kill()
            process.communicate()
        assert tree == self.material.tree, "the tree differs"

    def _run_command(self, environment):
        return subprocess.run([CLI, *self.command()], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=SECONDS, env=environment, check=False)

    def _start(self, until=ACCEPTED):
        """Starts a server on the directories, and waits until it has logged `until` or has ended. Its output is in
        self.said."""
        path = os.path.join(self.root, "zoo.cfg")
        base = self.material.ports.base
        lines = [f"dataDir={self.data}", f"dataLogDir={self.log}", f"clientPort={base + 1}", "admin.enableServer=false",
                 "diskReserveMb=0"]
        if len(self.members()) > 1:
            lines += [f"server.{i}={harness.HOST}:{base + 200 + i}:{base + 400 + i}"
                      for i in self.members()]
        with open(path, "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")
        if not os.path.exists(os.path.join(self.data, "myid")):
            os.makedirs(self.data, exist_ok=True)
            with open(os.path.join(self.data, "myid"), "w", encoding="ascii") as file:
                file.write("1\n")
        server = os.environ.get("QUORATED", harness.SERVERS["quorate"])
        process = subprocess.Popen([server, path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, cwd=self.root)
        self.said = []
        for line in process.stdout:
            self.said.append(line)
            if until.search(line):
                break
        return process

    def _refusal(self):
        """Returns the output of a server that does not start on the directories; None if it starts."""
        untouched = self.untouched()
        process = self._start()
        accepted = bool(self.said) and ACCEPTED.search(self.said[-1])
        if accepted:
            process.kill()
        process.communicate()
        if untouched:  # the server may have made files in the directories
            for path in self.directories():
                shutil.rmtree(path, ignore_errors=True)
        return None if accepted else "".join(self.said)


class Restore(Killing):
    def command(self):
        return ("restore", self.material.backup, "--data-dir", self.data, "--member", "1",
                "--members", "1", *self._log_options())

    def _log_options(self):
        return ("--log-dir", self.log) if self.log != self.data else ()

    def advice(self):
        return "`quorate restore`, `import` or `recover` was interrupted. Run the same command again"


class RestoreApart(Restore):
    """Restores data and log into separate directories."""

    def __init__(self, material):
        super().__init__(material)
        self.log = os.path.join(self.root, "log")

    def check_left(self, refusal):
        left = super().check_left(refusal)
        mark = os.path.join(self.data, "unfinished")
        if os.path.exists(mark):
            assert left == "refused"
            self.log, own = os.path.join(self.root, "other-log"), self.log
            try:
                assert self._refusal() is not None, "a server starts beside another log directory"
            finally:
                self.log = own
            assert os.path.exists(mark), "the file `unfinished` was removed"
        return left


class Import(Restore):
    def command(self):
        return ("import", "--zookeeper-data", self.material.zookeeper, "--data-dir", self.data,
                "--member", "1", "--members", "1")


class Rebuild(Killing):
    """Rebuilds a member that could still start. A server must never take a part of its data for complete."""

    def begin(self):
        super().begin()
        shutil.copytree(self.material.member, self.data)
        self.before = self._files([self.data])
        if self.log != self.data:
            os.makedirs(self.log)
            for name in MEMBER_PARTS - {"checkpoints"}:
                os.rename(os.path.join(self.data, name), os.path.join(self.log, name))

    def command(self):
        log = ("--log-dir", self.log) if self.log != self.data else ()
        return ("rebuild", self.data, "--yes", *log)

    def members(self):
        return (1, 2, 3)

    def _files(self, directories):
        """Returns {path below a member's directory or an aside directory: bytes}."""
        found = {}
        for directory in directories:
            for parent, _, names in os.walk(directory):
                for name in names:
                    path = os.path.join(parent, name)
                    short = re.sub(r"^aside-[0-9-]+/", "", os.path.relpath(path, directory))
                    if short.split("/")[0] in MEMBER_PARTS:
                        assert short not in found, f"{short} exists twice"
                        with open(path, "rb") as file:
                            found[short] = file.read()
        return found

    def _parts(self):
        return {name for path in self.directories() for name in os.listdir(path)} & MEMBER_PARTS

    def untouched(self):
        return self._parts() == MEMBER_PARTS

    def check_left(self, refusal):
        if self.left == MEMBER_PARTS:
            assert refusal is None, refusal
            return "untouched"
        if not self.left:
            assert refusal is None, refusal
            return "whole"
        assert refusal is not None, f"a server starts with {self.left}"
        assert "`quorate rebuild`" in refusal and self.root in refusal, f"it only says: {refusal}"
        return "refused"

    def _refusal(self):
        self.left = self._parts()
        process = self._start()
        accepted = bool(self.said) and ACCEPTED.search(self.said[-1])
        if accepted:
            process.kill()
        process.communicate()
        return None if accepted else "".join(self.said)

    def check_repeated_whole(self, result):
        assert result.returncode == 1 and "holds nothing of a member" in result.stderr, result.stderr

    def check_done(self):
        assert not self._parts(), self._parts()
        assert self._files(self.directories()) == self.before, "not all files were put aside unchanged"


class RebuildApart(Rebuild):
    def __init__(self, material):
        super().__init__(material)
        self.log = os.path.join(self.root, "log")


KILLINGS = (Restore, RestoreApart, Import, Rebuild, RebuildApart)


def alone_tools_are_killed_at_operations_on_files(server):
    if server != "quorate":
        raise harness.Skipped("about our own tools")
    material = Material()
    try:
        chance, notes = seed.chance("tools"), []
        for kind in KILLINGS:
            killing = kind(material)
            count = len(killing.steps())
            middle = count // 2
            others = [operation for operation in range(1, count + 1) if operation != middle]
            chosen = [middle, *chance.sample(others, SUITE_STEPS - 1)]
            left = [killing.kill(operation) for operation in chosen]
            notes.append(f"{kind.__name__} {', '.join(map(str, chosen))} of {count}, "
                         f"{left.count('refused')} refused")
            assert left[0] == "refused", f"{kind.__name__}: the incomplete directory is {left[0]}"
        return "; ".join(notes)
    finally:
        material.remove()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", metavar="TEXT", help="only commands with TEXT in it")
    options = parser.parse_args()
    harness.prepare("quorate")
    material = Material()
    for kind in KILLINGS:
        if options.filter not in kind.__name__:
            continue
        killing = kind(material)
        steps = killing.steps()
        counts = {}
        for operation, step in enumerate(steps, start=1):
            left = killing.kill(operation)
            counts[left] = counts.get(left, 0) + 1
            print(f"{kind.__name__:13} {operation:4} {left:10} {step}", flush=True)
        print(f"{kind.__name__}: {len(steps)} kills, all well: {json.dumps(counts)}", flush=True)
    material.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
