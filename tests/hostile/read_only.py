# SPDX-License-Identifier: Apache-2.0
"""Tests that a member without a quorum serves reads to clients that accept a read-only server."""

import struct
import time

import bystander as by
import harness
import zkwire as zk

NOT_READ_ONLY = -119


class ReadOnlyConnection(zk.Connection):
    """A session of a client that accepts a server without a quorum."""

    def __init__(self, address, session=None, last_zxid=0):
        zk.RawConnection.__init__(self, address)
        self.xid, self.last_zxid, self.events = 0, last_zxid, []
        session_id, password = session or (0, zk.NO_PASSWORD)
        request = zk.connect_request(10000, session_id, password, last_zxid)
        self.send(zk.frame(request[:-1] + b"\1"))
        reader = zk.Reader(self.receive_frame())
        _, self.timeout_ms, self.session_id = reader.take(">iiq")
        self.password = reader.buffer()
        self.read_only = bool(reader.take(">b"))


def _await(function, wanted, what):
    deadline = time.monotonic() + by.PATIENCE_SECONDS
    while True:
        try:
            found = function()
        except zk.Closed as error:
            found = error
        if found == wanted:
            return
        assert time.monotonic() < deadline, f"{what}: {found}, not {wanted}"
        time.sleep(0.05)


def _refused(connection, operation, body):
    connection.submit(operation, body)
    reply = connection.receive()
    assert reply.err == NOT_READ_ONLY, f"operation {operation}: error {reply.err}"


def alone_reads_without_a_quorum(server):
    if server != "quorate":
        raise harness.Skipped("ZooKeeper takes the setting from Java's command line only")
    with harness.Cluster(server, settings=["readonlymode.enabled=true", "tickTime=500"]) as cluster:
        address = cluster.address(1)
        with zk.Connection(address, timeout_ms=10000) as session:
            path = session.create("/kept", b"data")
            owned = session.create("/owned", b"", zk.EPHEMERAL)
            last_zxid = session.last_zxid
        with ReadOnlyConnection(address) as accepting:
            assert not accepting.read_only, "a session is read-only although there is a quorum"
        for member in (2, 3):
            cluster.kill(member)
        _await(lambda: zk.four_letter(address, "isro"), "ro", "isro")
        lines = zk.four_letter(address, "srvr").splitlines()
        assert lines[1] == "READ-ONLY mode; serving only read-only clients", lines
        assert "Mode: read-only" in lines, lines
        try:
            zk.Connection(address)
        except zk.Closed:
            pass
        else:
            raise AssertionError("a client that wants to write is served")
        reader = ReadOnlyConnection(address, last_zxid=last_zxid)
        assert reader.read_only and reader.timeout_ms > 0 and reader.session_id
        assert reader.get(path, watch=True)[0] == b"data"
        assert reader.exists(owned)
        assert by.monitor(address)["zk_server_state"] == "read-only"
        assert by.monitor(address)["zk_local_sessions"] == "1"
        _refused(reader, zk.CREATE, zk.request_create("/new", b""))
        _refused(reader, zk.SET_DATA, zk.request_set(path, b"", -1))
        _refused(reader, zk.DELETE, zk.request_delete(path, -1))
        _refused(reader, zk.MULTI, zk.request_multi([]))
        _refused(reader, zk.SYNC, zk.ustring("/"))
        # The client from before goes on reading, with its own session.
        same = ReadOnlyConnection(address, session=session.session, last_zxid=last_zxid)
        assert same.read_only and same.session_id == session.session_id
        _refused(same, zk.CLOSE, b"")
        # A client that has seen a newer zxid than this server is not served.
        newer = zk.RawConnection(address)
        newer.send(zk.frame(struct.pack(">iqiq", 0, last_zxid + 1000, 10000, 0) +
                            zk.buffer(zk.NO_PASSWORD) + b"\1"))
        assert newer.is_closed_by_peer(by.PATIENCE_SECONDS)

        cluster.restart(2)
        _await(lambda: zk.four_letter(address, "isro"), "rw", "isro")
        for connection in (reader, same):
            assert connection.is_closed_by_peer(by.PATIENCE_SECONDS), "the connection stays open although there is a quorum"
        with zk.Connection(address, session=session.session, last_zxid=last_zxid) as again:
            assert again.exists(owned), "the session has not survived"
            again.set(path, b"more")
            again.close()
