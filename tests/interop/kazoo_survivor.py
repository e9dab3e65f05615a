#!/usr/bin/python3 -B
"""Kazoo, connected to one member that lives while the leader dies again and again. Every call is answered,
calls that were made without waiting in their order, each watch fires once, and the connection never
changes its state. Nothing is tried again.

Prints "round NANOSECONDS" (time.monotonic_ns(), when it began) for each round until its standard input
ends, for SECONDS at most."""

import os
import select
import sys
import threading
import time

import kazoo_common as common

PIPELINE_DEPTH, CALLS_A_ROUND = 16, 8


class Watched:
    """A node with a watch on its data, which has to see one change."""

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
    """Sets and gets in turn, without waiting; the version then."""
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
    """A round; the version then."""
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
        lasting = Watched(client, path + "/lasting")  # from before the first kill until after the last one
        rounds = version = 0
        while not select.select([sys.stdin], [], [], 0)[0]:
            common.check(time.monotonic() < end, f"nobody ended it within {seconds} s")
            print(f"round {time.monotonic_ns()}", flush=True)
            version = work(client, path, version)
            rounds += 1
        lasting.change_and_remove()
        client.delete(path)
        common.check(not states, f"the connection to a member that lives came to {states}")
    return f"kazoo survivor: {rounds} rounds"


if __name__ == "__main__":
    common.main(program)
