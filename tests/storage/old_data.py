#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Tests data directories that older versions have written, of three members each: a server of this version opens
them and has all their data.

  tests/storage/old_data.py SERVER    makes an archive with the server program SERVER, of an older version, in
                                      old_data_directories/. The archive is kept there for ever.

Without SERVER it is a module of tests/storage/run."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), HERE]
import harness  # noqa: E402
import kills  # noqa: E402
import zkwire as zk  # noqa: E402

ARCHIVES = os.path.join(HERE, "old_data_directories")
SIZE = 3
SETTINGS = ["snapCount=300", "logSegmentBytes=65536", "diskReserveMb=0", "ioThreads=1", "maxSessionTimeout=3600000"]
SESSION_MS = 3600000
NODES = 400  # a checkpoint, and a log behind it
SYSTEM = "/zookeeper"


def _walk(connection, path="/"):
    """Returns {path: everything that can be read of the znode} of all znodes except those of the system."""
    found = {}
    data, stat = connection.get(path)
    acls = connection.call(zk.GET_ACL, zk.ustring(path)).data.hex()  # includes the stat
    found[path] = {"data": base64.b64encode(data or b"").decode(), "stat": list(stat), "acl": acls}
    for name in sorted(connection.children(path)):
        child = os.path.join(path, name)
        if child != SYSTEM:
            found.update(_walk(connection, child))
    return found


def _write(address):
    """Fills a tree. Returns a session with ephemeral znodes, which stays open, and the content of the tree."""
    connection = zk.Connection(address, SESSION_MS)
    connection.create("/data", b"root")
    for i in range(NODES):
        connection.create(f"/data/{i}", bytes([i % 256]) * (i % 50))
    for i in range(0, NODES, 7):
        connection.set(f"/data/{i}", b"changed")
    for i in range(3, NODES, 11):
        connection.delete(f"/data/{i}")
    connection.create("/queue")
    for _ in range(5):
        connection.create("/queue/item-", b"", zk.SEQUENTIAL)
    connection.create("/mine", b"", zk.EPHEMERAL)
    connection.create("/mine-", b"x", zk.EPHEMERAL_SEQUENTIAL)
    connection.call(zk.CREATE, zk.request_create("/read-only", b"r", acls=[zk.acl(1)]))
    connection.call(zk.SYNC, zk.ustring("/"))
    session = connection.session
    tree = _walk(connection)
    connection.abandon()
    return {"session": [session[0], session[1].hex()], "tree": tree}


def _data_of(cluster, member):
    directory = cluster.member_dir(member)
    return [os.path.join(directory, name) for name in sorted(os.listdir(directory)) if name not in kills.NOT_DATA]


def make(server):
    harness.SERVERS["old"] = server
    version = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout
    name = version.split("commit=")[1].split()[0]
    path = os.path.join(ARCHIVES, f"{name}.tar.xz")
    with harness.Cluster("old", SIZE, SETTINGS) as cluster, tarfile.open(path, "w:xz") as archive:
        kept = _write(cluster.address(cluster.leader()))
        cluster.command("down")
        kept["version"] = version.strip()
        with tempfile.NamedTemporaryFile("w") as file:
            json.dump(kept, file)
            file.flush()
            archive.add(file.name, "kept.json")
        for member in cluster.numbers():
            for source in _data_of(cluster, member):
                archive.add(source, f"{member}/{os.path.basename(source)}")
    print(f"{path}: {os.path.getsize(path)} bytes")


def _start_with(cluster, archive):
    """Replaces the cluster's directories by those of the archive, and starts it. Returns the expected data, which the
    archive has."""
    cluster.command("down")
    for member in cluster.numbers():
        for path in _data_of(cluster, member):
            (shutil.rmtree if os.path.isdir(path) else os.remove)(path)
    with tarfile.open(archive) as opened:
        opened.extractall(cluster.dir)
    cluster.start()
    with open(os.path.join(cluster.dir, "kept.json"), encoding="utf-8") as file:
        return json.load(file)


def _check(cluster, kept):
    number, password = kept["session"]
    for member in cluster.numbers():
        with zk.Connection(cluster.address(member)) as connection:
            connection.sync()
            tree = _walk(connection)
            assert tree == kept["tree"], {path for path in {*tree, *kept["tree"]}
                                          if tree.get(path) != kept["tree"].get(path)}
            connection.close()
    with zk.Connection(cluster.address(1), SESSION_MS, (number, bytes.fromhex(password))) as owner:
        assert owner.exists("/mine").ephemeral_owner == number
        owner.set("/mine", b"still")
        next_item = owner.create("/queue/item-", b"", zk.SEQUENTIAL)
        assert next_item == "/queue/item-0000000005", next_item
        owner.close()
    with zk.Connection(cluster.address(2)) as connection:
        connection.sync()
        assert connection.exists("/mine") is None
        connection.close()


def alone_directories_of_older_versions_open(server):
    archives = sorted(os.listdir(ARCHIVES))
    assert archives
    for name in archives:
        with harness.Cluster(server, SIZE, SETTINGS) as cluster:
            _check(cluster, _start_with(cluster, os.path.join(ARCHIVES, name)))
            # Starts again, with data that this version has written.
            cluster.command("down")
            cluster.start()
            with zk.Connection(cluster.address(3)) as connection:
                assert connection.get("/data/0")[0] == b"changed"
                connection.close()
    return f"{len(archives)} archives"


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    make(sys.argv[1])
