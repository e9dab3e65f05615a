#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Kills real servers right before one of their operations on files: while they serve, take
checkpoints and cut the log, and while they start with an empty disk and install a snapshot. Acknowledged
writes must be there afterwards.

  tests/storage/crash_steps.py [--filter TEXT]    tests every step, and prints a table of them

As a module of tests/storage/run it tests some of the steps."""

import argparse
import atexit
import itertools
import os
import shutil
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), HERE]
import harness  # noqa: E402
import preload  # noqa: E402
import kills  # noqa: E402
import seed  # noqa: E402
import zkwire as zk  # noqa: E402

SETTINGS = ["snapCount=500", "logSegmentBytes=65536", "diskReserveMb=0", "ioThreads=1"]
BASE_NODES = 50
ROUNDS_AT_ONCE = 10  # how many writes to each of these nodes are sent at once
CUT_SECONDS = 40
REACH_SECONDS = 20
TIMES = (1, 2, 5)  # at which occurrence of a step the server is killed
SUITE_STEPS = 5

# The steps of a server, by their purpose. All of them have to happen in a full run.
SERVING = {
    "log": ("write log/#.#.log", "sync log/#.#.log", "write hard_state", "sync hard_state"),
    "next segment": ("create log/#.#.log", "allocate log/#.#.log", "sync log", "truncate log/#.#.log"),
    "cutting the log": ("rename log/#.#.log", "remove log/#.#.log", "remove log/#.#.first.log"),
    "checkpoint": ("create checkpoints/writing", "create checkpoints/writing/#.sst",
                   "write checkpoints/writing/#.sst", "sync checkpoints/writing/#.sst",
                   "create checkpoints/writing/room", "write checkpoints/writing/room",
                   "sync checkpoints/writing/room", "remove checkpoints/writing/room",
                   "link checkpoints/store.#/#.sst", "sync checkpoints/store.#",
                   "write checkpoints/store.#/MANIFEST-#", "sync checkpoints/store.#/MANIFEST-#",
                   "remove checkpoints/writing/#.sst", "remove checkpoints/writing"),
    "merging": ("create checkpoints/store.#/#.sst", "allocate checkpoints/store.#/#.sst",
                "write checkpoints/store.#/#.sst", "truncate checkpoints/store.#/#.sst",
                "sync checkpoints/store.#/#.sst", "remove checkpoints/store.#/#.sst"),
    "start": ("create incarnation.new", "truncate incarnation.new", "write incarnation.new",
              "sync incarnation.new", "rename incarnation.new",
              "create checkpoints/store.#/MANIFEST-#", "allocate checkpoints/store.#/MANIFEST-#",
              "create checkpoints/store.#/#.dbtmp", "write checkpoints/store.#/#.dbtmp",
              "sync checkpoints/store.#/#.dbtmp", "rename checkpoints/store.#/#.dbtmp",
              "create checkpoints/store.#/OPTIONS-#.dbtmp",
              "write checkpoints/store.#/OPTIONS-#.dbtmp", "sync checkpoints/store.#/OPTIONS-#.dbtmp",
              "rename checkpoints/store.#/OPTIONS-#.dbtmp", "create checkpoints/store.#/#.log",
              "truncate checkpoints/store.#/#.log", "remove checkpoints/store.#/MANIFEST-#"),
}
INSTALLING = {
    "new directory": ("create identity.tmp", "truncate identity.tmp", "write identity.tmp",
                      "sync identity.tmp", "rename identity.tmp", "create membership.tmp",
                      "truncate membership.tmp", "write membership.tmp", "sync membership.tmp",
                      "rename membership.tmp", "create hard_state",
                      "truncate hard_state", "allocate hard_state", "create log",
                      "create checkpoints", "create checkpoints/store.#",
                      "create checkpoints/current.new",
                      "rename checkpoints/current.new"),
    "receiving": ("create checkpoints/staging", "create checkpoints/staging/#.sst",
                  "write checkpoints/staging/#.sst", "sync checkpoints/staging/#.sst",
                  "create checkpoints/staging/room", "write checkpoints/staging/room",
                  "sync checkpoints/staging/room", "remove checkpoints/staging/room",
                  "remove checkpoints/staging/#.sst", "remove checkpoints/staging"),
    "the new store": ("link checkpoints/store.#/#.sst", "write checkpoints/store.#/MANIFEST-#",
                      "truncate checkpoints/store.#/MANIFEST-#",
                      "write checkpoints/current.new", "sync checkpoints/current.new",
                      "sync checkpoints"),
    "the old store": ("remove checkpoints/store.#/MANIFEST-#", "remove checkpoints/store.#/CURRENT",
                      "remove checkpoints/store.#/IDENTITY", "remove checkpoints/store.#/OPTIONS-#",
                      "remove checkpoints/store.#/#.log", "remove checkpoints/store.#"),
    "the log": ("create log/#.#.first.log", "allocate log/#.#.first.log", "write log/#.#.first.log",
                "sync log/#.#.first.log", "remove log/#.#.log"),
    "spares": ("create log/spare", "allocate log/spare", "sync log/spare", "create checkpoints/spare",
               "allocate checkpoints/spare", "sync checkpoints/spare"),
}
# Steps at which no server is killed, with the reason.
LEFT_OUT = {
    "truncate log/#.#.first.log": "only if the log has a single file; the same as for any other file that is full",
}


def steps_of(table):
    return [step for steps in table.values() for step in steps]


# All steps of servers, so that a new kind of file is noticed.
KNOWN = {*steps_of(SERVING), *steps_of(INSTALLING), *LEFT_OUT}


def make_killer(directory):
    """Builds the library that kills the process into which it is preloaded, in `directory`. Returns its path."""
    return preload.build(os.path.join(HERE, "kill_at.c"), directory)


class Base:
    """The directories with which each test begins: those of a cluster with checkpoints and a cut log."""

    def __init__(self, size):
        self.cluster = harness.Cluster("quorate", size=size, settings=SETTINGS)
        self.servers = kills.Servers(self.cluster)
        self.directory = tempfile.mkdtemp(prefix="quorate-test-")
        atexit.register(self.remove)
        self.clients = 0
        self.rounds = 0
        self._write_until_cut()
        self.cluster.command("down")
        for member in self.cluster.numbers():
            shutil.copytree(self.cluster.member_dir(member), os.path.join(self.directory, str(member)))
        self.report = os.path.join(self.directory, "steps")
        self.preload = {"LD_PRELOAD": make_killer(self.directory), "KILL_AT_REPORT": self.report}

    def _write_until_cut(self):
        deadline = time.monotonic() + CUT_SECONDS
        with zk.Connection(self.cluster.address(1), timeout=CUT_SECONDS) as connection:
            for i in range(BASE_NODES):
                connection.create(f"/base-{i}")
            while not all(self._is_cut(member) for member in self.cluster.numbers()):
                assert time.monotonic() < deadline, "the logs are not cut"
                for _ in range(ROUNDS_AT_ONCE):
                    for i in range(BASE_NODES):
                        connection.submit(zk.SET_DATA, zk.request_set(f"/base-{i}", b"x" * 100, -1))
                for _ in range(ROUNDS_AT_ONCE * BASE_NODES):
                    assert connection.receive().err == zk.OK
                self.rounds += ROUNDS_AT_ONCE
            connection.close()

    def _is_cut(self, member):
        log = os.path.join(self.cluster.member_dir(member), "log")
        return any(name.endswith(".first.log") for name in os.listdir(log))

    def remove(self):
        self.servers.remove()
        self.cluster.remove()
        shutil.rmtree(self.directory, ignore_errors=True)

    def restore(self):
        self.servers.remove()
        for member in self.cluster.numbers():
            directory = self.cluster.member_dir(member)
            shutil.rmtree(directory)
            shutil.copytree(os.path.join(self.directory, str(member)), directory)

    def new_client(self, member):
        """Starts a client with nodes of its own. Returns it, or None if `member` cannot create these nodes now."""
        self.clients += 1
        try:
            client = kills.Client(self.clients, [self.cluster.address(member)], seed.number)
        except (zk.Closed, zk.ZkError):
            return None
        client.start()
        return client

    def start_to_be_killed(self, member, step, times):
        if os.path.exists(self.report):
            os.unlink(self.report)
        self.servers.start(member, dict(
            os.environ, **self.preload, KILL_AT_DIRECTORY=self.cluster.member_dir(member),
            KILL_AT_STEP=step, KILL_AT=str(times)))
        return self.servers.processes.pop(member)

    def check_steps(self):
        """Checks that the server to be killed made only known steps."""
        with open(self.report, encoding="utf-8") as file:
            unknown = sorted(set(file.read().splitlines()) - KNOWN)
        assert not unknown, f"steps that crash_steps.py does not list: {', '.join(unknown)}"

    def finish(self, client, member):
        """Starts `member` again, and checks the trees of all members."""
        self.servers.start(member)
        deadline = time.monotonic() + kills.PROGRESS_SECONDS
        while client is None:
            assert time.monotonic() < deadline, "the server does not serve again"
            time.sleep(0.02)
            client = self.new_client(member)
        acknowledged = client.acknowledged
        while client.acknowledged < acknowledged + 20 and not client.error:
            self.servers.check()
            assert time.monotonic() < deadline, "no writes are acknowledged after the restart"
            time.sleep(0.01)
        client.pause.set()
        assert client.paused.wait(kills.PROGRESS_SECONDS)
        try:
            if client.error:
                raise AssertionError(f"the client: {client.error}") from client.error
            trees = [self._walk(i, deadline) for i in self.cluster.numbers()]
            for i, tree in zip(self.cluster.numbers(), trees):
                client.check(tree, i)
                assert tree == trees[0], f"members 1 and {i} differ"
                for node in range(BASE_NODES):
                    assert tree[f"/base-{node}"][1].version == self.rounds
        finally:
            client.stopping.set()
            client.join(10)
            client.connection.abandon()

    def _walk(self, member, deadline):
        while True:
            self.servers.check()
            try:
                return kills.walk(self.cluster.address(member))
            except zk.Closed:
                assert time.monotonic() < deadline, f"member {member} does not serve"
                time.sleep(0.05)


def _until_dead(process, begin_work=lambda: True):
    """Returns whether the process was killed at its step in time; kills it otherwise. Calls `begin_work` until that
    returns true."""
    deadline = time.monotonic() + REACH_SECONDS
    died = False
    while not died and not begin_work() and time.monotonic() < deadline:
        died = harness.wait_for_exit(process, 0.02)
    if died or harness.wait_for_exit(process, max(0, deadline - time.monotonic())):
        assert process.returncode == -9, f"the server ended by itself with {process.returncode}"
        return True
    process.kill()
    process.wait()
    return False


def serve(base, step, times):
    """Tests a single server that serves. Returns whether it reached the step."""
    base.restore()
    process = base.start_to_be_killed(1, step, times)
    clients = []

    def begin_work():
        client = base.new_client(1)
        if client is not None:
            clients.append(client)
        return client is not None
    died = _until_dead(process, begin_work)
    base.check_steps()
    base.finish(clients[0] if clients else None, 1)
    return died


def install(base, step, times):
    """Tests member 3 of three with an empty disk. Returns whether it reached the step."""
    base.restore()
    base.servers.lose_disk(3)
    for member in (1, 2):
        base.servers.start(member)
    process = base.start_to_be_killed(3, step, times)
    died = _until_dead(process)
    base.check_steps()
    base.finish(None, 3)
    return died


def _some(server, size, table, run):
    if server != "quorate":
        raise harness.Skipped("about our own files")
    base = Base(size)
    try:
        steps = seed.chance(run.__name__).sample(steps_of(table), SUITE_STEPS)
        missed = [step for step in steps if not run(base, step, 1)]
        assert not missed, f"steps that did not happen: {missed}"
        return ", ".join(steps)
    finally:
        base.remove()


def alone_a_server_is_killed_at_steps_of_its_work(server):
    return _some(server, 1, SERVING, serve)


def alone_a_server_is_killed_at_steps_of_an_installation(server):
    return _some(server, 3, INSTALLING, install)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", metavar="TEXT", help="only steps with TEXT in them")
    options = parser.parse_args()
    harness.prepare("quorate")
    missed, count = [], 0
    for size, table, run in ((1, SERVING, serve), (3, INSTALLING, install)):
        base = Base(size)
        for purpose, steps in table.items():
            for step in (step for step in steps if options.filter in f"{purpose}: {step}"):
                reached = list(itertools.takewhile(lambda times: run(base, step, times), TIMES))
                count += len(reached)
                print(f"{run.__name__:8} {purpose:16} {step:45} killed at {reached}", flush=True)
                if not reached:
                    missed.append(step)
        base.remove()
    print(f"{count} kills, no problem found; steps that did not happen: {missed or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
