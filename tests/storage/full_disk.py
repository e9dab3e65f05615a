# SPDX-License-Identifier: Apache-2.0
"""Tests full disks: writes are refused with an error, reads and sessions go on, no acknowledged write is lost,
and writes are accepted again as soon as there is free space. Clients do not notice one member of three with a
full disk."""

import atexit
import contextlib
import os
import shutil
import subprocess
import threading
import time

import harness
import zkwire as zk

# The default file system of the disks: tmpfs, or ext4 on a loop device.
FILE_SYSTEM = os.environ.get("QUORATE_TEST_FILE_SYSTEM", "tmpfs")
MIB = 1 << 20
DISK_MIB = 48
RESERVE_MIB = 8
SETTINGS = [f"diskReserveMb={RESERVE_MIB}", f"logSegmentBytes={MIB}", "snapCount=2000"]
WAIT_SECONDS = 20
SESSION_MS = 4000
LONG_SESSION_MS = 40000
SYSTEM_ERROR = -1
LEFT_BYTES = 256 << 10  # the free space of a full disk: less than a file of the log
FILL_TRIES = 10  # several attempts, because a server may use the same disk meanwhile
NOTHING_LEFT_SECONDS = 3  # longer than the server's waits before it tries again


class Disk:
    """A small file system of its own; unmounted at the end."""

    def __init__(self, path, file_system=FILE_SYSTEM):
        os.makedirs(path)
        self.path = path
        # A server does not take a file with this name for data.
        self.filler = os.path.join(path, "server.log.filler")
        if file_system == "tmpfs":
            source, mount_options = "quorate-test", f"size={DISK_MIB}m"
        else:
            source, mount_options = path + ".image", "loop"
            with open(source, "wb") as image:
                image.truncate(DISK_MIB * MIB)
            if shutil.which("mkfs.ext4") is None:
                raise harness.Skipped("there is no mkfs.ext4")
            # Reserves no blocks for root, because the server may run as root.
            subprocess.run(["mkfs.ext4", "-q", "-m", "0", source], check=True)
        result = subprocess.run(["mount", "-t", file_system, "-o", mount_options, source, path],
                                capture_output=True, text=True, check=False)
        if result.returncode != 0:
            why = " ".join(result.stderr.split())
            raise harness.Skipped(f"{file_system} cannot be mounted here: {why}")
        atexit.register(self.remove)
        shutil.rmtree(os.path.join(path, "lost+found"), ignore_errors=True)

    def remove(self):
        if os.path.ismount(self.path):
            subprocess.run(["umount", "-l", self.path], check=False)

    def free(self):
        info = os.statvfs(self.path)
        return info.f_bavail * info.f_frsize

    def fill(self, leave):
        """Leaves `leave` bytes free; with 0 nothing at all, although the server may free and use space meanwhile."""
        # The file is always closed, because a file that was removed keeps its space while it is open.
        with open(self.filler, "ab", buffering=0) as file:
            for _ in range(FILL_TRIES):
                excess = self.free() - leave
                if excess <= 0:
                    break
                # The server may have taken some of the space since.
                with contextlib.suppress(OSError):
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, excess)
            if leave == 0:
                with contextlib.suppress(OSError):
                    while file.write(b"x" * 512):
                        pass

    def free_space(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.filler)


class DiskCluster(harness.Cluster):
    """A cluster whose members have disks of their own for everything but their logs of messages."""

    def __init__(self, server, size, settings=(), file_system=FILE_SYSTEM):
        """`settings` override SETTINGS."""
        if server != "quorate":
            raise harness.Skipped("ZooKeeper ends when its disk is full")
        super().__init__(server, size=size, settings=[*SETTINGS, *settings], start=False)
        self.disks = {}
        os.makedirs(self.dir)
        for member in self.numbers():
            self.disks[member] = Disk(os.path.join(self.parent, f"disk-{member}"), file_system)
            os.symlink(self.disks[member].path, self.member_dir(member))
            os.symlink(os.path.join(self.parent, f"log-{member}"),
                       os.path.join(self.member_dir(member), "server.log"))
        self.start()

    def remove(self):
        super().remove()
        for disk in self.disks.values():
            disk.remove()

    def wait_for_flags(self, member, low, refused):
        def reached():
            lines = self.monitor(member)
            return (lines.get("quorate_disk_low"), lines.get("quorate_data_refused")) == (str(low), str(refused))
        self.wait_until(f"disk_low {low} and data_refused {refused} at member {member}", reached)


class Pinger(threading.Thread):
    """A session that only sends pings, and must not end."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.connection = zk.Connection(address, SESSION_MS)
        self.connection.create("/lives", b"", zk.EPHEMERAL)
        self.stopping = threading.Event()
        self.error = None
        self.start()

    def run(self):
        try:
            while not self.stopping.wait(SESSION_MS / 4000):
                self.connection.ping()
        except Exception as error:  # reported by finish()
            self.error = error

    def finish(self):
        self.stopping.set()
        self.join()
        if self.error:
            raise AssertionError(f"a session ended: {self.error!r}") from self.error
        assert self.connection.exists("/lives"), "the node of a living session is deleted"
        self.connection.close()


def _write(connection, parent, count, begin=0):
    for i in range(begin, begin + count):
        connection.create(f"{parent}/{i}", b"%d" % i + b"x" * 500)
    return [f"{parent}/{i}" for i in range(begin, begin + count)]


def _check_there(address, paths):
    with zk.Connection(address, timeout=WAIT_SECONDS) as reader:
        reader.sync()
        for path in paths:
            data, _ = reader.get(path)
            assert data.startswith(path.rpartition("/")[2].encode() + b"x"), f"{path} has wrong data"
        reader.close()


def _check_refused(address, path):
    """Checks which requests are refused because of a full disk, and which are not."""
    with zk.Connection(address) as connection:
        for operation, body in ((zk.CREATE, zk.request_create("/refused", b"")),
                                (zk.SET_DATA, zk.request_set(path, b"refused", -1)),
                                (zk.MULTI, zk.request_multi([
                                    (zk.DELETE, zk.request_delete(path, -1)),
                                    (zk.CREATE, zk.request_create("/refused", b""))]))):
            try:
                connection.call(operation, body)
            except zk.ZkError as error:
                assert error.code == SYSTEM_ERROR, f"operation {operation} fails with {error.code}"
            else:
                raise AssertionError(f"operation {operation} was accepted by a server without free space")
        # Refusals are in order with the answers to other requests.
        xids = [connection.submit(zk.DELETE, zk.request_delete("/none", -1)),
                connection.submit(zk.CREATE, zk.request_create("/refused", b"")),
                connection.submit(zk.GET_DATA, zk.request_path_watch(path, False))]
        replies = [connection.receive() for _ in xids]
        assert [reply.xid for reply in replies] == xids, "answers are out of order"
        assert [reply.err for reply in replies] == [zk.NO_NODE, SYSTEM_ERROR, zk.OK]
        connection.delete(path)
        assert not connection.exists(path)
        assert not connection.exists("/refused")
        connection.close()


def _write_until_it_lags(cluster, full, parent, begin):
    """Writes until the log of `full`, whose disk is full, cannot go on, and then some more. Returns the paths."""
    def stands_still():
        log = cluster.log(full)
        return log.count("the log cannot go on") > log.count("the log goes on")

    paths = []
    home = next(member for member in cluster.followers() if member != full)
    with zk.Connection(cluster.address(home), timeout=WAIT_SECONDS) as connection:
        while not stands_still():
            paths += _write(connection, parent, 200, begin=begin + len(paths))
            assert len(paths) < 20_000, "the log never becomes full"
        paths += _write(connection, parent, 300, begin=begin + len(paths))
        connection.close()
    return paths


class _Occurrences:
    """Tells whether a member has logged a text since this object was made."""

    def __init__(self, cluster, member, text):
        self.cluster, self.member, self.text = cluster, member, text
        self.before = self._count()

    def _count(self):
        return self.cluster.log(self.member).count(self.text)

    def happened(self):
        return self._count() > self.before


def _elect_with(cluster, full):
    """Kills the leader, so that an election needs the vote of `full`, which has no free space, and starts it again.
    Returns the killed member, and whether `full` has voted for the other member. Otherwise the log of `full` could go
    on meanwhile, and `full` was elected itself."""
    old = cluster.leader()
    candidate = next(i for i in cluster.numbers() if i not in (old, full))
    votes = _Occurrences(cluster, full, f"following server {candidate} in term")
    own_elections = _Occurrences(cluster, full, "leading in term")
    cluster.kill(old)
    # The new leader can commit nothing.
    cluster.wait_until(f"member {candidate} elected with the vote of member {full}",
                       lambda: votes.happened() or own_elections.happened())
    with_its_vote = votes.happened()
    cluster.restart(old)
    return old, with_its_vote


def alone_a_server_without_free_space_refuses_data_and_serves_the_rest(server):
    with DiskCluster(server, 1) as cluster:
        disk, address = cluster.disks[1], cluster.address(1)
        pids = cluster.pids()
        with zk.Connection(address) as connection:
            connection.create("/kept")
            paths = _write(connection, "/kept", 3000)
            connection.close()
        pinger = Pinger(address)
        disk.fill(RESERVE_MIB * MIB - MIB)
        cluster.wait_for_flags(1, 1, 1)
        _check_refused(address, paths.pop())
        time.sleep(1.5 * SESSION_MS / 1000)
        pinger.finish()
        disk.free_space()
        cluster.wait_for_flags(1, 0, 0)
        with zk.Connection(address) as connection:
            paths += _write(connection, "/kept", 500, begin=5000)
            connection.close()
        assert cluster.pids() == pids, "the server was not the same process all the time"
        log = cluster.log(1)
        assert log.count("is almost full") == 1 and log.count("has enough free space again") == 1
        cluster.kill(1)
        cluster.command("start")
        _check_there(address, paths)
        return f"{len(paths)} nodes"


def alone_a_log_that_is_full_waits_for_free_space(server):
    return _log_waits_for_free_space(server, FILE_SYSTEM)


def alone_a_log_that_is_full_waits_for_free_space_on_ext4(server):
    # On ext4, blocks are allocated late, and files and directories take some, too.
    return _log_waits_for_free_space(server, "ext4")


def _log_waits_for_free_space(server, file_system):
    with DiskCluster(server, 1, file_system=file_system) as cluster:
        disk, address = cluster.disks[1], cluster.address(1)
        pids = cluster.pids()
        with zk.Connection(address) as connection:
            connection.create("/kept")
            paths = _write(connection, "/kept", 200)
            connection.close()
        pinger = Pinger(address)
        # The session is silent for a while.
        reader = zk.Connection(address, LONG_SESSION_MS)
        disk.fill(LEFT_BYTES)
        cluster.wait_for_flags(1, 1, 1)
        # Deletions are accepted until the log has no space for them, because the disk is filled again whenever the
        # server frees space.
        with zk.Connection(address, timeout=WAIT_SECONDS) as writer:
            count = 0
            while "the log cannot go on" not in cluster.log(1):
                for _ in range(500):
                    writer.submit(zk.DELETE, zk.request_delete("/none", -1))
                count += 500
                assert count < 100_000, "the log never becomes full"
                disk.fill(0)
                time.sleep(0.01)
            # An existing connection can read; requests that need the log are not answered. Other free space of the
            # disk makes no difference.
            reader.get(paths[0])
            disk.fill(0)
            time.sleep(NOTHING_LEFT_SECONDS)
            reader.get(paths[0])
            disk.free_space()
            for _ in range(count):
                assert writer.receive().err == zk.NO_NODE
            cluster.wait_for_flags(1, 0, 0)
            paths += _write(writer, "/kept", 300, begin=1000)
            writer.close()
        pinger.finish()
        reader.close()
        assert "the log goes on" in cluster.log(1)
        assert cluster.pids() == pids, "the server was not the same process all the time"
        cluster.kill(1)
        cluster.command("start")
        _check_there(address, paths)
        return f"{len(paths)} nodes"


def alone_one_full_member_of_three_is_no_matter_to_clients(server):
    with DiskCluster(server, 3) as cluster:
        pids = cluster.pids()
        leader = cluster.leader()
        home = cluster.others(leader)[0]
        with zk.Connection(cluster.address(home), timeout=WAIT_SECONDS) as connection:
            connection.create("/kept")
            paths = _write(connection, "/kept", 500)
            cluster.disks[leader].fill(RESERVE_MIB * MIB - MIB)
            cluster.wait_for_flags(leader, 1, 0)
            cluster.wait_until("another leader", lambda: cluster.leader() != leader)
            paths += _write(connection, "/kept", 500, begin=len(paths))
            connection.close()
        # Now the disk has no free space at all, and the member lags. A checkpoint that is due finds no free space and
        # releases its ballast file. The log may go on in that space, but only once.
        cluster.disks[leader].fill(LEFT_BYTES)
        elections, with_its_vote = 0, False
        while not with_its_vote:
            cluster.wait_until("another leader", lambda: cluster.leader() != leader)
            paths += _write_until_it_lags(cluster, leader, "/kept", len(paths))
            cluster.disks[leader].fill(0)
            died, with_its_vote = _elect_with(cluster, leader)
            pids[died - 1] = 0
            elections += 1
        cluster.disks[leader].free_space()
        cluster.wait_for_flags(leader, 0, 0)
        _check_there(cluster.address(leader), paths)
        now = cluster.pids()
        assert all(pid in (0, now[i]) for i, pid in enumerate(pids)), (
            "a member was not the same process all the time")
        return f"{len(paths)} nodes, {elections} elections"


def alone_a_majority_without_free_space_refuses_data(server):
    with DiskCluster(server, 3) as cluster:
        leader = cluster.leader()
        followers = cluster.others(leader)
        with zk.Connection(cluster.address(followers[0])) as connection:
            connection.create("/kept")
            paths = _write(connection, "/kept", 300)
            connection.close()
        pinger = Pinger(cluster.address(followers[0]))
        for member in followers:
            cluster.disks[member].fill(RESERVE_MIB * MIB - MIB)
        for member in cluster.numbers():
            cluster.wait_for_flags(member, int(member != leader), 1)
            _check_refused(cluster.address(member), paths.pop())
        time.sleep(1.5 * SESSION_MS / 1000)
        cluster.disks[followers[0]].free_space()
        for member in cluster.numbers():
            cluster.wait_for_flags(member, int(member == followers[1]), 0)
        with zk.Connection(cluster.address(followers[1])) as connection:
            paths += _write(connection, "/kept", 300, begin=1000)
            connection.close()
        pinger.finish()
        cluster.disks[followers[1]].free_space()
        cluster.kill_all()
        cluster.command("start")
        for member in cluster.numbers():
            _check_there(cluster.address(member), paths)
        return f"{len(paths)} nodes"
