# SPDX-License-Identifier: Apache-2.0
"""Makes the disk of a server slow, or lets it stall, by a library that is preloaded into the server (tests/chaos/disk.c)."""

import contextlib
import os
import tempfile

import harness
import preload
import web


class DiskControl:
    """Controls disk.c in a member: how slow the disk is, and whether it is stalled."""

    def __init__(self, path):
        self.path = path
        self.set()

    def set(self, sync_ms=0, write_ms=0, stalled=False):
        """Sets how long each sync and each write takes at most. While `stalled` is set, they wait."""
        words = (int(sync_ms), int(write_ms), int(stalled), 0)
        data = b"".join(word.to_bytes(4, "little") for word in words)
        with open(self.path, "r+b" if os.path.exists(self.path) else "w+b") as file:
            file.write(data)


def make_library(directory):
    return preload.build(os.path.join(harness.ROOT, "tests/chaos/disk.c"), directory)


@contextlib.contextmanager
def slow_disk_cluster(member, size, settings):
    """Yields a cluster that serves, and the control of the disk of one member."""
    with tempfile.TemporaryDirectory(prefix="quorate-slow-disk-") as place:
        control = DiskControl(os.path.join(place, "control"))
        cluster = harness.Cluster(size=size, settings=settings, start=False, environment={
            "LD_PRELOAD": make_library(place), "DISK_CONTROL": control.path})
        cluster.environment["DISK_DIRECTORY"] = cluster.member_dir(member)
        with cluster:
            cluster.start()
            web.await_serving(cluster)
            yield cluster, control
