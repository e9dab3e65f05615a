"""What a server takes of the disk."""

import os

import harness
import zkwire as zk

MIB = 1 << 20
# A file of the log and what RocksDB takes.
EMPTY_BYTES_MAX = 70 * MIB


def _taken(directory):
    return sum(os.lstat(os.path.join(parent, name)).st_blocks * 512
               for parent, _, names in os.walk(directory) for name in names)


def _is_measured(cluster, member):
    """The free space was looked at, and used for spare files if it was to be."""
    return int(cluster.monitor(member).get("disk_free_bytes", -1)) >= 0


def test_an_empty_member_takes_little_disk():
    with harness.Cluster() as cluster:
        taken = []
        for member in cluster.numbers():
            cluster.wait_until("measured", lambda i=member: _is_measured(cluster, i))
            taken.append(_taken(cluster.member_dir(member)))
            assert taken[-1] <= EMPTY_BYTES_MAX, f"member {member} takes {taken[-1] / MIB:.0f} MiB"
        return ", ".join(f"{bytes_ / MIB:.0f} MiB" for bytes_ in taken)


def test_a_member_with_data_keeps_spare_files():
    with harness.Cluster(size=1, settings=[f"logSegmentBytes={MIB}"]) as cluster:
        cluster.wait_until("measured", lambda: _is_measured(cluster, 1))
        spares = [os.path.join(cluster.member_dir(1), place, "spare") for place in ("log", "checkpoints")]
        assert not any(map(os.path.exists, spares))
        with zk.Connection(cluster.address(1)) as connection:
            for i in range(4):
                connection.create(f"/data{i}", b"x" * (64 << 10))
        cluster.wait_until("spare files", lambda: all(map(os.path.exists, spares)))
