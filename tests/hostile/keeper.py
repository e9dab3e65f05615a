# SPDX-License-Identifier: Apache-2.0
"""Tests clients that misuse the operations of ClickHouse Keeper, which are not ZooKeeper's: requests that are cut or
have impossible numbers, lists and removals of large subtrees, and writes of the virtual znodes. The operations of
another client (the bystander) go on, and the server's memory stays bounded."""

import struct
import time

import bystander as by
import harness
import zkwire as zk

TIMEOUT_MS = 30000
MAX_U32 = 0xFFFFFFFF
# The most znodes that the recursive removals of one request may remove (tree/limits.h).
REMOVED_MAX = 10_000
NUMBERS = (0x7FFFFFFF, -0x80000000, -2, 1 << 24)
READS = {zk.FILTERED_LIST: zk.request_filtered_list("/k", False, 0),
         zk.FILTERED_LIST_DETAILED: zk.request_filtered_list("/k", False, 0, (True, True)),
         zk.LIST_RECURSIVE: zk.request_path_number("/k", MAX_U32)}
WRITES = {zk.CHECK_NOT_EXISTS: zk.request_delete("/none", -1),
          zk.CREATE_IF_NOT_EXISTS: zk.request_create("/k", b"data"),
          zk.REMOVE_RECURSIVE: zk.request_path_number("/none", 10),
          zk.CHECK_STAT: zk.request_check_stat("/k"),
          zk.TRY_REMOVE: zk.request_delete("/none", -1)}


def _session(cluster, timeout=30.0):
    if not cluster.keeps_connections:
        raise harness.Skipped("ZooKeeper does not have these operations")
    session = zk.Connection(cluster.address(1), TIMEOUT_MS, timeout=timeout)
    # As ClickHouse does, waits until the server announces the operations.
    deadline = time.monotonic() + by.PATIENCE_SECONDS
    while not session.exists("/keeper/feature_flags"):
        assert time.monotonic() < deadline, "the server does not announce the operations of ClickHouse Keeper"
        time.sleep(0.05)
    return session


def _error(session, operation, body):
    """Makes a request. Returns the error code of the reply."""
    xid = session.submit(operation, body)
    reply = session.receive()
    assert reply.xid == xid, f"the reply to xid {reply.xid} comes instead of that to {xid}"
    return reply.err


def _expect(session, operation, body, *errors, what=""):
    error = _error(session, operation, body)
    assert error in errors, f"operation {operation}, {what or body[:60]}: error {error} instead of {errors}"


def _results(session, operations):
    """Makes a multi of which an operation fails. Returns the error code of each operation."""
    reader = session.call(zk.MULTI, zk.request_multi(operations))
    errors = []
    for _ in operations:
        _, _, error = reader.take(">i?i")
        assert reader.take(">i") == error
        errors.append(error)
    return errors


def _make_children(session, parent, count, batch=5000):
    session.create(parent)
    for first in range(0, count, batch):
        session.call(zk.MULTI, zk.request_multi(
            [(zk.CREATE, zk.request_create(f"{parent}/{i:06}", b"x"))
             for i in range(first, min(first + batch, count))]))


def _remove_all(session, parent):
    names = session.children(parent)
    for first in range(0, len(names), 5000):
        session.call(zk.MULTI, zk.request_multi(
            [(zk.DELETE, zk.request_delete(f"{parent}/{name}", -1)) for name in names[first:first + 5000]]))
    session.delete(parent)


def shared_requests_of_keeper_cut_anywhere(cluster):
    with _session(cluster) as session, by.Bystander(cluster.address(1)) as client:
        session.create("/k", b"", zk.EPHEMERAL)
        cuts = 0
        for operation, body in {**READS, **WRITES}.items():
            assert _error(session, operation, body) == zk.OK, f"operation {operation} itself fails"
            for end in range(len(body)):
                _expect(session, operation, body[:end], zk.MARSHALLING_ERROR, what=f"cut at {end}")
                cuts += 1
        for operation, body in WRITES.items():
            multi = zk.request_multi([(operation, body)])
            for end in range(len(multi)):
                _expect(session, zk.MULTI, multi[:end], zk.MARSHALLING_ERROR, what=f"in a multi, cut at {end}")
                cuts += 1
        for operation in (zk.FILTERED_LIST, zk.FILTERED_LIST_DETAILED):
            reads = zk.request_multi([(operation, READS[operation])])
            for end in range(len(reads)):
                _expect(session, zk.MULTI_READ, reads[:end], zk.MARSHALLING_ERROR, what=f"in a multiRead, cut at {end}")
                cuts += 1
        client.progress()
        session.close()
        return f"{cuts} places"


def shared_lengths_in_requests_of_keeper(cluster):
    with _session(cluster) as session, by.Bystander(cluster.address(1)) as client:
        for length in (*NUMBERS, zk.MAX_FRAME_BYTES, -1):
            path = struct.pack(">i", length) + b"/path" * 20
            for operation in (*READS, *WRITES):
                _expect(session, operation, path, zk.MARSHALLING_ERROR, zk.BAD_ARGUMENTS, what=f"length {length}")
            for body in (zk.ustring("/path") + path,                                         # of the data
                         zk.ustring("/path") + zk.buffer(b"") + path,                        # of the list of ACLs
                         zk.ustring("/path") + zk.buffer(b"") + struct.pack(">ii", 1, 31) + path):
                _expect(session, zk.CREATE_IF_NOT_EXISTS, body, zk.MARSHALLING_ERROR, zk.INVALID_ACL,
                        zk.BAD_ARGUMENTS, what=f"length {length}")
        assert not session.exists("/path")
        client.progress()
        session.close()


def shared_numbers_that_cannot_be_in_requests_of_keeper(cluster):
    with _session(cluster) as session, by.Bystander(cluster.address(1)) as client:
        session.create("/k")
        session.create("/k/child")
        for kind in range(3, 256):
            for details in ((), (True, True)):
                body = zk.request_filtered_list("/k", False, kind, details)
                operation = zk.FILTERED_LIST_DETAILED if details else zk.FILTERED_LIST
                _expect(session, operation, body, zk.MARSHALLING_ERROR, what=f"kind {kind}")
                _expect(session, zk.MULTI_READ, zk.request_multi([(operation, body)]), zk.MARSHALLING_ERROR)
        for number in NUMBERS:
            # These versions are not those of the znode, so nothing is removed.
            _expect(session, zk.TRY_REMOVE, zk.request_delete("/k/child", number), zk.OK)
            _expect(session, zk.CHECK_NOT_EXISTS, zk.request_delete("/k/child", number), zk.OK)
            _expect(session, zk.CHECK_STAT, zk.request_check_stat("/k", number), zk.BAD_VERSION)
            for field in range(len(zk.Stat._fields)):
                stat = zk.Stat(*[number if i == field else -1 for i in range(len(zk.Stat._fields))])
                _expect(session, zk.CHECK_STAT, zk.request_check_stat("/k", -1, stat), zk.BAD_VERSION,
                        what=f"{zk.Stat._fields[field]} {number}")
        assert session.call(zk.LIST_RECURSIVE, zk.request_path_number("/k", 0)).strings() == []
        assert session.call(zk.LIST_RECURSIVE, zk.request_path_number("/k", MAX_U32)).strings() == ["/k/child"]
        for limit in (0, 1):
            _expect(session, zk.REMOVE_RECURSIVE, zk.request_path_number("/k", limit), zk.NOT_EMPTY)
        assert session.exists("/k/child"), "a removal above its limit has had an effect"
        _expect(session, zk.REMOVE_RECURSIVE, zk.request_path_number("/k", MAX_U32), zk.OK)
        assert not session.exists("/k")
        client.progress()
        session.close()


def shared_writes_of_paths_that_are_kept(cluster):
    with _session(cluster) as session, by.Bystander(cluster.address(1)) as client:
        flags = session.get("/keeper/feature_flags")
        root = session.children("/")
        for path in ("/keeper", "/keeper/feature_flags", "/keeper/api_version", "/keeper/new", "/keeper/new/below"):
            for operation in (zk.CHECK_NOT_EXISTS, zk.TRY_REMOVE, zk.DELETE):
                _expect(session, operation, zk.request_delete(path, -1), zk.BAD_ARGUMENTS, what=path)
            _expect(session, zk.REMOVE_RECURSIVE, zk.request_path_number(path, MAX_U32), zk.BAD_ARGUMENTS, what=path)
            _expect(session, zk.CHECK_STAT, zk.request_check_stat(path), zk.BAD_ARGUMENTS, what=path)
            for operation in (zk.CREATE, zk.CREATE_IF_NOT_EXISTS):
                _expect(session, operation, zk.request_create(path, b""), zk.BAD_ARGUMENTS, what=path)
            _expect(session, zk.MULTI, zk.request_multi([(zk.CREATE, zk.request_create("/made", b"")),
                                                         (zk.TRY_REMOVE, zk.request_delete(path, -1))]),
                    zk.BAD_ARGUMENTS, what=path)
        for path in ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", "", "k", "//k", "/k/", "/./k"):
            _expect(session, zk.REMOVE_RECURSIVE, zk.request_path_number(path, MAX_U32), zk.BAD_ARGUMENTS, what=path)
            _expect(session, zk.TRY_REMOVE, zk.request_delete(path, -1), zk.BAD_ARGUMENTS, what=path)
        assert session.get("/keeper/feature_flags") == flags, "the virtual znode has changed"
        assert session.children("/") == root and not session.exists("/made"), "a refused write has had an effect"
        client.progress()
        session.close()


def shared_lists_of_a_large_tree_by_many_clients(cluster):
    count, clients, requests = 100_000, 30, 20
    bodies = [(zk.LIST_RECURSIVE, zk.request_path_number("/", MAX_U32)),
              (zk.FILTERED_LIST, zk.request_filtered_list("/large", False, 2)),
              (zk.FILTERED_LIST_DETAILED, zk.request_filtered_list("/large", False, 0, (True, True)))]
    with _session(cluster) as session, by.Bystander(cluster.address(1)) as client:
        _make_children(session, "/large", count)
        memory = by.Memory(cluster)
        floods = [zk.Connection(cluster.address(1), TIMEOUT_MS, timeout=60) for _ in range(clients)]
        for _ in range(requests):
            for flood, (operation, body) in zip(floods, bodies * clients):
                flood.submit(operation, body)
        client.progress(100)
        # The requests asked for more than 2 GB.
        note = memory.note(clients * 30)
        for flood, (operation, _) in zip(floods[:3], bodies):
            reader = zk.Reader(flood.receive().body)
            names = reader.strings()
            if operation == zk.LIST_RECURSIVE:
                names = [name for name in names if name.startswith("/large/")]
            expected = 0 if operation == zk.FILTERED_LIST else count
            assert len(names) == len(set(names)) == expected, f"operation {operation} lists {len(names)} znodes"
        for flood in floods:
            flood.abandon()
        client.progress()
        _remove_all(session, "/large")
        session.close()
        return note


def shared_lists_of_children_with_long_paths(cluster):
    """Each path in the reply has the path of its parent, so a few children make a long reply."""
    parent, count = "/" + "p" * 500_000, 400
    with _session(cluster) as session, by.Bystander(cluster.address(1)) as client:
        session.create(parent)
        for i in range(count):
            session.create(f"{parent}/{i}")
        peak = by.Peak(cluster)
        for _ in range(5):
            session.submit(zk.LIST_RECURSIVE, zk.request_path_number("/", MAX_U32))
            session.submit(zk.FILTERED_LIST_DETAILED, zk.request_filtered_list(parent, False, 0, (True, True)))
        client.progress(50)
        for _ in range(5):
            assert session.receive().err == zk.MARSHALLING_ERROR, "a list of 200 MB is not refused"
            assert len(zk.Reader(session.receive().body).strings()) == count
        # Less than the list that was refused.
        note = peak.note(190)
        _expect(session, zk.REMOVE_RECURSIVE, zk.request_path_number(parent, MAX_U32), zk.NOT_EMPTY)
        for i in range(count):
            session.call(zk.TRY_REMOVE, zk.request_delete(f"{parent}/{i}", -1))
        session.call(zk.REMOVE_RECURSIVE, zk.request_path_number(parent, 1))
        assert not session.exists(parent)
        client.progress()
        session.close()
        return note


def shared_removals_of_large_subtrees(cluster):
    with _session(cluster) as session, by.Bystander(cluster.address(1)) as client:
        _make_children(session, "/huge", 3 * REMOVED_MAX)
        memory = by.Memory(cluster)
        # No number that a client sends lets it remove more at once than the server's limit.
        attackers = [zk.Connection(cluster.address(1), TIMEOUT_MS, timeout=60) for _ in range(5)]
        limits = (0, 1, REMOVED_MAX, 3 * REMOVED_MAX, MAX_U32) * 40
        for attacker in attackers:
            for limit in limits:
                attacker.submit(zk.REMOVE_RECURSIVE, zk.request_path_number("/huge", limit))
        client.progress(100)
        for attacker in attackers:
            for limit in limits:
                assert attacker.receive().err == zk.NOT_EMPTY, f"limit {limit}"
            attacker.close()
        assert len(session.children("/huge")) == 3 * REMOVED_MAX
        _remove_all(session, "/huge")

        # The largest removal is one change: no client sees a part of it.
        _make_children(session, "/most", REMOVED_MAX - 1)
        assert session.exists("/most/000001", watch=True)
        assert len(session.children("/most", watch=True)) == REMOVED_MAX - 1
        with zk.Connection(cluster.address(1), TIMEOUT_MS) as reader:
            started = time.monotonic()
            session.submit(zk.REMOVE_RECURSIVE, zk.request_path_number("/most", MAX_U32))
            while (stat := reader.exists("/most")) is not None:
                assert stat.num_children == REMOVED_MAX - 1, f"{stat.num_children} children are left"
                assert time.monotonic() < started + by.PATIENCE_SECONDS, "the znodes are not removed"
            reader.close()
        assert session.receive().err == zk.OK
        seconds = time.monotonic() - started
        events = sorted((session.wait_event().type, session.wait_event().type))
        assert events == [zk.NODE_DELETED, zk.NODE_CHILDREN_CHANGED], events
        client.progress()
        note = memory.note(300)
        session.close()
        return f"{REMOVED_MAX} znodes in {seconds * 1000:.0f} ms, {note}"


def shared_removals_in_long_multis(cluster):
    with _session(cluster) as session, by.Bystander(cluster.address(1)) as client:
        memory = by.Memory(cluster)
        remove = (zk.REMOVE_RECURSIVE, zk.request_path_number("/m", 2))
        again = [(zk.CREATE_IF_NOT_EXISTS, zk.request_create("/m", b"")),
                 (zk.CREATE_IF_NOT_EXISTS, zk.request_create("/m/c", b"")), remove]
        # Together they remove as much as one request may, and then more.
        session.call(zk.MULTI, zk.request_multi(again * (REMOVED_MAX // 2)))
        assert not session.exists("/m")
        errors = _results(session, again * (REMOVED_MAX // 2 + 1))
        assert errors[-1] == zk.NOT_EMPTY and set(errors[:-1]) == {zk.OK}, errors[-3:]
        assert not session.exists("/m"), "a failed multi has had an effect"

        _make_children(session, "/m", 6000)
        _make_children(session, "/n", 6000)
        operations = [(zk.REMOVE_RECURSIVE, zk.request_path_number(path, MAX_U32)) for path in ("/m", "/n")]
        assert _results(session, operations) == [zk.OK, zk.NOT_EMPTY]
        # A removal that is rolled back, again and again.
        failing = [operations[0], (zk.CREATE, zk.request_create("/m", b"")),
                   (zk.CHECK_NOT_EXISTS, zk.request_delete("/m", -1))]
        for _ in range(50):
            session.submit(zk.MULTI, zk.request_multi(failing))
        client.progress(50)
        for _ in range(50):
            assert session.receive().err == zk.OK
        assert len(session.children("/m")) == len(session.children("/n")) == 6000, "a failed multi has had an effect"
        for operation in operations:
            session.call(*operation)
        assert not session.exists("/m") and not session.exists("/n")
        client.progress()
        note = memory.note(300)
        session.close()
        return note
