#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Lets a system call of a server's start fail, and with it all later calls of that kind on the same file. Either the
server starts nevertheless, or it ends within a bounded time with a status for failed starts, and its last line names
the file or the port, the reason, and what to do about it.

  tests/operator/start_failures.py --all [--filter TEXT]    every call with every error, some minutes
  tests/operator/start_failures.py --seed N                 the calls that a run with that seed has chosen

As a module of tests/operator/run it tests some of the calls."""

import argparse
import collections
import concurrent.futures
import contextlib
import errno
import itertools
import os
import random
import re
import selectors
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), HERE]
import harness  # noqa: E402
import preload  # noqa: E402
import server as servers  # noqa: E402
import zkwire as zk  # noqa: E402

SERVES = "listening for ZooKeeper clients on"
LEADS = "this server has caught up with its leader"
SMALL_LOG = "logSegmentBytes=1048576\n"  # files of 1 MiB, which take less time to read
SECONDS = 30  # the longest time of a start, or until the server ends
AT_ONCE = 3
SUITE_CALLS = 60  # calls that are tested for each kind of start

# The errors with which calls of each kind fail.
ERRORS = {
    "open": (errno.EACCES, errno.EMFILE, errno.EIO), "opendir": (errno.EACCES, errno.EMFILE),
    "create": (errno.EACCES, errno.ENOSPC, errno.EMFILE, errno.EROFS), "mkdir": (errno.EACCES, errno.ENOSPC),
    "read": (errno.EIO,), "write": (errno.EIO, errno.ENOSPC), "sync": (errno.EIO,),
    "truncate": (errno.EIO,), "allocate": (errno.EIO, errno.ENOSPC), "lock": (errno.ENOLCK,),
    "stat": (errno.EACCES, errno.EIO), "space": (errno.EIO,), "rename": (errno.EACCES, errno.EIO),
    "link": (errno.EIO,), "remove": (errno.EACCES, errno.EIO), "bind": (errno.EADDRINUSE, errno.EACCES),
    "listen": (errno.EADDRINUSE,), "socket": (errno.EMFILE,), "epoll_create1": (errno.EMFILE,),
    "eventfd": (errno.EMFILE,), "timerfd_create": (errno.EMFILE,), "pthread_create": (errno.EAGAIN,),
    "mmap": (errno.ENOMEM,),
    "gRPC-socket": (errno.EMFILE,), "gRPC-epoll_create1": (errno.EMFILE,), "gRPC-eventfd": (errno.EMFILE,),
    "gRPC-pthread_create": (errno.EAGAIN,),
}
# Patterns of the advice that the last line must have for each error.
WAYS_OUT = {
    errno.EACCES: "as the user that owns its files|running as user|CAP_NET_BIND_SERVICE",
    errno.EROFS: "writable",
    errno.EMFILE: "ulimit -n", errno.ENOSPC: "[Ff]ree some space", errno.EIO: "dmesg", errno.ENOLCK: "lock",
    errno.EADDRINUSE: "ss -ltnp", errno.EAGAIN: "ulimit -u", errno.ENOMEM: "memory of",
}
# gRPC does not report the reason: it aborts, or reports that it cannot listen.
OF_GRPC = "cannot start gRPC .*ulimit -n.*ulimit -u|gRPC .*start the server again"

Call = collections.namedtuple("Call", "step count error")


class Start:
    """A kind of start, and a directory in which it is repeated."""
    members = ()
    has_data = False

    def __init__(self, library, template=None):
        self.library = library
        self.ports = harness.Reservation(3)
        self.root = tempfile.mkdtemp(prefix="quorate-operator-")
        self.template = template

    def close(self):
        self.ports.release()
        shutil.rmtree(self.root, ignore_errors=True)

    def begin(self):
        """Makes the directory as it is before the start."""
        base = self.ports.base
        for name in os.listdir(self.root):
            path = os.path.join(self.root, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        if self.template is not None:
            shutil.copytree(self.template, f"{self.root}/data")
        members = "".join(f"server.{i}=127.0.0.1:{base + 200 + i}:{base + 300 + i}\n" for i in self.members)
        servers.write(f"{self.root}/zoo.cfg",
                      f"dataDir={self.root}/data\nclientPort={base + 1}\nclientPortAddress=127.0.0.1\n"
                      "admin.enableServer=false\n"
                      f"grpcPort={base + 101}\n{SMALL_LOG}{members}")
        if self.members:
            servers.write(f"{self.root}/data/myid", "1\n")

    def run(self, environment):
        """Starts the server. Returns (exit status, or None if it serves; all its output)."""
        self.begin()
        process = subprocess.Popen([servers.quorated(), f"{self.root}/zoo.cfg"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(
                                       os.environ, LD_PRELOAD=self.library, FAIL_AT_DIRECTORY=self.root,
                                       **environment))
        try:
            return self.wait(process)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    @staticmethod
    def wait(process):
        """Waits until the server serves or ends. Returns the same as run()."""
        until = time.monotonic() + SECONDS
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                left = until - time.monotonic()
                assert left > 0 and selector.select(left), f"the server hangs:\n{said.decode(errors='replace')}"
                piece = os.read(process.stdout.fileno(), 1 << 16)
                said += piece
                text = said.decode(errors="replace")
                if SERVES in re.sub(r"gRPC " + SERVES, "", text):
                    return None, text
                if not piece:
                    return process.wait(timeout=SECONDS), text

    def calls(self):
        """Returns every call with every error."""
        report = f"{self.root}.report"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(report)
        status, said = self.run({"FAIL_AT_REPORT": report})
        assert status is None, said
        with open(report, encoding="utf-8") as file:
            counts = collections.Counter(file.read().splitlines())
        os.unlink(report)
        unknown = {step.split()[0] for step in counts} - set(ERRORS)
        assert not unknown, f"not in ERRORS: {unknown}"
        return [Call(step, number, error) for step, count in sorted(counts.items())
                for number in range(1, count + 1) for error in ERRORS[step.split()[0]]]

    def check(self, call):
        """Lets the call fail. Returns "" or the problem."""
        failed = f"{self.root}.failed"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(failed)
        try:
            status, said = self.run({"FAIL_AT_STEP": call.step, "FAIL_AT_COUNT": str(call.count),
                                     "FAIL_AT_ERRNO": str(call.error), "FAIL_AT_FAILED": failed})
        except (AssertionError, subprocess.TimeoutExpired) as error:
            return str(error)
        if status is None:
            return ""
        # Other threads may log until the process has ended.
        critical = [line for line in said.splitlines() if re.match(r"\S+ critical ", line)]
        last = critical[-1] if critical else harness.end_of(said, 1)
        if status not in servers.FAILED_STARTS:
            return f"exit status {status}: {harness.end_of(said, 4)}"
        if not os.path.exists(failed):
            return f"the server ended although no call failed: {last}"
        with open(failed, encoding="utf-8") as file:
            what = file.read()
        os.unlink(failed)
        missing = []
        if not critical:
            missing.append("no line of level critical")
        if call.step.startswith("gRPC-"):
            if not re.search(OF_GRPC, last):
                missing.append("gRPC or the advice is missing")
            return f"{'; '.join(missing)}: {last}" if missing else ""
        if what not in last:
            missing.append(f"{what} is missing")
        if os.strerror(call.error) not in last:
            missing.append(f"the reason, {os.strerror(call.error)}, is missing")
        if not re.search(WAYS_OUT[call.error], last):
            missing.append("the advice is missing")
        return f"{'; '.join(missing)}: {last}" if missing else ""


class FirstStartAlone(Start):
    """A cluster of one, without data."""


class FirstStartOfThree(Start):
    """A new member of three; the others do not run."""
    members = (1, 2, 3)


class StartWithData(Start):
    """A cluster of one, with a log and a checkpoint."""
    has_data = True


KINDS = (FirstStartAlone, FirstStartOfThree, StartWithData)


def make_data(directory):
    """Makes the dataDir of a stopped server in `directory`. Returns it."""
    with servers.place() as (place, port):
        config = servers.write(f"{place}/zoo.cfg", f"dataDir={place}/data\nclientPort={port + 1}\n"
                               f"clientPortAddress=127.0.0.1\nadmin.enableServer=false\nsnapCount=20\n{SMALL_LOG}")
        with servers.Server(config, f"{place}/log") as server:
            server.wait_for_log(LEADS)
            with zk.Connection(f"127.0.0.1:{port + 1}") as connection:
                for i in range(100):
                    connection.create(f"/node-{i}", b"x" * 100)
                connection.close()
            server.process.terminate()
            server.process.wait(timeout=SECONDS)
        return shutil.copytree(f"{place}/data", f"{directory}/data")


def check(kind, chooses, at_once=AT_ONCE):
    """Tests the calls that `chooses` selects from all calls. Returns [(call, problem)], and the number of tested calls."""
    directory = tempfile.mkdtemp(prefix="quorate-operator-")
    starts = []
    try:
        library = preload.build(os.path.join(HERE, "fail_at.c"), directory)
        template = make_data(directory) if kind.has_data else None
        starts = [kind(library, template) for _ in range(at_once)]
        chosen = chooses(starts[0].calls())
        idle = list(starts)

        def one(call):
            start = idle.pop()
            try:
                return call, start.check(call)
            finally:
                idle.append(start)
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            outcomes = list(pool.map(one, chosen))
        return [(call, wrong) for call, wrong in outcomes if wrong], len(chosen)
    finally:
        for start in starts:
            start.close()
        shutil.rmtree(directory)


def _text(call):
    return f"{call.step} ({call.count}.) with {errno.errorcode[call.error]}"


_seed = random.SystemRandom().randrange(1 << 32)


def _some(kind):
    chance = random.Random(f"{_seed} {kind.__name__}")
    wrong, count = check(kind, lambda calls: chance.sample(calls, min(SUITE_CALLS, len(calls))))
    assert not wrong, f"start_failures.py --seed {_seed}:\n" + "\n".join(f"{_text(c)}: {w}" for c, w in wrong)
    return f"{count} calls, seed {_seed}"


def test_a_first_start_in_which_a_call_fails_says_what_and_why_and_what_to_do():
    return _some(FirstStartAlone)


def test_a_first_start_of_a_member_in_which_a_call_fails_says_what_and_why_and_what_to_do():
    return _some(FirstStartOfThree)


def test_a_start_with_data_in_which_a_call_fails_says_what_and_why_and_what_to_do():
    return _some(StartWithData)


def test_a_start_in_which_a_call_of_grpc_fails_says_so():
    wrong, count = check(FirstStartAlone, lambda calls: [call for call in calls if call.step.startswith("gRPC-")])
    assert count > 10, f"only {count} calls of gRPC were made"
    assert not wrong, "\n".join(f"{_text(c)}: {w}" for c, w in wrong)
    return f"{count} calls"


def test_a_start_with_too_few_file_descriptors_names_the_limit():
    """Tests each limit that is too small, up to the first with which the server serves."""
    with servers.place() as (place, port):
        config = servers.write(f"{place}/zoo.cfg", f"dataDir={place}/data\nclientPort={port + 1}\n"
                               f"clientPortAddress=127.0.0.1\nadmin.enableServer=false\ngrpcPort={port + 101}\n{SMALL_LOG}")
        for limit in itertools.count(8):
            assert limit < 200, "the server serves with none of these limits"
            shutil.rmtree(f"{place}/data", ignore_errors=True)
            process = subprocess.Popen(["prlimit", f"--nofile={limit}", servers.quorated(), config],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            try:
                status, said = Start.wait(process)
            finally:
                process.kill()
                process.wait()
                process.stdout.close()
            if status is None:
                return f"8 to {limit - 1}"
            last = harness.end_of(said, 1)
            assert status in servers.FAILED_STARTS and "ulimit -n" in last, (
                f"--nofile={limit}: status {status}: {harness.end_of(said, 4)}")


def main():
    global _seed
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every call with every error")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only calls with TEXT in their name")
    parser.add_argument("--seed", type=int, default=_seed)
    options = parser.parse_args()
    _seed = options.seed
    failures = 0
    for kind in KINDS:
        chance = random.Random(f"{_seed} {kind.__name__}")

        def chosen(calls, chance=chance):
            if not options.all:
                calls = chance.sample(calls, min(SUITE_CALLS, len(calls)))
            return [call for call in calls if options.filter in _text(call)]
        wrong, count = check(kind, chosen)
        for call, what in wrong:
            print(f"{kind.__name__}: {_text(call)}: {what}")
        print(f"{kind.__name__}: {count - len(wrong)} of {count} calls")
        failures += len(wrong)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
