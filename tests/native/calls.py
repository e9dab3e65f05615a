# SPDX-License-Identifier: Apache-2.0
"""Tests calls, sessions and watches through the native front end of a real cluster, and the same tree through
the ZooKeeper front end."""

import base64
import contextlib
import re
import time

import grpc
import harness
import kazoo.client
import kazoo.exceptions
import native
from native import types

NAMES = iter(range(10**6))
# The longest session timeout that servers allow, for a session that is silent during a long test.
LONG_TIMEOUT_MS = 40000


def _fresh(prefix):
    return f"/{prefix}-{next(NAMES)}"


def _zookeeper(cluster, member=1):
    client = kazoo.client.KazooClient(cluster.address(member), timeout=10)
    client.start(15)
    return client


def _grpc(cluster, member):
    return cluster.command("grpc").split(",")[member - 1]


def _expect(code, error, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except native.Failed as failure:
        assert failure.code == code and native.name_of(failure.detail.code) == error, (
            f"{failure.code}, {native.name_of(failure.detail.code)}")
        return failure
    raise AssertionError("the call did not fail")


def shared_calls_do_what_they_say_at_every_member(cluster):
    path = _fresh("calls")
    with native.Tree(_grpc(cluster, 1)) as first:
        created = first.create(path, b"one")
        assert created.path == path and created.stat.created_zxid == created.zxid
        assert first.set(path, b"two", 0).stat.version == 1
        _expect("FAILED_PRECONDITION", "BAD_VERSION", first.set, path, b"three", 0)
        _expect("ALREADY_EXISTS", "NODE_EXISTS", first.create, path)
        _expect("NOT_FOUND", "NO_NODE", first.get, path + "-not")
        _expect("INVALID_ARGUMENT", "BAD_ARGUMENTS", first.create, "no path")
        _expect("INVALID_ARGUMENT", "BAD_ARGUMENTS", first.create, path + "-e", mode=types.CREATE_MODE_EPHEMERAL)
        for i in range(3):
            first.create(f"{path}/{i}")
    for member in cluster.numbers():
        with native.Tree(_grpc(cluster, member)) as tree:
            assert tree.get(path, linearizable=True).result.data == b"two"
            assert list(tree.list(path).result.children) == ["0", "1", "2"]
    with native.Tree(_grpc(cluster, 2)) as tree:
        _expect("FAILED_PRECONDITION", "NOT_EMPTY", tree.delete, path)
        assert tree.delete(path, recursive=True).removed == 4
        assert not tree.exists(path).result.exists
        failure = _expect("NOT_FOUND", "NO_NODE", tree.call, "Txn", native.tree.TxnRequest(
            operations=[native.create(path), native.set_(path + "-not", b""), native.create(path + "/x")]))
        assert [native.name_of(r.error) for r in failure.detail.results] == ["OK", "NO_NODE", "NOT_ATTEMPTED"]
        assert (failure.detail.path, failure.detail.operation_index) == (path + "-not", 1), failure.detail
        assert failure.detail.zxid > 0, failure.detail
        assert not tree.exists(path).result.exists, "a part of a failed transaction was applied"


def shared_clients_learn_what_a_member_can_do(cluster):
    features = {types.FEATURE_CHECK_CREATED, types.FEATURE_KEEPER_OPERATIONS, types.FEATURE_TRANSACTIONS}
    with native.Member(_grpc(cluster, 1)) as member, native.Session(_grpc(cluster, 1), min_revision=1) as session:
        server = session.opened.server
        assert server.revision == 1 and set(server.features) == features, server
        assert server.version == member.status().version, server
        assert member.version() == server, server
        session.close()
    try:
        native.Session(_grpc(cluster, 1), min_revision=server.revision + 1)
    except native.Ended as end:
        assert end.code == "UNIMPLEMENTED" and "has revision 1" in str(end), end
        return
    raise AssertionError("a client that needs a later revision was served")


def shared_the_writes_of_clickhouse_keeper_are_conditional(cluster):
    path = _fresh("keeper")
    operation = types.Operation
    with native.Tree(_grpc(cluster, 1)) as tree:
        create = native.tree.CreateIfNotExistsRequest(create=operation.Create(path=path, data=b"one"))
        created = tree.call("CreateIfNotExists", create)
        assert created.path == path and created.stat.created_zxid == created.zxid
        assert not tree.call("CreateIfNotExists", create).HasField("stat")
        tree.create(path + "/a")
        attempt = native.tree.TryRemoveRequest(remove=operation.TryRemove(path=path))
        assert tree.call("TryRemove", attempt).removed == 0
        checks = [operation(check_not_exists=operation.CheckNotExists(path=path, version=1)),
                  operation(check_stat=operation.CheckStat(path=path, data_bytes=3, children=1))]
        tree.call("Txn", native.tree.TxnRequest(operations=checks))
        checks.append(operation(check_stat=operation.CheckStat(path=path, children=2)))
        failure = _expect("FAILED_PRECONDITION", "BAD_VERSION", tree.call, "Txn",
                          native.tree.TxnRequest(operations=checks))
        assert failure.detail.path == path
        remove = native.tree.RemoveRecursiveRequest(remove=operation.RemoveRecursive(path=path, limit=1))
        _expect("FAILED_PRECONDITION", "NOT_EMPTY", tree.call, "RemoveRecursive", remove)
        remove.remove.limit = 2
        assert tree.call("RemoveRecursive", remove).removed == 2
        assert tree.call("RemoveRecursive", remove).removed == 0
        assert tree.call("TryRemove", attempt).removed == 0


def shared_compares_choose_the_branch_of_a_transaction(cluster):
    path = _fresh("branches")
    operation = types.Operation

    def txn(compares, operations, otherwise=()):
        return native.tree.TxnRequest(compares=compares, operations=operations, otherwise=otherwise)

    def read(of):
        return operation(get=operation.Get(path=of))

    absent = types.Compare(path=path, created_zxid=0)
    create = operation(create=operation.Create(path=path + "/a/b", data=b"1", with_parents=True))
    acquire = txn([absent], [create, operation(list=operation.List(path=path))], [read(path + "/a/b")])
    with native.Tree(_grpc(cluster, 1)) as first, native.Tree(_grpc(cluster, 2)) as second:
        taken = first.call("Txn", acquire)
        assert taken.branch == types.BRANCH_OPERATIONS, taken
        assert taken.results[0].stat.created_zxid == taken.zxid and list(taken.results[1].children) == ["a"], taken
        assert first.get(path).result.stat.created_zxid == taken.zxid
        # The other member's transaction is made behind the first, and sees it.
        missed = second.call("Txn", acquire)
        assert missed.branch == types.BRANCH_OTHERWISE and [r.data for r in missed.results] == [b"1"], missed
        assert missed.results[0].stat.created_zxid == taken.zxid

        is_less = types.Compare(path=path + "/a/b", data=b"0", relation=types.COMPARE_RELATION_LESS)
        assert first.call("Txn", txn([is_less], [], [])).branch == types.BRANCH_OTHERWISE
        is_less.data = b"11"
        assert first.call("Txn", txn([is_less], [], [])).branch == types.BRANCH_OPERATIONS

        failure = _expect("NOT_FOUND", "NO_NODE", first.call, "Txn", txn(
            [absent], [], [native.set_(path, b"x"), read(path + "/none")]))
        assert (failure.detail.branch, failure.detail.operation_index, failure.detail.path) == (
            types.BRANCH_OTHERWISE, 1, path + "/none"), failure.detail
        assert first.get(path, linearizable=True).result.stat.version == 0, "a part of a failed branch was applied"


def shared_transactions_that_are_not_valid_or_too_large_are_refused(cluster):
    path = _fresh("refused")
    operation = types.Operation
    compare = types.Compare(path="/", exists=True)
    with native.Tree(_grpc(cluster, 3)) as tree:
        tree.create(path, b"x" * 600_000)

        def refused(error, **fields):
            code = {"BAD_ARGUMENTS": "INVALID_ARGUMENT", "TOO_LARGE": "OUT_OF_RANGE", "NO_AUTH": "PERMISSION_DENIED"}
            return _expect(code[error], error, tree.call, "Txn", native.tree.TxnRequest(**fields)).detail

        refused("BAD_ARGUMENTS")
        refused("BAD_ARGUMENTS", compares=[types.Compare(path="/")])
        refused("BAD_ARGUMENTS", compares=[types.Compare(path="/", exists=True, relation=99)])
        refused("BAD_ARGUMENTS", compares=[types.Compare(path="/", exists=True, relation=types.COMPARE_RELATION_LESS)])
        refused("BAD_ARGUMENTS", compares=[compare], otherwise=[operation()])
        detail = refused("BAD_ARGUMENTS", compares=[compare, types.Compare(path="no path", version=1)])
        assert (detail.branch, detail.operation_index, detail.path) == (types.BRANCH_COMPARES, 1, "no path"), detail
        secret = native.create(path + "/secret")
        secret.create.acl.add(permissions=31, scheme="digest", id="nobody:x")
        tree.call("Txn", native.tree.TxnRequest(operations=[secret]))
        detail = refused("NO_AUTH", compares=[types.Compare(path=path + "/secret", data=b"")])
        assert detail.branch == types.BRANCH_COMPARES, detail
        refused("TOO_LARGE", compares=[compare] * 400_000)
        refused("TOO_LARGE", compares=[types.Compare(path="/", data=b"x" * 600_000)],
                otherwise=[native.set_(path, b"x" * 600_000)])
        read = operation(get=operation.Get(path=path))
        detail = refused("TOO_LARGE", operations=[native.set_(path, b"x" * 600_000), read, read])
        assert detail.operation_index == 2, detail
        deep = [operation(create=operation.Create(path=f"{path}/{i}" + "/a" * 1500, with_parents=True)) for i in range(4)]
        assert refused("TOO_LARGE", operations=deep).operation_index == 3
        assert tree.get(path, linearizable=True).result.stat.children == 1
        assert tree.get(path, linearizable=True).result.stat.version == 0


def shared_a_transaction_of_a_session_is_made_once(cluster):
    path = _fresh("once")
    operation = types.Operation
    create = native.session.Request.Write(
        sequence=1, compares=[types.Compare(path=path, exists=False)],
        operations=[native.create(path, b"1"), operation(get=operation.Get(path=path))],
        otherwise=[operation(delete=operation.Delete(path=path))])
    with native.Session(_grpc(cluster, 1)) as session:
        first = session.call(write=create)
        assert first.write.branch == types.BRANCH_OPERATIONS and first.write.results[1].data == b"1", first
        # Sent again, it is not made again, and what it has read is as it was then.
        session.call(write=native.session.Request.Write(sequence=2, operations=[native.set_(path, b"2")]))
        again = session.call(write=create)
        assert again.write == first.write and again.zxid == first.zxid, again
        create.sequence = 3
        assert session.call(write=create).write.branch == types.BRANCH_OTHERWISE
        session.close()


def shared_lists_have_details_of_the_children_or_everything_below(cluster):
    path = _fresh("lists")
    with native.Session(_grpc(cluster, 1)) as session:
        session.write(1, native.create(path), native.create(path + "/a", b"A"), native.create(path + "/a/x"),
                      native.create(path + "/e", b"E", types.CREATE_MODE_EPHEMERAL))
        for member in cluster.numbers():
            with native.Tree(_grpc(cluster, member)) as tree:
                request = native.tree.ListRequest(path=path, with_stats=True, with_data=True)
                request.options.linearizable = True
                result = tree.call("List", request).result
                assert list(result.children) == ["a", "e"] and list(result.child_data) == [b"A", b"E"]
                assert [stat.ephemeral_session for stat in result.child_stats] == [0, session.id]
                request.kind = types.CHILD_KIND_EPHEMERAL
                assert list(tree.call("List", request).result.children) == ["e"]
                below = native.tree.ListRecursiveRequest(path=path)
                assert list(tree.call("ListRecursive", below).result.paths) == [
                    path + "/a", path + "/e", path + "/a/x"]
                below.max = 2
                assert list(tree.call("ListRecursive", below).result.paths) == [path + "/a", path + "/e"]


def shared_a_scan_goes_on_at_another_member(cluster):
    path = _fresh("scan")
    names = [f"{i:04}" for i in range(300)]
    operation = types.Operation
    with native.Tree(_grpc(cluster, 1)) as tree:
        tree.create(path)
        for begin in range(0, len(names), 100):
            creates = [operation(create=operation.Create(path=f"{path}/{name}", data=name.encode() * 100))
                       for name in names[begin:begin + 100]]
            tree.call("Txn", native.tree.TxnRequest(operations=creates))
        tree.create(f"{path}/{names[7]}/below")
    for order in native.tree.SCAN_ORDER_PATHS, native.tree.SCAN_ORDER_LEVELS:
        request = native.tree.ScanRequest(path=path, order=order, with_data=True, limit=70)
        shown, pages, member = [], [], 0
        while not pages or not pages[-1].complete:
            with native.Tree(_grpc(cluster, cluster.numbers()[member % len(cluster.numbers())])) as tree:
                pages = list(tree.scan(request))
            assert sum(len(page.entries) for page in pages) <= 70
            shown += [entry for page in pages for entry in page.entries]
            request.token = pages[-1].token
            member += 1
        below = f"{path}/{names[7]}/below"
        expected = [f"{path}/{name}" for name in names]
        expected.insert(8 if order == native.tree.SCAN_ORDER_PATHS else len(expected), below)
        assert [entry.path for entry in shown] == expected
        assert all(entry.data == entry.path[-4:].encode() * 100 for entry in shown if entry.path != below)
        assert member > 4
    with native.Tree(_grpc(cluster, 1)) as tree:
        children = native.tree.ScanRequest(path=path, depth_max=1, prefix="00")
        assert len([entry for page in tree.scan(children) for entry in page.entries]) == 100
        for bad in {"token": b"x"}, {"depth_max": 0}, {"kinds": [99]}, {"path": path + "/"}:
            request = native.tree.ScanRequest(path=path)
            for name, value in bad.items():
                getattr(request, name).extend(value) if name == "kinds" else setattr(request, name, value)
            _expect("INVALID_ARGUMENT", "BAD_ARGUMENTS", lambda: list(tree.scan(request)))


def shared_a_watch_sends_data_and_reports_progress(cluster):
    path = _fresh("watch-data")
    with native.Tree(_grpc(cluster, 1)) as tree, native.Tree(_grpc(cluster, 2)) as writer:
        watch = tree.watch(path, types.WATCH_SCOPE_SUBTREE, with_value=True, with_previous_value=True, prefix="a",
                           types=[types.EVENT_TYPE_NODE_DATA_CHANGED, types.EVENT_TYPE_NODE_DELETED],
                           progress_interval=native.duration_of(100))
        begin = next(iter(watch)).zxid
        assert begin > 0
        writer.create(path)
        for name in "a", "b":
            writer.create(f"{path}/{name}", b"1")
            writer.set(f"{path}/{name}", b"2")
        writer.delete(path, recursive=True)
        events = []
        for response in watch:
            events += response.events
            if len(events) == 2:
                break
        assert [(event.path, event.previous_value, event.value, event.values_lost) for event in events] == [
            (path + "/a", b"1", b"2", False), (path + "/a", b"2", b"", False)], events
        assert not events[1].HasField("value")
        # Nothing happens any more, and the zxid is reported all the same.
        quiet = [next(iter(watch)) for _ in range(3)]
        assert all(not response.events for response in quiet) and quiet[-1].zxid >= begin
        watch.cancel()
        for bad in {"types": [0]}, {"types": [77]}, {"progress_interval": native.duration_of(1)}:
            _expect("INVALID_ARGUMENT", "BAD_ARGUMENTS", _first, tree.watch(path, types.WATCH_SCOPE_NODE, **bad))


def _first(stream):
    try:
        return next(iter(stream))
    except grpc.RpcError as error:
        raise native.Failed(error) from None


def shared_both_frontends_show_the_same_tree(cluster):
    path = _fresh("frontends")
    zookeeper = _zookeeper(cluster, 3)
    try:
        zookeeper.create(path, b"of kazoo")
        with native.Session(_grpc(cluster, 2)) as session:
            assert session.get(path, linearizable=True).get.data == b"of kazoo"
            session.write(1, native.set_(path, b"of gRPC"), native.create(path + "/e", b"", types.CREATE_MODE_EPHEMERAL))
            zookeeper.sync(path)
            data, _ = zookeeper.get(path)
            assert data == b"of gRPC"
            stat = zookeeper.exists(path + "/e")
            assert stat.ephemeralOwner == session.id & (2**64 - 1) or stat.ephemeralOwner == session.id
            zookeeper.create(path + "/k", ephemeral=True)
            assert session.get(path + "/k", linearizable=True).get.stat.ephemeral_session == (
                zookeeper.client_id[0])
            assert native.name_of(session.close().error) == "OK"
        zookeeper.sync(path)
        assert not zookeeper.exists(path + "/e"), "the ephemeral znode of a closed session exists"
    finally:
        zookeeper.stop()
        zookeeper.close()
    with native.Tree(_grpc(cluster, 1)) as tree:
        assert not tree.call("Exists", native.tree.ExistsRequest(
            path=path + "/k", options=native.tree.ReadOptions(linearizable=True))).result.exists


def shared_an_abandoned_session_expires(cluster):
    path = _fresh("abandoned")
    session = native.Session(_grpc(cluster, 1), timeout_ms=4000)
    touched = time.monotonic()  # the earliest time at which the server may receive the last message
    session.write(1, native.create(path, b"", types.CREATE_MODE_EPHEMERAL))
    session.break_off()
    # The timeout, a tick, and a margin for a busy machine; a session that never ends is found nevertheless.
    seconds_max = 4 + 2 + 20
    with native.Tree(_grpc(cluster, 2)) as tree:
        tree.get("/", linearizable=True)  # after this, the member has applied the write
        while tree.exists(path).result.exists:
            assert time.monotonic() - touched < seconds_max, f"the znode exists after {seconds_max} s"
            time.sleep(0.05)
    assert time.monotonic() - touched > 3.5, "the session ended too early"
    try:
        native.Session(_grpc(cluster, 3), session.id, session.password)
    except native.Ended as end:
        assert end.code == "UNAUTHENTICATED", end
        return
    raise AssertionError("a session that has expired was opened")


def shared_identities_count_at_both_frontends(cluster):
    path = _fresh("secret")
    acl = [types.Acl(permissions=31, scheme="auth")]
    alice = native.digest("alice:wonder")
    with native.Tree(_grpc(cluster, 1)) as tree:
        tree.create(path, b"secret", acl=acl, metadata=[alice])
        _expect("PERMISSION_DENIED", "NO_AUTH", tree.get, path)
        assert tree.get(path, metadata=[alice]).result.data == b"secret"
    zookeeper = _zookeeper(cluster)
    try:
        try:
            zookeeper.get(path)
            raise AssertionError("a client without the identity may read the znode")
        except kazoo.exceptions.NoAuthError:
            pass
        zookeeper.add_auth("digest", "alice:wonder")
        assert zookeeper.get(path)[0] == b"secret"
    finally:
        zookeeper.stop()
        zookeeper.close()
    with native.Session(_grpc(cluster, 2), metadata=[alice]) as session:
        assert session.get(path, linearizable=True).get.data == b"secret"
        identities = session.call(who_am_i=native.session.Request.WhoAmI()).who_am_i.identities
        assert [(i.scheme, i.id) for i in identities] == [("ip", "127.0.0.1"), ("digest", "alice")]


def shared_administrators_see_and_close_sessions(cluster):
    path = _fresh("seen")
    with native.Session(_grpc(cluster, 2), metadata=[native.digest("alice:wonder")]) as session, \
            native.Member(_grpc(cluster, 1)) as first, native.Member(_grpc(cluster, 2)) as second:
        session.write(1, native.create(path, b"", types.CREATE_MODE_EPHEMERAL))
        for number in range(3):
            session.call(watch=native.session.Request.Watch(watch_id=number, path=path, scope=types.WATCH_SCOPE_NODE))
        session.call(add_credential=types.Credential(scheme="digest", secret=b"bob:builder"))
        # Another member knows the session, and that it does not serve it.
        assert first.session(session.id).session.member == 2 and not first.session(session.id).session.HasField("client")
        shown = second.sessions()[session.id]
        assert (shown.ephemerals, shown.client.protocol, shown.client.watches) == (1, 2, 3), shown
        assert list(shown.client.identities) == ["ip:127.0.0.1", "digest:alice", "digest:bob"], shown
        assert second.session(session.id).ephemerals == [path]
        with native.Session(_grpc(cluster, 3), session.id, session.password) as moved:
            assert session.wait_end() == "ABORTED"
            moved.call(sync=native.session.Request.Sync())
            assert first.close_session(session.id)
            assert moved.wait_end() == "UNAUTHENTICATED"
        assert not first.close_session(session.id) and not first.session(session.id).HasField("session")
        with native.Tree(_grpc(cluster, 1)) as tree:
            assert not tree.exists(path).result.HasField("stat")


def shared_credentials_that_are_not_valid_are_refused(cluster):
    path = _fresh("refused")
    key = native.CREDENTIAL
    wrong = {
        "no base64": ("INVALID_ARGUMENT", [(key, "digest alice:wonder")]),
        "no padding": ("INVALID_ARGUMENT", [(key, "digest YWxpY2U6d29uZGV")]),
        "two in one": ("INVALID_ARGUMENT", [(key, "digest YTpi; digest YTpi")]),
        "too many in one": ("UNAUTHENTICATED", [(key, ",".join(129 * ["digest YTpi"]))]),
        "no scheme": ("INVALID_ARGUMENT", [native.digest("a:b"), (key, "YTpi")]),
        "unknown scheme": ("UNAUTHENTICATED", [(key, "kerberos YTpi")]),
        "too many": ("UNAUTHENTICATED", [native.digest(f"user:{number}") for number in range(129)]),
        "too many bytes": ("UNAUTHENTICATED", [native.digest("user:" + 13000 * "x")]),
        "a token": ("UNAUTHENTICATED", [("authorization", "Bearer 0123456789abcdef0123")]),
    }
    reasons = {"INVALID_ARGUMENT": "BAD_ARGUMENTS", "UNAUTHENTICATED": "AUTH_FAILED"}
    with native.Tree(_grpc(cluster, 1)) as tree:
        for what, (code, metadata) in wrong.items():
            _expect(code, reasons[code], lambda used=metadata: tree.create(path, metadata=used))
            try:
                with native.Session(_grpc(cluster, 1), metadata=metadata):
                    raise AssertionError(f"a session was opened with {what}")
            except native.Ended as end:
                assert end.code == code, f"{what}: {end}"
                assert "wonder" not in str(end) and "YTpi" not in str(end), end
        assert not tree.exists(path).result.HasField("stat")
        many = [native.digest(f"user:{number}") for number in range(128)]
        # A proxy may join the values with commas.
        tree.create(path, metadata=[many[0], (key, ", ".join(value for _, value in many[1:]))])


def shared_a_session_moves_and_writes_are_made_once(cluster):
    path = _fresh("moves")
    with native.Session(_grpc(cluster, 1)) as first:
        write = [native.create(path), native.create(path + "/n-", b"", types.CREATE_MODE_PERSISTENT_SEQUENTIAL)]
        answer = first.write(1, *write)
        with native.Session(_grpc(cluster, 2), first.id, first.password) as second:
            assert first.wait_end() == "ABORTED"
            assert second.opened.last_sequence == 1
            again = second.write(1, *write)
            assert again.write == answer.write and again.zxid == answer.zxid
            assert native.name_of(second.write(3, native.set_(path, b"")).error) == "OUT_OF_SEQUENCE"
            assert len(second.call(list=native.session.Request.List(path=path)).list.children) == 1
            second.close()


def shared_a_watch_goes_on_at_another_member(cluster):
    path = _fresh("watched")
    with native.Tree(_grpc(cluster, 1)) as tree:
        tree.create(path)
        with native.Session(_grpc(cluster, 1)) as first:
            first.watch(1, path, types.WATCH_SCOPE_SUBTREE)
            tree.create(path + "/1")
            first.wait_events(1)
            first._wait(lambda: first.zxid >= first.events[0].event.zxid)
            seen = first.zxid
        for i in range(2, 50):
            tree.create(f"{path}/{i}")
        with native.Session(_grpc(cluster, 2), first.id, first.password) as second:
            answer = second.watch(1, path, types.WATCH_SCOPE_SUBTREE, seen)
            assert native.name_of(answer.error) == "OK", answer
            for i in range(50, 60):
                tree.create(f"{path}/{i}")
            events = second.wait_events(58)
            assert [e.event.path for e in events] == [f"{path}/{i}" for i in range(2, 60)]
            second.close()
        stream = tree.watch(path, types.WATCH_SCOPE_CHILDREN, seen)
        paths = []
        for response in stream:
            paths += [event.path for event in response.events]
            if len(paths) >= 58:
                break
        stream.cancel()
        assert paths == [f"{path}/{i}" for i in range(2, 60)]


def shared_calls_are_made_with_what_reflection_says_alone(cluster):
    path = _fresh("reflected")
    with native.Tree(_grpc(cluster, 1)) as tree:
        tree.create(path, b"seen")
    versions = [version for version in ("v1", "v1alpha") if _serves_reflection(cluster, version)]
    assert versions, "no reflection"
    for version in versions:
        with native.Reflection(_grpc(cluster, 1), version) as reflection:
            names = reflection.services()
            assert {"quorate.v1.ClusterService", "quorate.v1.SessionService", "quorate.v1.TreeService",
                    "quorate.v1.LockService", "quorate.v1.ElectionService",
                    "grpc.health.v1.Health"} <= set(names), names
            methods = {name: [method.name for method in reflection.service(name).methods] for name in names
                       if name.startswith("quorate.")}
            assert sorted(methods["quorate.v1.TreeService"]) == [
                "Create", "CreateIfNotExists", "Delete", "Exists", "Get", "List", "ListRecursive",
                "RemoveRecursive", "Scan", "Set", "TryRemove", "Txn", "Watch"], methods
            assert methods["quorate.v1.SessionService"] == ["Session"], methods
            assert sorted(methods["quorate.v1.LockService"]) == ["Acquire", "Release"], methods
            assert sorted(methods["quorate.v1.ElectionService"]) == [
                "Campaign", "Observe", "Proclaim", "Resign"], methods
            assert sorted(methods["quorate.v1.ClusterService"]) == [
                "Backup", "ChangeMembers", "CloseSession", "GetSession", "ListSessions", "Members", "Metrics",
                "SlowRequests", "Status", "TopRequests", "TransferLeadership", "Version"], methods
            read = reflection.call("quorate.v1.TreeService", "Get", {"path": path, "options": {"linearizable": True}})
            assert base64.b64decode(read["result"]["data"]) == b"seen", read
            assert reflection.call("quorate.v1.ClusterService", "Status", {})["member"] == 1
            # The messages in the details of a status are described, too.
            failure = _expect("NOT_FOUND", "NO_NODE", reflection.call, "quorate.v1.TreeService", "Get",
                              {"path": path + "-not"})
            detail = reflection.message("quorate.v1.ErrorDetail")
            assert {field.name for field in detail.fields} == {
                field.name for field in failure.detail.DESCRIPTOR.fields}
    return ", ".join(versions)


def _serves_reflection(cluster, version):
    """Checks that the call of a missing version of reflection fails, and that the other version works."""
    with native.Reflection(_grpc(cluster, 1), version) as reflection:
        try:
            return bool(reflection.services())
        except native.Failed as failure:
            assert failure.code == "UNIMPLEMENTED", failure
            return False


def _wait_for_leader(members, is_wanted, seconds=20):
    """Waits until all members report the same leader, for which `is_wanted` holds. Returns it; 0 after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        statuses = [member.status() for member in members.values()]
        leader = statuses[0].leader
        if {status.leader for status in statuses} == {leader} and is_wanted(leader) and (
                members[leader].status().role == native.cluster.ROLE_LEADER):
            return leader
        time.sleep(0.02)
    return 0


def shared_leadership_moves_when_that_is_asked_for(cluster):
    path = _fresh("led")
    with contextlib.ExitStack() as stack:
        members = {number: stack.enter_context(native.Member(_grpc(cluster, number)))
                   for number in cluster.numbers()}
        session = stack.enter_context(native.Session(_grpc(cluster, 1), timeout_ms=LONG_TIMEOUT_MS))
        session.write(1, native.create(path))
        # Transfers to each member, and to a member that the leader chooses.
        wanted = [*cluster.numbers(), *cluster.numbers(), 0]
        for moves, target in enumerate(wanted, 2):
            before = _wait_for_leader(members, bool)
            assert before, "there is no leader"
            if target == before:
                target = 0
            follower = next(number for number in members if number != before)
            _expect("FAILED_PRECONDITION", "CANNOT_TRANSFER", members[follower].transfer_leadership, follower)
            _expect("FAILED_PRECONDITION", "CANNOT_TRANSFER", members[before].transfer_leadership, 77)
            for _ in range(5):  # a transfer that was begun need not succeed
                members[before].transfer_leadership(target)
                after = _wait_for_leader(members, lambda leader: leader not in (0, before))
                # A transfer may succeed late: a member that no longer leads refuses the next request.
                after = after or _wait_for_leader(members, bool)
                if after != before:
                    break
            assert after not in (0, before) and target in (0, after), (
                f"{after} leads, {before} led, asked for {target}")
            assert native.name_of(session.write(moves, native.set_(path, b"")).error) == "OK"
        assert session.get(path).get.stat.version == len(wanted)
        session.close()


def alone_health_is_that_of_the_quorum(server):
    with harness.Cluster(server) as cluster:
        for leads in (True, False):
            leader = cluster.leader()
            survivor = leader if leads else next(number for number in cluster.numbers() if number != leader)
            # The leader is stopped last: until then there is a majority.
            others = sorted(set(cluster.numbers()) - {survivor}, key=lambda number: number == leader)
            with native.Health(_grpc(cluster, survivor)) as health:
                statuses = {name: health.watch(name) for name in ("", "quorate.v1.TreeService")}
                for name, stream in statuses.items():
                    assert "SERVING" in stream, name
                for number in others:
                    cluster.kill(number)
                for name, stream in statuses.items():
                    assert "NOT_SERVING" in stream, name
                    assert health.check(name) == "NOT_SERVING", name
                for number in others:
                    cluster.restart(number)
                for name, stream in statuses.items():
                    assert "SERVING" in stream, name
                    stream.cancel()
            for number in others:
                with native.Health(_grpc(cluster, number)) as restarted:
                    assert "SERVING" in restarted.watch(), number


def alone_a_watch_goes_on_as_far_back_after_a_restart(server):
    checkpoint_entries = 2500
    with harness.Cluster(server, size=1, settings=[f"snapCount={checkpoint_entries}"]) as cluster:
        with native.Session(_grpc(cluster, 1), timeout_ms=LONG_TIMEOUT_MS) as session:
            session.watch(1, "/", types.WATCH_SCOPE_SUBTREE)
            last = session.get(_write_a_lot(cluster, 4 * checkpoint_entries)).get.stat.created_zxid
            # The next start finds events on both sides of the checkpoint: the last one is behind it, and the next checkpoint
            # is not due yet.
            while not 0 < last - _written_checkpoint(cluster) < checkpoint_entries // 2:
                last = session.get(_write_a_lot(cluster, checkpoint_entries // 10)).get.stat.created_zxid
            told = [(e.event.type, e.event.path, e.event.zxid) for e in session.events]
        checkpoints = []
        for _ in range(2):  # the second start reads the events that the first start has read and stored again
            cluster.kill(1)
            cluster.restart(1)
            checkpoints.append(int(re.findall("checkpoint of zxid 0x([0-9a-f]+): .* loaded", cluster.log(1))[-1], 16))
            with native.Session(_grpc(cluster, 1)) as session:
                answer = session.watch(1, "/", types.WATCH_SCOPE_SUBTREE, told[0][2] - 1)
                assert native.name_of(answer.error) == "OK", answer
                again = [(e.event.type, e.event.path, e.event.zxid) for e in session.events]
                assert again[:len(told)] == told, "other events"
                session.close()
            _write_a_lot(cluster, checkpoint_entries)
            cluster.wait_until("a checkpoint of all that was told", lambda: _written_checkpoint(cluster) > last)
        assert told[0][2] < checkpoints[0] < last < checkpoints[1], checkpoints
    return f"{len(told)} events, {sum(event[2] <= checkpoints[0] for event in told)} of before the checkpoint"


def _written_checkpoint(cluster):
    """Returns the zxid of the newest checkpoint that the first member says it has written; 0 without one."""
    return max((int(zxid, 16) for zxid in re.findall("checkpoint of zxid 0x([0-9a-f]+): .* written", cluster.log(1))),
               default=0)


def _write_a_lot(cluster, entries):
    client = _zookeeper(cluster)
    try:
        client.ensure_path("/top")
        pending = []
        for i in range(entries // 4):
            pending.append(client.create_async(f"/top/{i % 100}-{i}"))
            pending.append(client.set_async("/top", b""))
            pending.append(client.create_async("/top/sequential-", sequence=True))
            pending.append(client.delete_async(f"/top/{i % 100}-{i}"))
        for call in pending:
            call.get(60)
        return client.create("/last-", sequence=True)
    finally:
        client.stop()
        client.close()


def alone_events_that_are_not_kept_are_said_to_be_lost(server):
    with harness.Cluster(server, size=1, settings=["eventHistoryBytes=1000"]) as cluster:
        with native.Tree(_grpc(cluster, 1)) as tree:
            seen = tree.create("/a").zxid
            for i in range(300):
                tree.set("/a", b"")
            with native.Session(_grpc(cluster, 1)) as session:
                answer = session.watch(1, "/a", types.WATCH_SCOPE_NODE, seen)
                assert native.name_of(answer.error) == "EVENTS_LOST", answer
                answer = session.watch(1, "/a", types.WATCH_SCOPE_NODE, answer.watch.oldest_zxid)
                assert native.name_of(answer.error) == "OK", answer
                session.close()
            # The event history is available again after a restart.
            before = tree.set("/a", b"").zxid
            last = tree.set("/a", b"").zxid
        cluster.command("stop", 1)
        cluster.restart(1)
        with native.Session(_grpc(cluster, 1)) as session:
            answer = session.watch(1, "/a", types.WATCH_SCOPE_NODE, before)
            assert native.name_of(answer.error) == "OK", answer
            assert [e.event.zxid for e in session.wait_events(1)] == [last]
            session.close()
