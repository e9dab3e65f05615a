#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Lets one step of a server's work on files find the disk full, again and again, while other steps succeed. The
server process goes on, and answers reads and all requests that do not need the step. It answers the others, too,
as soon as there is free space.

  tests/storage/full_steps.py [--filter TEXT]    tests every step

As a module of tests/storage/run it tests some of them."""

import argparse
import os
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), HERE]
import crash_steps  # noqa: E402
import harness  # noqa: E402
import zkwire as zk  # noqa: E402

SECONDS = 40
LONG_SESSION_MS = 40000
NO_CHECKPOINT = "no checkpoint could be written"
NO_LOG = "the log cannot go on"
CHECKPOINT = "written in"
# The steps, and the message that the server logs; None: none, because nothing waits for the step.
STEPS = {
    "write checkpoints/store.#/MANIFEST-#": NO_CHECKPOINT,
    "link checkpoints/store.#/#.sst": NO_CHECKPOINT,
    "create checkpoints/store.#/#.sst": None,
    "create checkpoints/writing": NO_CHECKPOINT,
    "create checkpoints/writing/#.sst": NO_CHECKPOINT,
    "write checkpoints/writing/#.sst": NO_CHECKPOINT,
    "create log/#.#.log": NO_LOG,
    "allocate log/#.#.log": NO_LOG,
    "rename log/#.#.log": None,
}
SUITE_STEPS = list(STEPS)[:3]
WRITES = 300  # how many writes are made while the disk is full


class Filling:
    """A server of `base` that finds the disk full at `step`."""

    def __init__(self, base, step):
        self.base, self.step, self.words = base, step, STEPS[step]
        self.full = os.path.join(base.directory, "full")

    def run(self):
        base = self.base
        base.restore()
        for path in (self.full, base.report):
            if os.path.exists(path):
                os.unlink(path)
        base.servers.start(1, dict(
            os.environ, **base.preload, KILL_AT_DIRECTORY=base.cluster.member_dir(1),
            KILL_AT_STEP=self.step, KILL_AT="0", KILL_AT_FULL=self.full))
        client = self._new_client()
        # The session is opened now, because that needs the log. It is silent during the rest of the test.
        reader = zk.Connection(base.cluster.address(1), LONG_SESSION_MS, timeout=SECONDS)
        said = self._count(self.words) if self.words else 0
        before = self._happened()
        with open(self.full, "wb"):
            pass
        self._wait("the step", client, lambda: self._happened() > before)
        if self.words:
            self._wait("the log line", client, lambda: self._count(self.words) > said)
        if self.words != NO_LOG:
            self._wait_for_writes(client, WRITES)
        again = self._happened()
        self._wait("another attempt", client, lambda: self._happened() > again)
        assert reader.get("/base-0")[1].version == base.rounds
        reader.abandon()
        checkpoints = self._count(CHECKPOINT)
        os.unlink(self.full)
        if self.words == NO_LOG:
            # The client waits for an answer, or its writes were refused.
            client.stopping.set()
            client.connection.abandon()
            client.join(SECONDS)
            client = self._new_client()
        self._wait_for_writes(client, WRITES)
        if self.words == NO_CHECKPOINT:
            self._wait("a checkpoint", client, lambda: self._count(CHECKPOINT) > checkpoints)
        base.servers.kill(1)
        base.finish(client, 1)
        return self._happened() - before

    def _new_client(self):
        """Starts a client as soon as the server accepts writes."""
        deadline = time.monotonic() + SECONDS
        client = None
        while client is None:
            self.base.servers.check()
            assert time.monotonic() < deadline, f"{self.step}: the server accepts no writes"
            client = self.base.new_client(1)
            if client is None:
                time.sleep(0.02)
        return client

    def _happened(self):
        """Returns how often the server reached the step."""
        if not os.path.exists(self.base.report):
            return 0
        with open(self.base.report, encoding="utf-8") as file:
            return file.read().splitlines().count(self.step)

    def _count(self, words):
        return self.base.cluster.log(1).count(words)

    def _wait(self, what, client, condition):
        deadline = time.monotonic() + SECONDS
        while not condition():
            self.base.servers.check()
            assert not client.error or self.words == NO_LOG, client.error
            assert time.monotonic() < deadline, f"{self.step}: {what} does not happen"
            time.sleep(0.02)

    def _wait_for_writes(self, client, count):
        wanted = client.acknowledged + count
        self._wait(f"{count} writes", client, lambda: client.acknowledged >= wanted)


def alone_steps_of_a_server_find_the_disk_full(server):
    if server != "quorate":
        raise harness.Skipped("about our own files")
    base = crash_steps.Base(1)
    try:
        for step in SUITE_STEPS:
            Filling(base, step).run()
        return ", ".join(SUITE_STEPS)
    finally:
        base.remove()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", metavar="TEXT", help="only steps with TEXT in them")
    options = parser.parse_args()
    harness.prepare("quorate")
    base = crash_steps.Base(1)
    for step in (step for step in STEPS if options.filter in step):
        started = time.monotonic()
        times = Filling(base, step).run()
        print(f"{step:45} {times:4} times, all well after {time.monotonic() - started:.1f} s", flush=True)
    base.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
