#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Tests disks that return I/O errors. A server that cannot write or sync a file, or cannot read a file that it
needs for its start, ends and names the file: the content of its disk is then unknown, and another attempt could
seem to succeed. No write that needs the disk is acknowledged any more, and clients of the other members go on.
When the disk works again, the server starts with all acknowledged writes.

  tests/storage/disk_errors.py [--filter TEXT] [--seed N]    tests every step

As a module of tests/storage/run it tests some of the steps."""

import argparse
import contextlib
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), HERE]
import crash_steps  # noqa: E402
import harness  # noqa: E402
import kills  # noqa: E402
import seed  # noqa: E402
import zkwire as zk  # noqa: E402

SIZE = 3
SECONDS = 40
GOES_ON_WRITES = 50
QUIET_SECONDS = 0.3  # the time in which an answer that is on its way arrives
ROLES = ("follower", "leader")
# Steps of a server that serves.
LOG_STEPS = ("write log/#.#.log", "sync log/#.#.log")
STEPS = LOG_STEPS + (
    "create log/#.#.log", "allocate log/#.#.log", "sync log", "truncate log/#.#.log",
    "rename log/#.#.log", "remove log/#.#.log", "write hard_state", "sync hard_state",
    "create checkpoints/writing", "create checkpoints/writing/#.sst",
    "write checkpoints/writing/#.sst", "sync checkpoints/writing/#.sst",
    "write checkpoints/writing/room", "remove checkpoints/writing/room",
    "link checkpoints/store.#/#.sst", "sync checkpoints/store.#",
    "write checkpoints/store.#/MANIFEST-#", "sync checkpoints/store.#/MANIFEST-#",
    "create checkpoints/store.#/#.sst", "write checkpoints/store.#/#.sst",
    "sync checkpoints/store.#/#.sst", "read checkpoints/store.#/#.sst",
)
# Steps whose failure does not end a server: the files that it could not remove are not its data, and are removed
# later.
HARMLESS = ("remove checkpoints/writing/#.sst", "remove checkpoints/writing",
            "remove checkpoints/store.#/#.sst")
# The step that every run tests, and how many of the others.
SUITE_STEP, SUITE_OTHERS = "sync log/#.#.log", 2
# Reads of a start.
READS = ("read identity", "read hard_state", "read log/#.#.log", "read incarnation",
         "read checkpoints/store.#/#.sst")
SUITE_READS = 2


class Scene(kills.UnderLoad):
    """Three members, a client that writes at each of them, and disks that fail on request."""

    def __init__(self, cluster):
        super().__init__(cluster, [kills.Client(member, [cluster.address(member)], seed.number)
                                   for member in cluster.numbers()])
        self.library = crash_steps.make_killer(cluster.parent)
        self.probes = 0

    def start(self, member):
        self.servers.start(member, dict(
            os.environ, LD_PRELOAD=self.library, KILL_AT="0", KILL_AT_ERROR=self._error_file(member),
            KILL_AT_DIRECTORY=self.cluster.member_dir(member)))

    def _error_file(self, member):
        return os.path.join(self.cluster.parent, f"error-{member}")

    def break_disk(self, member, step, once):
        """Lets `step` fail on the member's disk. With `once`, only the first operation fails, and a repeated one would
        succeed."""
        path = self._error_file(member)
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(f"{'once ' if once else ''}{step}\n")
        os.rename(path + ".new", path)

    def _is_broken(self, member):
        return os.path.exists(self._error_file(member))

    def mend_disk(self, member):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._error_file(member))

    def member_that_is(self, role):
        """Waits until a member has the role, and returns it."""
        deadline = time.monotonic() + SECONDS
        while True:
            self.servers.check()
            for member in seed.chance(role).sample(self.cluster.numbers(), SIZE):
                with contextlib.suppress(zk.Closed, OSError):
                    if self.cluster.monitor(member).get("server_state") == role:
                        return member
            assert time.monotonic() < deadline, f"no member is a {role}"
            time.sleep(0.05)

    def await_end(self, member, step, said):
        """Waits until the member ends by itself because of an error of `step`. Checks that its log, behind the first
        `said` characters, names the error."""
        process = self.servers.processes[member]
        assert harness.wait_for_exit(process, SECONDS), f"{step} fails, and the server does not end"
        del self.servers.processes[member]
        assert process.returncode in (1, 3), f"{step}: the server ended with {process.returncode}"
        path = f"{self.cluster.member_dir(member)}/{step.split()[1]}"
        pattern = re.escape(path).replace(re.escape("#"), r"\d+") + r"\b.*Input/output error"
        log = self.cluster.log(member)[said:]
        assert re.search(pattern, log), f"{step}: the log does not name the file:\n{harness.end_of(log)}"

    def meet_error(self, role, step):
        """Lets the disk of a member fail once, under load."""
        member = self.member_that_is(role)
        said = len(self.cluster.log(member))
        self.break_disk(member, step, once=True)
        self.await_end(member, step, said)
        others = [client for client in self.clients if client.number != member]
        self.await_progress(others, GOES_ON_WRITES)
        self.start(member)
        self.check_all()

    def outlive_error(self, step):
        """Lets the step fail once. The server and the clients go on."""
        member = self.member_that_is("follower")
        self.break_disk(member, step, once=True)
        self.cluster.wait_until(f"the error of {step}", lambda: not self._is_broken(member))
        self.await_progress(writes=GOES_ON_WRITES)
        self.check_all()

    def need_broken_disk(self, role, step):
        """Stops one of three members and breaks the disk of another one: no write may be acknowledged."""
        self.pause()
        broken, leader = self.member_that_is(role), self.member_that_is("leader")
        down = next(i for i in self.cluster.numbers() if i not in (broken, leader))
        healthy = next(i for i in self.cluster.numbers() if i not in (broken, down))
        self.probes += 1
        path = f"/probe-{self.probes}"
        with zk.Connection(self.cluster.address(healthy), kills.SESSION_MS) as probe:
            self.servers.kill(down)
            probe.create(path, b"acknowledged")
            said = len(self.cluster.log(broken))
            self.break_disk(broken, step, once=False)
            probe.submit(zk.SET_DATA, zk.request_set(path, b"unknown", -1))
            self.await_end(broken, step, said)
            with contextlib.suppress(zk.Closed):
                reply = probe.receive(timeout=QUIET_SECONDS)
                assert reply.err != zk.OK, f"{step} fails at the {role}, but a write is acknowledged"
        self.mend_disk(broken)
        for member in (broken, down):
            self.start(member)
        self.go_on()
        self.check_all()
        with zk.Connection(self.cluster.address(broken)) as reader:
            assert reader.get(path)[0] in (b"acknowledged", b"unknown")

    def start_unreadable(self, step):
        member = self.member_that_is("follower")
        self.servers.kill(member)
        said = len(self.cluster.log(member))
        self.break_disk(member, step, once=False)
        self.start(member)
        self.await_end(member, step, said)
        self.mend_disk(member)
        self.start(member)
        self.check_all()


@contextlib.contextmanager
def running(server):
    if server != "quorate":
        raise harness.Skipped("about our own files")
    with harness.Cluster(server, size=SIZE, settings=kills.SETTINGS) as cluster:
        scene = Scene(cluster)
        try:
            scene.begin()
            yield scene
        finally:
            scene.end()


def _meet_some(server, role):
    others = [step for step in STEPS if step != SUITE_STEP]
    steps = [SUITE_STEP, *seed.chance(f"disk of the {role}").sample(others, SUITE_OTHERS)]
    with running(server) as scene:
        for step in steps:
            scene.meet_error(role, step)
    return ", ".join(steps)


def alone_a_follower_ends_when_its_disk_fails(server):
    return _meet_some(server, "follower")


def alone_the_leader_ends_when_its_disk_fails(server):
    return _meet_some(server, "leader")


def alone_a_server_goes_on_when_it_cannot_remove_what_it_does_not_need(server):
    step = seed.chance("harmless").choice(HARMLESS)
    with running(server) as scene:
        scene.outlive_error(step)
    return step


def alone_what_needs_a_broken_disk_is_not_acknowledged(server):
    with running(server) as scene:
        for role in ROLES:
            for step in LOG_STEPS:
                scene.need_broken_disk(role, step)


def alone_a_server_does_not_start_from_what_it_cannot_read(server):
    steps = seed.chance("reads").sample(READS, SUITE_READS)
    with running(server) as scene:
        for step in steps:
            scene.start_unreadable(step)
    return ", ".join(steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", metavar="TEXT", help="only steps with TEXT in them")
    seed.add_option(parser)
    options = parser.parse_args()
    seed.use(options)
    harness.prepare("quorate")
    work = [(f"the {role} meets", Scene.meet_error, (role, step)) for role in ROLES for step in STEPS]
    work += [(f"the {role} is needed for", Scene.need_broken_disk, (role, step))
             for role in ROLES for step in LOG_STEPS]
    work += [("goes on without", Scene.outlive_error, (step,)) for step in HARMLESS]
    work += [("starts without", Scene.start_unreadable, (step,)) for step in READS]
    with running("quorate") as scene:
        for what, function, arguments in work:
            if options.filter not in f"{what} {arguments[-1]}":
                continue
            started = time.monotonic()
            function(scene, *arguments)
            print(f"{what:27} {arguments[-1]:40} all well after {time.monotonic() - started:.1f} s",
                  flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
