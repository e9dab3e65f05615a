# SPDX-License-Identifier: Apache-2.0
"""Tests that writes are applied exactly once when they are sent again through any member while leaders die."""

import random
import threading
import time

import harness
import native
from native import types

CLIENTS = 6
SECONDS = 15
# A busy machine may need longer for the kills without which this proves nothing.
KILLS_MIN = 3
SECONDS_MAX = 60


class Client(threading.Thread):
    """Increments a counter of its own by transactions, and sends unanswered transactions again."""

    def __init__(self, cluster, number, ends):
        """`ends`: an Event; when it is set, the client ends."""
        super().__init__(daemon=True)
        self.addresses = cluster.command("grpc").split(",")
        self.path = f"/exactly-once/{number}"
        self.random = random.Random(number)
        self.ends = ends
        self.session = None
        self.id, self.password = 0, None
        self.sequence, self.streams, self.paths, self.error = 0, 0, [], None

    def run(self):
        try:
            self._write([native.create(self.path)])
            while not self.ends.is_set():
                answer = self._write([native.create(self.path + "/n-", b"", types.CREATE_MODE_PERSISTENT_SEQUENTIAL)])
                self.paths.append(answer.write.results[0].path)
                # The client breaks streams itself, too.
                if self.random.random() < 0.02:
                    self._break()
            self.session = self.session or self._open()
            self.session.close()
        except Exception as error:  # reported by the test
            self.error = error
        finally:
            self._break()

    def _break(self):
        if self.session:
            self.session.break_off()
        self.session = None

    def _open(self):
        deadline = time.monotonic() + 20
        while True:
            try:
                session = native.Session(self.random.choice(self.addresses), self.id, self.password)
                self.id, self.password = session.id, session.password
                self.streams += 1
                return session
            except (native.Ended, TimeoutError) as end:
                if getattr(end, "code", "") == "UNAUTHENTICATED" or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _write(self, operations):
        """Sends the write until it is answered. Half of the time, breaks the stream before the answer can arrive."""
        self.sequence += 1
        write = native.session.Request.Write(sequence=self.sequence, operations=operations)
        while True:
            self.session = self.session or self._open()
            try:
                [request] = self.session.send(native.session.Request(write=write),
                                              acknowledged=self.sequence - 1)
                if self.random.random() < 0.02:
                    self._break()
                    continue
                answer = self.session.answer(request, 5)
                assert native.name_of(answer.error) == "OK", answer
                return answer
            except (native.Ended, TimeoutError):
                self._break()


def alone_each_write_is_made_once_while_members_die(server):
    with harness.Cluster(server) as cluster:
        with native.Tree(cluster.command("grpc").split(",")[0]) as tree:
            tree.create("/exactly-once")
        killer = harness.Killer(cluster, SECONDS_MAX)
        ends = threading.Event()
        clients = [Client(cluster, i, ends) for i in range(CLIENTS)]
        started = time.monotonic()
        killer.start()
        for client in clients:
            client.start()
        try:
            while killer.thread.is_alive() and (
                    killer.kills < KILLS_MIN or time.monotonic() < started + SECONDS):
                time.sleep(0.1)
            kills = killer.stop()
        finally:
            ends.set()  # when all members serve again, because a closeSession cannot be repeated
        for client in clients:
            client.join(60)
        writes = streams = 0
        with native.Tree(cluster.command("grpc").split(",")[1]) as tree:
            tree.get("/", linearizable=True)
            for client in clients:
                assert not client.is_alive(), "a client hangs"
                if client.error:
                    raise client.error
                there = [f"{client.path}/{name}" for name in tree.list(client.path).result.children]
                assert sorted(client.paths) == there, (
                    f"{client.path}: {len(client.paths)} were answered, {len(there)} are there")
                assert client.paths == sorted(client.paths)
                writes += len(there)
                streams += client.streams
        assert kills >= KILLS_MIN and writes > 50, f"{kills} kills, {writes} writes"
        return f"{writes} writes over {streams} streams, {kills} kills"
