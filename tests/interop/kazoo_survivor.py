#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Tests a Kazoo client of one member that lives while the leader is killed again and again. Every call is answered,
pipelined calls in their order, each watch fires once, and the connection never changes its state. No call is
repeated.

Prints "round NANOSECONDS" (time.monotonic_ns() at its begin) for each round until its standard input
ends, for SECONDS at most."""

import os
import select
import sys
import threading
import time

import kazoo_common as common

PIPELINE_DEPTH, CALLS_A_ROUND = 16, 8


class Watched:
    """A node with a watch on its data, which must receive one event."""

    def __init__(self, client, path):
        self.client, self.path, self.events, self.fired = client, path, [], threading.Event()
        client.create(path, b"old")
        self._expect(b"old", self._on_event)

    def _on_event(self, event):
        self.events.append(event)
        self.fired.set()

    def _expect(self, wanted, watch=None):
        data, _ = self.client.get(self.path, watch=watch)
        common.check(data == wanted, f"{self.path} holds {data}, not {wanted}")

    def change_and_remove(self):
        common.check(not self.events, f"{self.path} has not changed, and its watch saw {self.events}")
        self.client.set(self.path, b"new", version=0)
        common.check(self.fired.wait(common.PATIENCE_SECONDS), f"the watch on {self.path} never fired")
        self._expect(b"new")
        self.client.delete(self.path, version=1)
        common.check([(event.type, event.path) for event in self.events] == [("CHANGED", self.path)],
                     f"the watch on {self.path} saw {self.events}")


def pipelined(client, path, version):
    """Sends sets and gets alternately, without waiting. Returns the version after them."""
    calls = []
    for i in range(version, version + PIPELINE_DEPTH):
        calls.append((i, client.set_async(path, b"%d" % i), client.get_async(path)))
    for i, setting, getting in calls:
        stat = setting.get(timeout=common.PATIENCE_SECONDS)
        common.check(stat.version == i + 1, f"set {i} without waiting made version {stat.version}")
        data, _ = getting.get(timeout=common.PATIENCE_SECONDS)
        common.check(data == b"%d" % i, f"a get after the set of {i} gave {data}")
    return version + PIPELINE_DEPTH


def work(client, path, version):
    """Does a round. Returns the version after it."""
    watched = Watched(client, path + "/watched")
    for _ in range(CALLS_A_ROUND):
        stat = client.set(path, b"%d" % version, version=version)
        common.check(stat.version == version + 1, f"a set of version {version} made {stat.version}")
        data, _ = client.get(path)
        common.check(data == b"%d" % version, f"a get after the set of {version} gave {data}")
        version += 1
    version = pipelined(client, path, version)
    watched.change_and_remove()
    return version


def program(hosts, seconds):
    end, path = time.monotonic() + seconds, f"/survivor-{os.getpid()}"
    with common.Client(hosts) as client:
        states = []
        client.add_listener(states.append)
        client.create(path)
        lasting = Watched(client, path + "/lasting")  # set before the first kill, fires after the last one
        rounds = version = 0
        while not select.select([sys.stdin], [], [], 0)[0]:
            common.check(time.monotonic() < end, f"standard input did not end within {seconds} s")
            print(f"round {time.monotonic_ns()}", flush=True)
            version = work(client, path, version)
            rounds += 1
        lasting.change_and_remove()
        client.delete(path)
        common.check(not states, f"the connection to a live member changed its state to {states}")
    return f"kazoo survivor: {rounds} rounds"


if __name__ == "__main__":
    common.main(program)
