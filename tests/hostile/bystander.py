# SPDX-License-Identifier: Apache-2.0
"""A well-behaved client, and measurements of a server's memory while other clients misbehave."""

import threading

import zkwire as zk

PATIENCE_SECONDS = 20


class Bystander:
    """Writes and reads a node of its own on one member, in a thread of its own, until it is closed.
    Use as a context manager; progress() and the end of the `with` raise its errors."""

    def __init__(self, address):
        self.connection = zk.Connection(address, timeout_ms=30000, timeout=PATIENCE_SECONDS)
        self.path = self.connection.create("/bystander-", b"", zk.EPHEMERAL_SEQUENTIAL)
        self.changed = threading.Condition()
        self.operations = 0
        self.stopping = False
        self.error = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        try:
            version = 0
            while not self.stopping:
                data = b"%d" % version
                version += 1
                stat = self.connection.set(self.path, data)
                assert stat.version == version, f"version {stat.version} after write {version}"
                assert self.connection.get(self.path)[0] == data, "a read does not show the write"
                with self.changed:
                    self.operations += 2
                    self.changed.notify_all()
        except Exception as error:  # raised by progress() and at the end
            with self.changed:
                self.error = error
                self.changed.notify_all()

    def progress(self, count=20):
        """Waits until `count` more operations are done."""
        with self.changed:
            goal = self.operations + count
            self.changed.wait_for(lambda: self.error or self.operations >= goal, PATIENCE_SECONDS)
            self._check()
            assert self.operations >= goal, (
                f"the bystander did only {count - goal + self.operations} of {count} operations in "
                f"{PATIENCE_SECONDS} s")

    def _check(self):
        if self.error:
            raise AssertionError(f"the bystander's connection failed: {self.error}") from self.error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.stopping = True
        self.thread.join(PATIENCE_SECONDS)
        if kind is None:
            self._check()
            self.connection.close()
        self.connection.abandon()


def memory_mib(pid, field="VmRSS"):
    """Returns the resident memory of a process, or with VmHWM its peak."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) // 1024
    raise AssertionError(f"process {pid} has ended")


class Memory:
    """Measures how much the memory of a member grew since this object was made, and checks a generous bound."""

    def __init__(self, cluster, member=1):
        self.pid = cluster.pids()[member - 1]
        self.before = memory_mib(self.pid)

    def note(self, growth_max_mib):
        now = memory_mib(self.pid)
        note = f"memory {self.before} -> {now} MiB"
        assert now - self.before <= growth_max_mib, f"{note}; {growth_max_mib} MiB more are allowed"
        return note


class Peak:
    """Measures the peak of a member's memory since this object was made."""

    def __init__(self, cluster, member=1):
        self.pid = cluster.pids()[member - 1]
        with open(f"/proc/{self.pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # the peak begins again at the present memory
        self.before = memory_mib(self.pid)

    def note(self, growth_max_mib):
        peak = memory_mib(self.pid, "VmHWM")
        note = f"memory {self.before} MiB, peak {peak} MiB"
        assert peak - self.before <= growth_max_mib, f"{note}; {growth_max_mib} MiB more are allowed"
        return note


def monitor(address):
    """Returns the values of mntr."""
    lines = zk.four_letter(address, "mntr", PATIENCE_SECONDS).splitlines()
    return dict(line.split("\t", 1) for line in lines)
