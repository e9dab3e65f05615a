# SPDX-License-Identifier: Apache-2.0
"""A client that writes all the time, so that a test sees whether a change of members disturbs it."""

import threading

import zkwire as zk


class Writer:
    """Creates one znode after the other, on one connection to one member. Use as a context manager; leaving it checks
    that there was no error, that it went on, and that the znodes are all there."""

    def __init__(self, cluster, member, parent):
        self.cluster, self.parent = cluster, parent
        self.connection = zk.Connection(cluster.address(member))
        self.connection.create(parent)
        self.written = 0
        self.error = None
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            while not self._ends.is_set():
                self.connection.create(f"{self.parent}/{self.written}", b"x")
                self.written += 1
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def __enter__(self):
        self._thread.start()
        return self

    def wait_for_more(self):
        """Waits until it has written more, by the members that there are now."""
        goal = self.written + 20
        self.cluster.wait_until("the writer goes on", lambda: self.error or self.written >= goal)
        assert self.error is None, f"after {self.written} writes: {self.error!r}"

    def __exit__(self, kind, *_):
        self._ends.set()
        self._thread.join()
        if kind is None:
            assert self.error is None, f"after {self.written} writes: {self.error!r}"
            assert len(self.connection.children(self.parent)) == self.written
        self.connection.close()
