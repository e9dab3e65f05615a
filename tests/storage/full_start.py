# SPDX-License-Identifier: Apache-2.0
"""Tests disks without any free space, not even for a moment. Servers start on them, serve reads, elect a leader
and delete nodes, and go on by themselves when there is free space."""

import contextlib
import os
import threading

import full_disk
import harness
import kills
import zkwire as zk

DELETED = 400
MANY_DELETIONS = 40_000  # more than two files of the log hold
READ_SECONDS = 30


class KeptFull(threading.Thread):
    """Fills some disks again as soon as any of their space becomes free."""

    def __init__(self, *disks):
        super().__init__(daemon=True)
        self.disks, self.stopping, self.error = disks, threading.Event(), None

    def __enter__(self):
        self._fill()
        self.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.join()
        assert self.error is None, self.error

    def _fill(self):
        for disk in self.disks:
            disk.fill(0)

    def run(self):
        try:
            while not self.stopping.wait(0.005):
                self._fill()
        except Exception as error:  # reported at the end
            self.error = error


class Stopped:
    """A cluster that was killed, with nodes and checkpoints, to be started by hand."""

    def __init__(self, server, size):
        self.cluster = full_disk.DiskCluster(server, size)
        self.servers = kills.Servers(self.cluster)
        self.paths = []  # the paths of the existing nodes
        self.written = 0
        try:
            with zk.Connection(self.cluster.address(1)) as connection:
                connection.create("/kept")
                self.write(connection, 3000)
                connection.close()
            for member in self.cluster.numbers():
                self.cluster.wait_until(f"a checkpoint of member {member}",
                                        lambda: "written in" in self.cluster.log(member))
                # A server with data makes its ballast files within half a second.
                self.cluster.wait_until(f"the ballast files of member {member}", lambda: self.has_ballast(member))
            # Kills all at once, because a member that lags would need the others to catch up.
            self.cluster.kill_all()
        except BaseException:
            self.remove()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None and issubclass(kind, Exception):
            print(self.cluster.diagnosis(), flush=True)
        self.remove()

    def has_ballast(self, member):
        directory = self.cluster.member_dir(member)
        return all(os.path.exists(os.path.join(directory, place, "spare")) for place in ("log", "checkpoints"))

    def remove(self):
        self.servers.remove()
        self.cluster.remove()

    def disks(self):
        return [self.cluster.disks[member] for member in self.cluster.numbers()]

    def write(self, connection, count):
        begin = self.written
        self.written += count
        for i in range(begin, begin + count):
            connection.submit(zk.CREATE, zk.request_create(f"/kept/{i}", b"%d" % i + b"x" * 500))
        for _ in range(count):
            assert connection.receive().err == zk.OK
        self.paths += [f"/kept/{i}" for i in range(begin, begin + count)]

    def start_all(self):
        for member in self.cluster.numbers():
            self.servers.start(member)
        self.cluster.wait_until("served", self.serves)

    def states(self):
        """Returns {member: "leader", "follower", ...} of the members that serve."""
        self.servers.check()
        states = {}
        for member in self.servers.processes:
            with contextlib.suppress(zk.Closed, OSError):
                states[member] = self.cluster.monitor(member).get("server_state")
        return {member: state for member, state in states.items() if state}

    def serves(self):
        return len(self.states()) == self.cluster.size

    def leader(self):
        """Returns the leader; None if there is none."""
        return next((member for member, state in self.states().items() if state == "leader"), None)

    def wait_for_leader(self, among):
        leaders = []

        def reached():
            leaders.append(self.leader())
            return leaders[-1] in among
        self.cluster.wait_until(f"a leader among {among}", reached)
        return leaders[-1]

    def delete(self, count):
        """Deletes `count` nodes, through a client of its own."""
        deleted, self.paths = self.paths[:count], self.paths[count:]
        with zk.Connection(self.cluster.address(1), timeout=READ_SECONDS) as connection:
            for path in deleted:
                connection.delete(path)
            connection.close()
        return deleted

    def check(self, address, deleted):
        full_disk._check_there(address, self.paths)
        with zk.Connection(address, timeout=READ_SECONDS) as connection:
            for path in deleted:
                assert not connection.exists(path), f"the deleted node {path} exists again"
            connection.close()

    def go_on(self, deleted):
        """Checks, when there is free space, that everything works, no server was restarted, and nothing is lost."""
        for disk in self.disks():
            disk.free_space()
        for member in self.cluster.numbers():
            self.cluster.wait_for_flags(member, 0, 0)
        before = [self.cluster.log(member).count("written in") for member in self.cluster.numbers()]
        with zk.Connection(self.cluster.address(1), timeout=READ_SECONDS) as connection:
            self.write(connection, 3000)
            connection.close()
        for member, count in zip(self.cluster.numbers(), before):
            self.cluster.wait_until(f"another checkpoint of member {member}", lambda:
                                    self.cluster.log(member).count("written in") > count)
        self.servers.check()
        for member in self.cluster.numbers():
            self.servers.kill(member)
        self.start_all()
        for member in self.cluster.numbers():
            self.check(self.cluster.address(member), deleted)


def _serve_without_free_space(cluster, starts=1):
    """Checks servers without free space that were started `starts` times. Returns the nodes that were deleted."""
    for member in cluster.cluster.numbers():
        cluster.cluster.wait_for_flags(member, 1, 1)
        assert cluster.cluster.log(member).count("is full: the server starts") == starts
        cluster.check(cluster.cluster.address(member), [])
    deleted = cluster.delete(DELETED)
    for member in cluster.cluster.numbers():
        cluster.check(cluster.cluster.address(member), deleted)
        full_disk._check_refused(cluster.cluster.address(member), cluster.paths[0])
        deleted.append(cluster.paths.pop(0))
    return deleted


def alone_a_server_starts_without_any_free_space(server):
    with Stopped(server, 1) as cluster:
        with KeptFull(*cluster.disks()):
            cluster.start_all()
            deleted = _serve_without_free_space(cluster)
            # Starts again: the part of the ballast file that was used is no longer available.
            cluster.servers.kill(1)
            cluster.start_all()
            deleted += _serve_without_free_space(cluster, starts=2)
        cluster.go_on(deleted)
        return f"{len(cluster.paths)} nodes, {len(deleted)} deleted on a full disk"


def alone_all_of_three_start_without_any_free_space(server):
    with Stopped(server, 3) as cluster:
        with KeptFull(*cluster.disks()):
            cluster.start_all()
            deleted = _serve_without_free_space(cluster)
        cluster.go_on(deleted)
        return f"{len(cluster.paths)} nodes, {len(deleted)} deleted on full disks"


def alone_one_of_three_starts_without_any_free_space_and_votes(server):
    with Stopped(server, 3) as cluster:
        full = cluster.cluster.disks[2]
        with KeptFull(full):
            cluster.start_all()
            cluster.cluster.wait_for_flags(2, 1, 0)
            cluster.wait_for_leader((1, 3))
            cluster.check(cluster.cluster.address(2), [])
            old = cluster.wait_for_leader((1, 3))
            cluster.servers.kill(old)
            # The leader has the vote of the member without free space.
            cluster.wait_for_leader((1, 2, 3))
            cluster.servers.start(old)
            cluster.cluster.wait_until("served", cluster.serves)
            cluster.cluster.wait_for_flags(old, 0, 0)
            with zk.Connection(cluster.cluster.address(old), timeout=READ_SECONDS) as connection:
                cluster.write(connection, 500)
                connection.close()
        cluster.go_on([])
        return f"{len(cluster.paths)} nodes"


def alone_deletions_go_on_on_a_disk_that_others_filled(server):
    return _delete_on_full_disk(server, "the ballast file of the checkpoints is removed")


def alone_deletions_go_on_where_checkpoints_are_rare(server):
    # A checkpoint is due when a file of the log was filled, and when the log is short of space and requests one.
    return _delete_on_full_disk(server, "checkpoint", settings=["snapCount=10000000"])


def _delete_on_full_disk(server, said, settings=()):
    with full_disk.DiskCluster(server, 1, settings) as cluster:
        disk, address = cluster.disks[1], cluster.address(1)
        pids = cluster.pids()
        with zk.Connection(address) as connection:
            connection.create("/kept")
            paths = full_disk._write(connection, "/kept", 3000)
            connection.close()
        # The ballast files of the log and of the checkpoints are made soon after there is data.
        cluster.wait_until("both ballast files are there", lambda: sum(
            "spare" in files for _, _, files in os.walk(disk.path)) == 2)
        disk.fill(0)
        cluster.wait_for_flags(1, 1, 1)
        deleted, paths = paths[:DELETED], paths[DELETED:]
        with zk.Connection(address, timeout=READ_SECONDS) as connection:
            for path in deleted:
                connection.delete(path)
            for _ in range(MANY_DELETIONS // 500):
                xids = [connection.submit(zk.DELETE, zk.request_delete("/none", -1)) for _ in range(500)]
                assert all(connection.receive().err == zk.NO_NODE for _ in xids)
            connection.close()
        log = cluster.log(1)
        assert "in the ballast file" in log, "the log never became full"
        assert said in log, f"the server never said {said!r}"
        disk.free_space()
        cluster.wait_for_flags(1, 0, 0)
        with zk.Connection(address) as connection:
            paths += full_disk._write(connection, "/kept", 300, begin=5000)
            connection.close()
        assert cluster.pids() == pids, "the server was not the same process all the time"
        cluster.kill(1)
        cluster.command("start")
        full_disk._check_there(address, paths)
        with zk.Connection(address) as connection:
            assert not any(connection.exists(path) for path in deleted), "a deleted node exists again"
            connection.close()
        return f"{MANY_DELETIONS + DELETED} deletions"


def alone_a_new_server_says_that_it_needs_free_space(server):
    with full_disk.DiskCluster(server, 1) as cluster:
        cluster.kill(1)
        servers = kills.Servers(cluster)
        servers.lose_disk(1)
        with KeptFull(cluster.disks[1]):
            servers.start(1)
            process = servers.processes.pop(1)
            assert harness.wait_for_exit(process, READ_SECONDS), "the server does not end"
            assert process.returncode == 3
        said = cluster.log(1)
        assert "this step of the start needs free space" in said and cluster.member_dir(1) in said, said
        cluster.disks[1].free_space()
        cluster.command("start")
        return "the server ended, and started when there was space"
