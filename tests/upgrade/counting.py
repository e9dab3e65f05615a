# SPDX-License-Identifier: Apache-2.0
"""A client that counts its writes while servers are replaced, so that a lost write and one that is applied twice are seen."""

import threading
import time

import zkwire as zk

SESSION_MS = 30000
# The longest time without a server that answers. Members are replaced one at a time.
PATIENCE_SECONDS = 60


class CountingClient:
    """A session that sets one znode again and again, and moves to the next member when it loses its connection. The
    version of the znode counts the writes that were applied. Use as a context manager; leaving it checks the count."""

    def __init__(self, addresses, path):
        self.addresses, self.path = list(addresses), path
        self.written = self.moves = self.unanswered = 0
        self.error = None
        self._connection = zk.Connection(self.addresses[0], timeout_ms=SESSION_MS)
        self._session = self._connection.session
        self._connection.create(path, b"0")
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _attach(self):
        """Connects to the first member that takes the session, beginning behind the one that was used last."""
        self._connection.abandon()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            self.addresses.append(self.addresses.pop(0))
            try:
                self._connection = zk.Connection(self.addresses[0], SESSION_MS, self._session,
                                                 self._connection.last_zxid, timeout=5)
                return
            except zk.SessionRefused:
                raise
            except zk.Closed:
                time.sleep(0.02)
        raise AssertionError(f"{self.path}: no server has taken the session within {PATIENCE_SECONDS} s")

    def _outcome(self):
        """Returns how many writes were applied, after a write without an answer. The session has moved, so a request of its
        earlier connection is refused from now on."""
        while True:
            try:
                self._attach()
                self._connection.sync()
                self.moves += 1
                return self._connection.get(self.path)[1].version
            except zk.Closed:
                continue

    def _write(self):
        following = self.written + 1
        try:
            version = self._connection.set(self.path, str(following).encode()).version
        except zk.Closed:
            self.unanswered += 1
            version = self._outcome()
            if version == self.written:
                return  # it was not applied: again
        assert version == following, f"{version} writes were applied, not {following}"
        self.written = following

    def _run(self):
        try:
            while not self._ends.is_set():
                self._write()
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def __enter__(self):
        self._thread.start()
        return self

    def wait_for_more(self, count=20):
        """Waits until it has written `count` more."""
        goal, deadline = self.written + count, time.monotonic() + PATIENCE_SECONDS
        while self.written < goal and self.error is None:
            assert time.monotonic() < deadline, f"{self.path}: no write since {self.written}"
            time.sleep(0.01)
        assert self.error is None, f"{self.path}, after {self.written} writes: {self.error!r}"

    def __exit__(self, kind, *_):
        self._ends.set()
        self._thread.join()
        try:
            if kind is None:
                assert self.error is None, f"{self.path}, after {self.written} writes: {self.error!r}"
                data, stat = self._connection.get(self.path)
                assert (int(data), stat.version) == (self.written, self.written), (data, stat, self.written)
        finally:
            self._connection.abandon()
