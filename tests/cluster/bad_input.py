# SPDX-License-Identifier: Apache-2.0
"""Tests that garbage on a client port at most closes its sender's connection. Another client of the same
member, and the member itself, go on."""

import struct
import time

import zkwire as zk

PATIENCE_SECONDS = 5


def _check_bystander(cluster, sender):
    """Runs `sender(address)` while another client of the same member works. Checks that client and the members."""
    address = cluster.address(1)
    before = cluster.pids()
    with zk.Connection(address) as bystander:
        name = bystander.create("/bystander-", b"0", zk.EPHEMERAL_SEQUENTIAL)
        sender(address)
        stat = bystander.set(name, b"1")
        assert stat.version == 1, f"the bystander's write made version {stat.version}"
        assert bystander.get(name)[0] == b"1", "the bystander's write is lost"
        bystander.close()
    with zk.Connection(address) as newcomer:
        newcomer.sync()
        newcomer.close()
    assert cluster.pids() == before, f"a member died: pids {before} are now {cluster.pids()}"


def _send_raw(data):
    """Returns a sender of `data` on a new connection, which must then be closed."""
    def send(address):
        connection = zk.RawConnection(address)
        try:
            connection.offer(data)
            assert connection.is_closed_by_peer(PATIENCE_SECONDS), "the connection stays open"
        finally:
            connection.abandon()
    return send


def _send_in_session(data, must_close=True):
    """Returns a sender of `data` on a connection with a session."""
    def send(address):
        with zk.Connection(address) as connection:
            connection.offer(data)
            if must_close:
                assert connection.is_closed_by_peer(PATIENCE_SECONDS), "the connection stays open"
    return send


def shared_garbage_bytes_instead_of_a_handshake(cluster):
    _check_bystander(cluster, _send_raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))


def shared_garbage_that_looks_like_a_handshake(cluster):
    _check_bystander(cluster, _send_raw(zk.frame(b"\x7f" * 45)))


def shared_a_negative_length(cluster):
    _check_bystander(cluster, _send_raw(struct.pack(">i", -5) + b"x" * 100))
    _check_bystander(cluster, _send_in_session(struct.pack(">i", -1) + b"x" * 100))


def shared_a_huge_length(cluster):
    _check_bystander(cluster, _send_raw(struct.pack(">i", 0x7FFFFFFF) + b"x" * 100))
    _check_bystander(cluster, _send_in_session(struct.pack(">i", zk.MAX_FRAME_BYTES * 4) + b"x" * 100))


def shared_a_handshake_that_is_too_short(cluster):
    _check_bystander(cluster, _send_raw(zk.frame(zk.connect_request(10000)[:20])))


def shared_a_truncated_frame_and_then_nothing(cluster):
    def send(address):
        connection = zk.RawConnection(address)
        connection.send(zk.frame(zk.connect_request(10000))[:30])
        connection.abandon()
        session = zk.Connection(address)
        session.send(struct.pack(">i", 1000) + b"only the beginning")
        session.abandon()
    _check_bystander(cluster, send)


def shared_a_request_whose_fields_end_beyond_it(cluster):
    body = zk.header(1, zk.GET_DATA) + struct.pack(">i", 1 << 20) + b"/short"
    _check_bystander(cluster, _send_in_session(zk.frame(body), must_close=False))
    _check_bystander(cluster, _send_in_session(zk.frame(b"\0"), must_close=False))
    _check_bystander(cluster, _send_in_session(zk.frame(
        zk.header(1, zk.CREATE) + zk.ustring("/x") + zk.buffer(b"") + struct.pack(">i", 0x7FFFFFFF)),
        must_close=False))


def shared_an_unknown_operation(cluster):
    def send(address):
        with zk.Connection(address) as connection:
            connection.submit(4711)
            try:
                reply = connection.receive(PATIENCE_SECONDS)
                assert reply.err == zk.UNIMPLEMENTED, f"error {reply.err} for an unknown operation"
            except zk.Closed as error:
                assert "in time" not in str(error), "no answer and no end of the connection"
            session = connection.session
        with zk.Connection(address, session=session) as again:
            again.close()  # the session still exists
    _check_bystander(cluster, send)


def shared_a_wrong_session_password(cluster):
    def send(address):
        with zk.Connection(address) as owner:
            path = owner.create("/owned-", b"", zk.EPHEMERAL_SEQUENTIAL)
            wrong = bytes(byte ^ 0xFF for byte in owner.password)
            try:
                zk.Connection(address, session=(owner.session_id, wrong))
            except zk.SessionRefused:
                pass
            else:
                raise AssertionError("a session was resumed with a wrong password")
            # The server may close the owner's connection, but must keep the session.
            with zk.Connection(address, session=owner.session) as again:
                assert again.exists(path), "the owner's ephemeral node is deleted"
                again.close()
    _check_bystander(cluster, send)


def shared_a_session_that_never_was(cluster):
    def send(address):
        try:
            zk.Connection(address, session=(0x0123456789ABCDEF, bytes(range(16))))
        except zk.SessionRefused:
            return
        raise AssertionError("a session that never existed was resumed")
    _check_bystander(cluster, send)


def shared_random_bytes_in_sessions(cluster):
    # Fixed, so that a failure can be repeated.
    state = 0x9E3779B97F4A7C15
    frames = []
    for _ in range(200):
        body = bytearray()
        for _ in range(8 + state % 60):
            state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
            body.append(state >> 56)
        # Most frames have a valid operation, so that its decoder gets the garbage; never closeSession.
        operation = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 14, 15, 19, 21, 22, 101, 103, 105, 106)[state % 19]
        frames.append(zk.frame(zk.header(1, operation) + bytes(body)))

    def send(address):
        for data in frames:
            with zk.Connection(address) as connection:
                connection.offer(data + zk.frame(zk.header(2, zk.CLOSE)))
                # Only the member must stay alive, which the bystander checks.
                connection.is_closed_by_peer(0.5)
    _check_bystander(cluster, send)


def shared_a_client_that_reads_no_answers(cluster):
    def send(address):
        with zk.Connection(address) as connection:
            connection.create("/big", b"x" * 200000, zk.EPHEMERAL)
            connection.socket.settimeout(1.0)
            request = b"".join(zk.frame(zk.header(xid, zk.GET_DATA) + zk.request_path_watch("/big", False))
                               for xid in range(2, 2000))
            end = time.monotonic() + 2
            try:
                while time.monotonic() < end:
                    connection.send(request)
            except zk.Closed:
                pass  # the server has stopped reading, as expected
    _check_bystander(cluster, send)
