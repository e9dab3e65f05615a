# SPDX-License-Identifier: Apache-2.0
"""Takes snapshots over HTTP, in the format of ZooKeeper's files: a real ZooKeeper starts from one, and `quorate import`
reads it. Tests also who gets none, clients that leave or are slow, and that a restore is refused."""

import http.client
import json
import os
import random
import socket
import time

import harness
import web
import zkwire as zk
import zookeeper_data as data

PASSWORD = data.SUPER.decode()
SETTINGS = data.SETTINGS + ("admin.rateLimiterIntervalInMS=0",)
SUPER = {"Authorization": f"digest {PASSWORD}"}
# More than the buffers of two sockets hold.
LARGE_NODES, LARGE_BYTES = 60, 1_000_000
# Of a client that is slow: a window of this size is announced often.
RECEIVE_BYTES = 1 << 18


def fetch(cluster, member=1, path="/commands/snapshot", headers=None):
    """Returns the status, the headers and the bytes of a snapshot."""
    connection = http.client.HTTPConnection(harness.HOST, web.port(cluster, member), timeout=60)
    try:
        connection.request("GET", path, headers=SUPER if headers is None else headers)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def write_files(directory, headers, snapshot):
    """Makes the data directory of a ZooKeeper server from a snapshot, as its documentation says."""
    inside = os.path.join(directory, "version-2")
    os.makedirs(inside)
    zxid = int(headers["last_zxid"], 16)
    with open(os.path.join(inside, f"snapshot.{zxid:x}"), "wb") as file:
        file.write(snapshot)
    for name in ("acceptedEpoch", "currentEpoch"):
        with open(os.path.join(inside, name), "w", encoding="utf-8") as file:
            file.write(str(zxid >> 32))
    return zxid


def descriptors(cluster, member):
    return len(os.listdir(f"/proc/{cluster.pids()[member - 1]}/fd"))


def write_large(cluster):
    with data.connect(cluster, 1) as connection:
        for number in range(LARGE_NODES):
            connection.call(zk.CREATE, zk.request_create(f"/large-{number}", bytes(LARGE_BYTES), 0))


def begin(cluster, member=1):
    """Begins a download, and reads only its headers. Returns the socket."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    sock.settimeout(60)
    sock.connect((harness.HOST, web.port(cluster, member)))
    sock.sendall(f"GET /commands/snapshot HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: digest {PASSWORD}\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += sock.recv(1)
    assert head.startswith(b"HTTP/1.1 200"), head
    return sock


def test_a_real_zookeeper_starts_from_a_snapshot_of_any_member():
    with harness.Cluster("quorate", 3, SETTINGS + tuple(web.STEADY)) as ours:
        web.await_serving(ours)
        with data.connect(ours, 1) as connection:
            data.write_kinds(connection)
            data.write_acls(connection)
            data.write_quota(connection)
            data.write_multis(connection)
            data.write_bulk(connection, random.Random(3), 1000)
            expected = data.walk(ours, 1)
            digests = set()
            for member in ours.numbers():
                status, headers, snapshot = fetch(ours, member)
                assert status == 200, (status, snapshot[:300])
                assert int(headers["snapshot_size"]) == int(headers["Content-Length"]) == len(snapshot), headers
                assert headers["Content-Type"] == "application/octet-stream", headers
                with data.tempfile.TemporaryDirectory(dir=ours.parent) as directory:
                    zxid = write_files(directory, headers, snapshot)
                    facts = data.quorate("import", "--zookeeper-data", directory, "--check")
                assert int(facts["last_zxid"], 16) == zxid and facts["digests_checked"] == 1, facts
                assert all("has no log" in warning for warning in facts["warnings"]), facts
                digests.add((zxid, facts["digest"]))
            # The later ones have no more writes, so all are the same tree.
            assert len({digest for _, digest in digests}) == 1, digests
            with harness.Cluster("zookeeper", size=1, settings=data.SETTINGS, start=False) as zookeeper:
                write_files(zookeeper.member_dir(1), headers, snapshot)
                zookeeper.start()
                data.check_same(expected, data.walk(zookeeper, 1))
                assert "igest" not in zookeeper.log(1), zookeeper.log(1)[-2000:]
                data.check_writes(zookeeper, zxid)
        ours.check_alive()
    return f"{len(expected)} nodes, {len(snapshot)} bytes"


def test_an_acknowledged_write_is_in_the_snapshot_of_every_member():
    with harness.Cluster("quorate", 3, SETTINGS + tuple(web.STEADY)) as ours:
        web.await_serving(ours)
        for number in range(9):
            member = number % 3 + 1
            with data.connect(ours, (number + 1) % 3 + 1) as connection:
                connection.create(f"/written-{number}", b"")
            status, _, snapshot = fetch(ours, member)
            assert status == 200 and f"/written-{number}".encode() in snapshot, (number, status)


def test_who_gets_no_snapshot_and_how_often_one_is_taken():
    with harness.Cluster("quorate", 1, data.SETTINGS) as cluster:
        web.await_serving(cluster)
        for sent in ("", "ip", "x509", "digest super:x", f"digest {data.USER.decode()}"):
            status, _, text = fetch(cluster, headers={"Authorization": sent} if sent else {})
            assert status == 401 and json.loads(text)["command"] == "snapshot", (sent, status, text)
        status, headers, text = fetch(cluster, path="/commands/snap?streaming=false")
        assert status == 200 and json.loads(text) == {"command": "snapshot", "error": None}, (status, text)
        assert int(headers["snapshot_size"]) > 0 and headers["last_zxid"].startswith("0x"), headers
        status, headers, text = fetch(cluster)
        assert status == 429 and 0 < int(headers["Retry-After"]) <= 300, (status, headers, text)
        assert "too recently" in json.loads(text)["error"], text
        cluster.check_alive()
    with harness.Cluster("quorate", 1) as cluster:
        web.await_serving(cluster)
        status, _, text = fetch(cluster, headers={})
        assert status == 403 and "administratorTokenFile" in json.loads(text)["error"], (status, text)
        status, _, text = fetch(cluster, headers={"Authorization": "ip"})
        assert status == 403, (status, text)
    with harness.Cluster("quorate", 1, data.SETTINGS + ("admin.snapshot.enabled=false",)) as cluster:
        web.await_serving(cluster)
        status, _, text = fetch(cluster)
        assert status == 503 and "admin.snapshot.enabled" in json.loads(text)["error"], (status, text)


def test_downloads_that_break_leave_nothing_behind_and_slow_ones_end():
    settings = SETTINGS + ("admin.idleTimeout=3000",)
    with harness.Cluster("quorate", 1, settings) as cluster:
        web.await_serving(cluster)
        write_large(cluster)
        fetch(cluster)
        before = descriptors(cluster, 1)
        for _ in range(10):
            begin(cluster).close()
            cluster.wait_until("the next snapshot is allowed",
                               lambda: fetch(cluster, path="/commands/snapshot?streaming=false")[0] == 200)
        cluster.wait_until("no descriptor is left", lambda: descriptors(cluster, 1) <= before)
        # Several times the idle timeout, but never without a byte.
        with begin(cluster) as sock:
            assert fetch(cluster)[0] == 429, "two at a time"
            started, received, size = time.monotonic(), 0, 1 << 14
            while received < LARGE_NODES * LARGE_BYTES:
                piece = sock.recv(size)
                assert piece, f"cut off after {received} bytes and {time.monotonic() - started:.1f} s"
                received += len(piece)
                if time.monotonic() - started < 10:
                    time.sleep(0.01)
                    size = 1 << 14
                else:
                    size = 1 << 20
            assert time.monotonic() - started > 9
        cluster.wait_until("the server sees that the download has ended",
                           lambda: fetch(cluster, path="/commands/snapshot?streaming=false")[0] == 200)
        # One that reads nothing is cut off.
        with begin(cluster) as sock:
            cluster.wait_until("it is cut off",
                               lambda: fetch(cluster, path="/commands/snapshot?streaming=false")[0] == 200)
        assert web.get(cluster, "/health/ready").status == 200
        cluster.check_alive()


def test_a_restore_is_refused_with_the_ways_that_there_are():
    with harness.Cluster("quorate", 1, SETTINGS) as cluster:
        web.await_serving(cluster)
        with data.connect(cluster, 1) as connection:
            connection.create("/before", b"x")
            snapshot = fetch(cluster)[2]
            for body in (b"", snapshot, bytes(1_000_000)):
                answer = web.get(cluster, "/commands/restore", method="POST", headers=SUPER, body=body)
                assert answer.status == 501 and "quorate import" in json.loads(answer.text)["error"], answer
            assert web.get(cluster, "/commands/restore", method="POST", body=snapshot).status == 401
            assert web.get(cluster, "/commands/restore", headers=SUPER).status == 405
            assert connection.exists("/before") is not None
        cluster.check_alive()
