# SPDX-License-Identifier: Apache-2.0
"""Tests clients that send too much, too little, too slowly or nonsense, or read nothing. The operations of another
client (the bystander) go on, and the server's memory stays bounded."""

import fcntl
import random
import socket
import struct
import termios
import time

import bystander as by
import harness
import zkwire as zk

TIMEOUT_MS = 30000
FRAMES = {"largest": 0x7FFFFFFF, "just too large": zk.MAX_FRAME_BYTES + 1, "negative": -1,
          "most negative": -0x80000000}


def _await(condition, what):
    deadline = time.monotonic() + by.PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {by.PATIENCE_SECONDS} s: {what}"
        time.sleep(0.02)


def _await_connections(address, count):
    _await(lambda: int(by.monitor(address)["zk_num_alive_connections"]) <= count,
           f"the server has not more than {count} connections")


def _send_without_waiting(connection, data):
    """Sends as much as the socket accepts without waiting. Returns the number of bytes."""
    connection.socket.setblocking(False)
    sent = 0
    try:
        while sent < len(data):
            sent += connection.socket.send(data[sent:])
    except BlockingIOError:
        pass
    finally:
        connection.socket.settimeout(connection.timeout)
    return sent


def _unsent_bytes(connection):
    return struct.unpack("i", fcntl.ioctl(connection.socket, termios.TIOCOUTQ, bytes(4)))[0]


def shared_readers_that_do_not_read(cluster):
    address = cluster.address(1)
    size, requests, count = 300_000, 400, 40
    with by.Bystander(address) as client, zk.Connection(address, TIMEOUT_MS) as owner:
        owner.create("/big", b"x" * size, zk.EPHEMERAL)
        memory = by.Memory(cluster)
        sessions = [zk.Connection(address, TIMEOUT_MS) for _ in range(count)]
        for session in sessions:
            for _ in range(requests):
                session.submit(zk.GET_DATA, zk.request_path_watch("/big", False))
        client.progress(100)
        # The requests asked for 4.8 GB.
        note = memory.note(count * 12)
        # What was held back comes when somebody reads, and all of it.
        for xid in range(1, requests + 1):
            reply = sessions[0].receive()
            assert (reply.xid, reply.err) == (xid, zk.OK), f"{reply.xid} after {xid - 1}"
            assert len(reply.body) == 4 + size + 68
        client.progress()
        for session in sessions:
            session.abandon()
        owner.delete("/big")
        return note


def shared_a_reader_that_does_not_read_loses_its_session(cluster):
    if not cluster.keeps_connections:
        raise harness.Skipped("ZooKeeper reads on, and keeps the answers in memory")
    address = cluster.address(1)
    with by.Bystander(address) as client, zk.Connection(address, TIMEOUT_MS) as owner:
        owner.create("/big", b"x" * 500_000, zk.EPHEMERAL)
        with zk.Connection(address, 1000) as session:
            path = session.create("/of-slow-", b"", zk.EPHEMERAL_SEQUENTIAL)
            assert owner.exists(path, watch=True)
            request = b"".join(zk.frame(zk.header(xid, zk.GET_DATA) +
                                        zk.request_path_watch("/big", False))
                               for xid in range(10, 1000))
            # The client goes on to send requests, but the server does not read them.
            deleted = None
            deadline = time.monotonic() + by.PATIENCE_SECONDS
            while deleted is None and time.monotonic() < deadline:
                try:
                    _send_without_waiting(session, request)
                except OSError:
                    pass
                try:
                    deleted = owner.wait_event(0.3)
                except zk.Closed:
                    owner.ping()
            assert deleted and deleted.path == path, "the session of a reader that hangs does not expire"
            client.progress()
        owner.delete("/big")


def shared_clients_that_close_and_do_not_wait(cluster):
    """A client sends closeSession behind requests whose answers it does not wait for, as zookeeper_close() does. Its
    locks are released at once, not only when the session would have expired. ZooKeeper loses some of these requests."""
    with zk.Connection(cluster.address(2), 60000) as watcher:
        for member in (1, 2, 3):
            for pairs in (1, 5, 50, 500):
                client = zk.Connection(cluster.address(member), 60000)
                path = client.create("/lock-", b"", zk.EPHEMERAL_SEQUENTIAL)
                pair = [(zk.SET_DATA, zk.request_set(path, b"x", -1)),
                        (zk.GET_DATA, zk.request_path_watch(path, False))]
                for operation, body in pair * pairs:
                    client.submit(operation, body)
                client.submit(zk.CLOSE)
                # A socket that is closed with unread answers discards the bytes that it has not sent yet.
                _await(lambda: _unsent_bytes(client) == 0, "all requests are sent")
                client.abandon()
                watcher.sync()
                _await(lambda: not watcher.exists(path), f"{path}, {pairs} pairs of requests, is deleted")


def shared_writers_that_send_slowly(cluster):
    address = cluster.address(1)
    body = zk.header(1, zk.CREATE) + zk.request_create("/slow-", b"y" * 900_000,
                                                       zk.EPHEMERAL_SEQUENTIAL)
    data = zk.frame(body)
    pieces = [data[i:i + 20_000] for i in range(0, len(data), 20_000)]
    pieces[0:1] = [data[i:i + 1] for i in range(100)] + [data[100:20_000]]
    with by.Bystander(address) as client:
        memory = by.Memory(cluster)
        sessions = [zk.Connection(address, TIMEOUT_MS) for _ in range(40)]
        for piece in pieces[:-1]:
            for session in sessions:
                session.send(piece)
        client.progress()
        note = memory.note(40 * 4)
        for session in sessions[:4]:
            session.send(pieces[-1])
        for session in sessions[:4]:
            reply = session.receive()
            assert (reply.xid, reply.err) == (1, zk.OK), f"{reply.xid}: error {reply.err}"
            session.close()
        client.progress()
        for session in sessions[4:]:
            session.abandon()
        return note


def shared_connections_that_say_nothing(cluster):
    address = cluster.address(1)
    handshake = zk.frame(zk.connect_request(10000))
    with by.Bystander(address) as client:
        before = int(by.monitor(address)["zk_num_alive_connections"])
        memory = by.Memory(cluster)
        silent = [zk.RawConnection(address) for _ in range(600)]
        for i, connection in enumerate(silent):
            connection.send(handshake[:i % len(handshake)])
        client.progress()
        _await(lambda: int(by.monitor(address)["zk_num_alive_connections"]) >= before + len(silent),
               "all silent connections are there")
        note = memory.note(100)
        for connection in silent:
            connection.abandon()
        _await_connections(address, before)
        return note


def shared_a_flood_of_connects(cluster):
    address = cluster.address(1)
    with by.Bystander(address) as client:
        before = int(by.monitor(address)["zk_num_alive_connections"])
        memory = by.Memory(cluster)
        started = time.monotonic()
        for i in range(3000):
            connection = zk.RawConnection(address)
            if i % 2:  # resets the connection without waiting for an answer
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                             struct.pack("ii", 1, 0))
            if i % 3 == 0:
                connection.send(zk.frame(zk.connect_request(10000)))
            connection.abandon()
        rate = 3000 / (time.monotonic() - started)
        client.progress()
        _await_connections(address, before)
        return f"{rate:.0f} connects/s, {memory.note(100)}"


def shared_a_flood_of_four_letter_words(cluster):
    address = cluster.address(1)
    words = [b"ruok", b"srvr", b"stat", b"mntr", b"conf", b"cons", b"dump", b"wchs", b"wchc", b"wchp",
             b"dirs", b"isro", b"hash", b"envi", b"crst", b"srst"]
    with by.Bystander(address) as client:
        before = int(by.monitor(address)["zk_num_alive_connections"])
        memory = by.Memory(cluster)
        unread = []
        for i in range(800):
            connection = zk.RawConnection(address)
            connection.send(words[i % len(words)])
            unread.append(connection)
        client.progress()
        for connection in unread[:16]:
            assert connection.is_closed_by_peer(by.PATIENCE_SECONDS), "the connection stays open after a word"
        for connection in unread:
            connection.abandon()
        _await_connections(address, before)
        return memory.note(100)


def shared_paths_of_a_megabyte(cluster):
    address = cluster.address(1)
    path = "/" + "p" * 1_000_000
    with by.Bystander(address) as client:
        memory = by.Memory(cluster)
        with zk.Connection(address, TIMEOUT_MS) as session:
            for _ in range(5):
                assert session.create(path, b"") == path
                assert session.exists(path, watch=True)
                assert session.get(path)[0] == b""
                session.set(path, b"data")
                session.delete(path)
                assert not session.exists(path)
                event = session.wait_event()
                assert (event.type, event.path) == (zk.NODE_DATA_CHANGED, path), event.type
            client.progress()
            session.close()
        with zk.Connection(address, TIMEOUT_MS) as session:
            session.offer(zk.frame(zk.header(1, zk.EXISTS) +
                                   zk.request_path_watch("/" + "p" * zk.MAX_FRAME_BYTES, False)))
            assert session.is_closed_by_peer(by.PATIENCE_SECONDS), "a path above jute.maxbuffer"
        client.progress()
        return memory.note(300)


def shared_multis_of_ten_thousand_operations(cluster):
    address = cluster.address(1)
    count = 10_000
    with by.Bystander(address) as client, zk.Connection(address, TIMEOUT_MS, timeout=30) as session:
        memory = by.Memory(cluster)
        session.create("/m")
        creates = [(zk.CREATE, zk.request_create(f"/m/{i:05}", b"")) for i in range(count)]
        deletes = [(zk.DELETE, zk.request_delete(f"/m/{i:05}", -1)) for i in range(count)]
        session.call(zk.MULTI, zk.request_multi(creates))
        assert len(session.children("/m")) == count
        # The last operation fails, so none is applied.
        session.submit(zk.MULTI, zk.request_multi(deletes + [(zk.DELETE, zk.request_delete("/m", 7))]))
        reply = session.receive()
        assert reply.xid == session.xid
        assert len(session.children("/m")) == count, "a failed multi has had an effect"
        client.progress()
        session.call(zk.MULTI, zk.request_multi(deletes))
        assert session.children("/m") == []
        session.delete("/m")
        client.progress()
        return memory.note(500)


def shared_a_list_of_children_above_the_buffer(cluster):
    if not cluster.keeps_connections:
        raise harness.Skipped("as many nodes as that need another heap")
    address = cluster.address(1)
    count, batch = 200_000, 10_000
    with by.Bystander(address) as client, zk.Connection(address, TIMEOUT_MS, timeout=30) as session:
        memory = by.Memory(cluster)
        session.create("/many")
        for first in range(0, count, batch):
            session.call(zk.MULTI, zk.request_multi(
                [(zk.CREATE, zk.request_create(f"/many/child-{i:07}", b"", zk.EPHEMERAL))
                 for i in range(first, first + batch)]))
        started = time.monotonic()
        names = session.children("/many")
        seconds = time.monotonic() - started
        assert len(names) == count and len(set(names)) == count
        client.progress()
        note = memory.note(1000)
        session.close()  # which deletes them all in one step
        client.progress()
    with zk.Connection(address) as session:
        _await(lambda: not session.children("/many"), "the ephemeral nodes are deleted")
        session.delete("/many")
    return f"listed in {seconds * 1000:.0f} ms, {note}"


def shared_lengths_that_cannot_be(cluster):
    address = cluster.address(1)
    with by.Bystander(address) as client:
        for name, length in FRAMES.items():
            raw = zk.RawConnection(address)
            raw.offer(struct.pack(">i", length) + b"x" * 1000)
            assert raw.is_closed_by_peer(by.PATIENCE_SECONDS), f"{name} length in the handshake"
            raw.abandon()
            with zk.Connection(address) as session:
                session.offer(struct.pack(">i", length) + b"x" * 1000)
                assert session.is_closed_by_peer(by.PATIENCE_SECONDS), f"{name} length in a session"
            client.progress(2)
        # Lengths inside a request that is too short for any of them.
        for length in FRAMES.values():
            for operation in (zk.CREATE, zk.SET_DATA, zk.MULTI, zk.SET_WATCHES, zk.AUTH, 15, 22, 105):
                with zk.Connection(address) as session:
                    session.offer(zk.frame(zk.header(1, operation) + struct.pack(">i", length) * 3) +
                                  zk.frame(zk.header(2, zk.CLOSE)))
                    assert session.is_closed_by_peer(by.PATIENCE_SECONDS)
        client.progress()


def _life():
    """Returns the bytes of a whole session."""
    requests = [(zk.CREATE, zk.request_create("/cut-", b"data", zk.EPHEMERAL_SEQUENTIAL)),
                (zk.GET_DATA, zk.request_path_watch("/", True)),
                (zk.MULTI, zk.request_multi([(zk.CHECK, zk.request_delete("/", -1))])),
                (zk.CLOSE, b"")]
    frames = [zk.frame(zk.header(xid, operation) + body)
              for xid, (operation, body) in enumerate(requests, 1)]
    return zk.frame(zk.connect_request(2000)) + b"".join(frames)


def shared_frames_cut_anywhere(cluster):
    address = cluster.address(1)
    data = _life()
    with by.Bystander(address) as client:
        before = int(by.monitor(address)["zk_num_alive_connections"])
        for end in range(len(data)):
            connection = zk.RawConnection(address)
            connection.send(data[:end])
            connection.abandon()
        client.progress()
        _await_connections(address, before)
        return f"{len(data)} places"


def shared_frames_in_two_parts_anywhere(cluster):
    address = cluster.address(1)
    data = _life()
    with by.Bystander(address) as client:
        for end in range(1, len(data), 3):
            connection = zk.RawConnection(address)
            connection.send(data[:end])
            connection.send(data[end:])
            connection.receive_frame()
            replies = [zk.decode_reply(connection.receive_frame()) for _ in range(4)]
            assert [(r.xid, r.err) for r in replies] == [(i, zk.OK) for i in (1, 2, 3, 4)], (
                f"cut at {end}: {replies}")
            assert connection.is_closed_by_peer(by.PATIENCE_SECONDS)
            connection.abandon()
        client.progress()


def shared_random_bytes_in_all_places(cluster):
    address = cluster.address(1)
    data = _life()
    source = random.Random(20261121)
    with by.Bystander(address) as client:
        for _ in range(600):
            damaged = bytearray(data)
            for _ in range(source.randint(1, 4)):
                damaged[source.randrange(len(damaged))] = source.randrange(256)
            connection = zk.RawConnection(address)
            connection.send(bytes(damaged))
            connection.abandon()
        client.progress()
