# SPDX-License-Identifier: Apache-2.0
"""Tests how much disk space a server takes, and what it does when it cannot open files."""

import os
import resource
import threading

import harness
import zkwire as zk

MIB = 1 << 20
# At most the size of a log file and of the files of RocksDB.
EMPTY_BYTES_MAX = 70 * MIB


def _taken(directory):
    return sum(os.lstat(os.path.join(parent, name)).st_blocks * 512
               for parent, _, names in os.walk(directory) for name in names)


def _is_measured(cluster, member):
    """Returns whether the member has measured its free space, after which it makes ballast files if there is space."""
    return int(cluster.monitor(member).get("quorate_disk_free_bytes", -1)) >= 0


def test_an_empty_member_takes_little_disk():
    with harness.Cluster() as cluster:
        taken = []
        for member in cluster.numbers():
            cluster.wait_until("measured", lambda i=member: _is_measured(cluster, i))
            taken.append(_taken(cluster.member_dir(member)))
            assert taken[-1] <= EMPTY_BYTES_MAX, f"member {member} takes {taken[-1] / MIB:.0f} MiB"
        return ", ".join(f"{bytes_ / MIB:.0f} MiB" for bytes_ in taken)


def test_a_member_with_data_keeps_ballast_files():
    with harness.Cluster(size=1, settings=[f"logSegmentBytes={MIB}"]) as cluster:
        cluster.wait_until("measured", lambda: _is_measured(cluster, 1))
        spares = [os.path.join(cluster.member_dir(1), place, "spare") for place in ("log", "checkpoints")]
        assert not any(map(os.path.exists, spares))
        with zk.Connection(cluster.address(1)) as connection:
            for i in range(4):
                connection.create(f"/data{i}", b"x" * (64 << 10))
        cluster.wait_until("ballast files", lambda: all(map(os.path.exists, spares)))


def test_a_log_that_cannot_open_a_file_names_the_limit_and_goes_on_when_it_is_raised():
    with harness.Cluster(size=1, settings=[f"logSegmentBytes={MIB}"]) as cluster:
        cluster.wait_until("measured", lambda: _is_measured(cluster, 1))
        ballast = os.path.join(cluster.member_dir(1), "log", "spare")
        with zk.Connection(cluster.address(1)) as connection:
            for i in range(4):
                connection.create(f"/before{i}", b"x" * (64 << 10))
            cluster.wait_until("a ballast file", lambda: os.path.exists(ballast))
            pid = cluster.pids()[0]
            before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, before[1]))
            writer = threading.Thread(target=lambda: [connection.create(f"/n{i}", b"x" * (64 << 10)) for i in range(32)])
            writer.start()
            try:
                cluster.wait_until("the message", lambda: "the log cannot open a file" in cluster.log(1))
                assert os.path.exists(ballast), "the ballast file was used as if the disk were full"
                assert writer.is_alive()
            finally:
                resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
                writer.join()
            log = cluster.log(1)
            line = next(line for line in log.splitlines() if "the log cannot open a file" in line)
            assert " error " in line and "Too many open files" in line and "ulimit -n" in line, line
            assert "disk is full" not in log and "is full, and the log goes on" not in log, log
            cluster.wait_until("the log goes on", lambda: "info the log goes on" in cluster.log(1))
            assert connection.get("/n31")[0] == b"x" * (64 << 10)
