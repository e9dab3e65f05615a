# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests with real processes: clusters on free ports that are always cleaned up, a
killer that kills members one at a time, and a runner that prints a line for each test."""

import argparse
import atexit
import contextlib
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import zkwire as zk

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
TOOL = os.path.join(ROOT, "tools/cluster")
SERVERS = {
    "quorate": os.path.join(ROOT, ".bazel/opt-bin/rpc/quorated/quorated"),
    "zookeeper": os.path.join(ROOT, "tests/lib/zookeeper_server"),
}
HOST = "127.0.0.1"
WAIT_SECONDS = 20  # for conditions that hold soon
PORTS_EACH = 500  # the ports of a cluster are base + 1 to base + 499
# The range ends below the ports that the kernel uses for outgoing connections.
FIRST_PORT, LAST_PORT = 12000, 32000


def end_of(text, lines=25):
    return "\n".join(text.splitlines()[-lines:])


def run_in_group(command, seconds, directory=None, lines=25):
    """Runs a program, with its temporary files in `directory` if that is given. Returns (0 or the problem, the last `lines` of
    its output). When this returns or raises, the program and all processes that it started have ended."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True,
                               env=dict(os.environ, TMPDIR=directory) if directory else None)
    try:
        output, _ = process.communicate(timeout=seconds)
        return (f"exit status {process.returncode}" if process.returncode else 0), end_of(output, lines)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return f"not done after {seconds} s", end_of(process.communicate()[0], lines)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for_exit(process, seconds):
    """Returns whether a child process of this one ends within `seconds`."""
    if process.poll() is None:
        descriptor = os.pidfd_open(process.pid)
        try:
            select.select([descriptor], [], [], seconds)
        finally:
            os.close(descriptor)
    return process.poll() is not None


def wait_for(what, condition, seconds):
    """Waits until the condition holds, which must be within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


class Reservation:
    """A range of free ports. A socket bound to its base, which no member uses, reserves the range as long as this
    object lives, so that other test runs do not take it."""

    def __init__(self, members):
        bases = list(range(FIRST_PORT, LAST_PORT, PORTS_EACH))
        random.shuffle(bases)
        for base in bases:
            holder = socket.socket()
            try:
                holder.bind((HOST, base))
                for offset in (0, 100, 200, 300, 400):
                    for i in range(1, members + 1):
                        with socket.socket() as probe:
                            # As servers do, so that closed connections do not block the port.
                            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                            probe.bind((HOST, base + offset + i))
            except OSError:
                holder.close()
                continue
            self.base, self.holder = base, holder
            return
        raise RuntimeError(f"no free range of ports between {FIRST_PORT} and {LAST_PORT}")

    def release(self):
        self.holder.close()


class Cluster:
    """A running cluster, driven through tools/cluster. Use as a context manager."""

    def __init__(self, server="quorate", size=3, settings=(), start=True, directory=None,
                 environment=None, tls=False, size_max=0):
        """`directory`: the directory for its files, if not a temporary one. `environment`: variables that its servers
        have in addition to those of this process. `tls`: whether all ports require TLS. `size_max`: the highest number
        of a member that is added later."""
        self.size, self.tls = size, tls
        self.members = list(range(1, size + 1))
        # Quorate promises, and ZooKeeper does not, that clients of other members stay connected when the
        # leader dies.
        self.keeps_connections = server == "quorate"
        self.is_java = server == "zookeeper"
        self.environment = dict(os.environ, **(environment or {}))
        if server != "quorate":
            self.environment["QUORATED"] = SERVERS[server]
        self.ports = Reservation(max(size, size_max))
        self.parent = tempfile.mkdtemp(prefix="quorate-test-", dir=directory)
        self.dir = os.path.join(self.parent, "cluster")
        self.settings = list(settings)
        atexit.register(self.remove)
        if start:
            self.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None and issubclass(kind, Exception) and not issubclass(kind, BeginAnew):
            print(self.diagnosis(), flush=True)
        self.remove()

    def command(self, *arguments, check=True, timeout=90):
        """Runs tools/cluster, and returns its standard output. Raises RuntimeError with the program's errors."""
        result = subprocess.run(
            [TOOL, "--dir", self.dir, *map(str, arguments)], env=self.environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False)
        if check and result.returncode != 0:
            raise RuntimeError(f"tools/cluster {' '.join(map(str, arguments))} failed with status "
                               f"{result.returncode}:\n{result.stdout}{result.stderr}")
        return result.stdout.strip() if check else result

    def start(self):
        settings = [word for line in self.settings for word in ("--set", line)]
        self.command("start", self.size, "--base-port", self.ports.base, *settings, *(["--tls"] * self.tls))

    def address(self, member):
        return f"{HOST}:{self.ports.base + member}"

    def hosts(self):
        return ",".join(self.address(i) for i in self.numbers())

    def numbers(self):
        return self.members

    def grpc(self, *members):
        """Returns the gRPC addresses of some members, or of all."""
        return ",".join(f"{HOST}:{self.ports.base + 100 + i}" for i in members or self.numbers())

    def add(self, member, *settings, observer=False):
        """Starts a new member, and waits until it is one of the cluster."""
        self.command("observer" if observer else "add", member, *settings)
        self.members = sorted([*self.members, member])

    def drop(self, member):
        """Takes a member out of the cluster, and stops it."""
        self.command("remove", member)
        self.members.remove(member)

    def leader(self, timeout=15):
        """Returns the number of the leader; waits until there is one."""
        deadline = time.monotonic() + timeout
        while True:
            result = self.command("leader", check=False)
            if result.returncode == 0:
                return int(result.stdout)
            if time.monotonic() > deadline:
                raise RuntimeError(f"no leader within {timeout} s: {result.stderr}")
            time.sleep(0.05)

    def others(self, *members):
        return [i for i in self.numbers() if i not in members]

    def followers(self):
        """Returns the members other than the leader. The leader may change between two calls: a test that needs both
        calls leader(), and then others()."""
        return self.others(self.leader())

    def pids(self):
        return [int(pid) for pid in self.command("pids").split()]

    def kill(self, member):
        self.command("kill", member)

    def kill_all(self):
        """Kills all members at once. When this returns they have ended; a member that waits for its disk takes a
        while."""
        descriptors = []
        try:
            for pid in filter(None, self.pids()):
                descriptors.append(os.pidfd_open(pid))
            for descriptor in descriptors:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            for descriptor in descriptors:
                select.select([descriptor], [], [])
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def restart(self, member):
        self.command("restart", member)

    def member_dir(self, member):
        return os.path.join(self.dir, str(member))

    def log(self, member):
        try:
            with open(os.path.join(self.member_dir(member), "server.log"), encoding="utf-8",
                      errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def monitor(self, member):
        """Returns the answer to mntr as {key without zk_: text}; {} if there is none."""
        try:
            lines = zk.four_letter(self.address(member), "mntr").splitlines()
        except (zk.Closed, OSError):
            return {}
        return dict(line[len("zk_"):].split("\t", 1) for line in lines if "\t" in line)

    def wait_until(self, what, condition):
        """Waits until the condition holds, which must be within WAIT_SECONDS."""
        wait_for(what, condition, WAIT_SECONDS)

    def check_alive(self):
        """Raises with the end of the log if a member has ended by itself (tests restart the members that they kill).
        Starts that member again, so that the next test does not fail because of it."""
        dead = [i for i, pid in zip(self.numbers(), self.pids()) if not pid]
        if not dead:
            return
        logs = "\n".join(f"--- server.log of member {i}\n" + "\n".join(self.log(i).splitlines()[-25:])
                         for i in dead)
        for i in dead:
            self.command("restart", i, check=False)
        raise AssertionError(f"member {dead} died by itself\n{logs}")

    def diagnosis(self, lines=30):
        """Returns the state of the members, the end of their logs, and the stacks of ZooKeeper's threads."""
        status = self.command("status", check=False)
        parts = [status.stdout + status.stderr]
        for i in self.numbers():
            tail = self.log(i).splitlines()[-lines:]
            parts.append("\n".join([f"    --- server.log of member {i}"] + ["    " + t for t in tail]))
        if self.is_java:
            for i, pid in ((i, pid) for i, pid in zip(self.numbers(), self.pids()) if pid):
                _, threads = run_in_group(["jstack", str(pid)], WAIT_SECONDS, self.parent, lines=500)
                parts.append(f"    --- threads of member {i}\n{threads}")
        return "\n".join(parts)

    def remove(self):
        if not os.path.exists(self.parent):
            return
        if os.path.exists(os.path.join(self.dir, "cluster.conf")):
            with contextlib.suppress(Exception):
                for i, pid in zip(self.numbers(), self.pids()):
                    if pid:
                        self.command("kill", i, check=False)
                self.command("wipe", check=False)
        shutil.rmtree(self.parent, ignore_errors=True)
        self.ports.release()


class Killer:
    """Kills members with SIGKILL and restarts them, for `seconds` or until it is stopped. It kills each member equally
    often, and the leader first if there is a choice. At most one member is down at any time. stop() raises an error of
    the killer."""

    def __init__(self, cluster, seconds, down_seconds=0.4, settle_seconds=0.6):
        self.cluster, self.seconds = cluster, seconds
        self.down_seconds, self.settle_seconds = down_seconds, settle_seconds
        self.kills = 0
        self.error = None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self.thread.start()

    def _run(self):
        try:
            end = time.monotonic() + self.seconds
            killed = dict.fromkeys(self.cluster.numbers(), 0)
            self.stopping.wait(self.settle_seconds)
            while not self.stopping.is_set() and time.monotonic() < end:
                self.cluster.check_alive()
                leader = self.cluster.leader()
                victim = min(self.cluster.numbers(), key=lambda i: (killed[i], i != leader))
                self.cluster.kill(victim)
                killed[victim] += 1
                self.kills += 1
                self.stopping.wait(self.down_seconds)
                self.cluster.restart(victim)
                self.stopping.wait(self.settle_seconds)
        except Exception as error:  # reported by stop()
            self.error = error

    def stop(self):
        self.stopping.set()
        self.thread.join()
        if self.error:
            raise self.error
        return self.kills


class Skipped(Exception):
    """The test does not apply to this server."""


class BeginAnew(Exception):
    """The test cannot go on for a reason that is not under test; begun_anew() starts it again."""


ATTEMPTS = 3


def begun_anew(function, *arguments):
    """Runs a test, again after BeginAnew, at most ATTEMPTS times. Returns the result of the test."""
    for _ in range(ATTEMPTS - 1):
        try:
            return function(*arguments)
        except BeginAnew as reason:
            print(f"     started again: {reason}", flush=True)
    return function(*arguments)


class Runner:
    """Runs tests in order, prints a line for each, and counts them. Skipped tests do not count as passed; the last line
    has their number."""

    def __init__(self, pattern=""):
        self.pattern = pattern
        self.passed, self.failed, self.skipped = 0, [], 0

    def wants(self, name):
        return self.pattern in name

    def run(self, name, function, *arguments):
        if not self.wants(name):
            return
        started = time.monotonic()
        try:
            note = function(*arguments) or ""
        except Skipped as reason:
            self.skipped += 1
            print(f"skip {name}: {reason}", flush=True)
            return
        except Exception:
            self.failed.append(name)
            print("".join("     " + line for line in traceback.format_exc().splitlines(True)))
            print(f"FAIL {name}  ({time.monotonic() - started:.1f} s)", flush=True)
            return
        self.passed += 1
        print(f"ok   {name}  ({time.monotonic() - started:.1f} s)  {note}".rstrip(), flush=True)

    def run_modules(self, suite, modules, server="quorate", settings=()):
        """Runs the tests of modules, which are the functions with these prefixes: test_...(), alone_...(server), and
        shared_...(cluster). The shared_ tests of a module share a cluster with `settings`, whose members may end only
        because the test ends them."""
        for module in modules:
            label = f"{suite} {module.__name__.split('.')[-1].replace('_', ' ')}:"

            def tests(prefix, module=module, label=label):
                return [(f"{label} {name[len(prefix):].replace('_', ' ')}", function)
                        for name, function in list(vars(module).items())
                        if name.startswith(prefix) and callable(function)]

            for name, function in tests("test_"):
                self.run(name, function)
            for name, function in tests("alone_"):
                self.run(name, function, server)
            self._run_shared([test for test in tests("shared_") if self.wants(test[0])], server, settings)

    def _run_shared(self, tests, server, settings):
        if not tests:
            return

        def run(function, cluster):
            try:
                return function(cluster)
            finally:
                cluster.check_alive()

        try:
            with Cluster(server, settings=settings) as cluster:
                for name, function in tests:
                    self.run(name, run, function, cluster)
        except RuntimeError as error:
            self.abort([name for name, _ in tests], error)

    def abort(self, names, error):
        """Counts the tests of `names` as failed, because their cluster is broken."""
        for name in names:
            self.failed.append(name)
            print(f"FAIL {name}  (its cluster is broken)", flush=True)
        print(f"     {error}", flush=True)

    def finish(self):
        for name in self.failed:
            print(f"failed: {name}")
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        print(f"{self.passed} passed, {len(self.failed)} failed{skipped}", flush=True)
        return 1 if self.failed or not self.passed else 0


def suite_arguments(description):
    """The options that every suite has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--filter", default="", metavar="TEXT", help="only tests with TEXT in the name")
    return parser


def arguments(description):
    """The options of a suite that runs against servers."""
    parser = suite_arguments(description)
    parser.add_argument("--server", choices=sorted(SERVERS), default="quorate",
                        help="zookeeper: run the same tests against Debian's ZooKeeper, to show "
                        "that the tests are right")
    return parser


def end_on_signals():
    """Makes signals end the tests with a clean-up."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))


def prepare(server):
    """Makes signals end the tests with a clean-up, and exits at once if there is no server to test."""
    end_on_signals()
    path = SERVERS[server]
    if server == "quorate":
        path = os.environ.get("QUORATED", path)
    if not os.access(path, os.X_OK):
        sys.exit(f"{path} is missing: bazel build --config=opt //rpc/quorated")
