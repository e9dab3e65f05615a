"""Calls, sessions and watches through the native door of a real cluster, and the same tree through the
ZooKeeper door."""

import time

import kazoo.client
import kazoo.exceptions
import native
from native import types

NAMES = iter(range(10**6))


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
    raise AssertionError("it did not fail")


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
        _expect("INVALID_ARGUMENT", "BAD_ARGUMENTS", first.create, path + "-e", mode=types.EPHEMERAL)
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
        assert failure.detail.path == path + "-not"
        assert not tree.exists(path).result.exists, "a part of a failed transaction was made"


def shared_both_doors_show_the_same_tree(cluster):
    path = _fresh("doors")
    zookeeper = _zookeeper(cluster, 3)
    try:
        zookeeper.create(path, b"of kazoo")
        with native.Session(_grpc(cluster, 2)) as session:
            assert session.get(path, linearizable=True).get.data == b"of kazoo"
            session.write(1, native.set_(path, b"of gRPC"), native.create(path + "/e", b"", types.EPHEMERAL))
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
        assert not zookeeper.exists(path + "/e"), "the ephemeral of a closed session is there"
    finally:
        zookeeper.stop()
        zookeeper.close()
    with native.Tree(_grpc(cluster, 1)) as tree:
        assert not tree.call("Exists", native.tree.ExistsRequest(
            path=path + "/k", options=native.tree.ReadOptions(linearizable=True))).result.exists


def shared_an_abandoned_session_expires(cluster):
    path = _fresh("abandoned")
    session = native.Session(_grpc(cluster, 1), timeout_ms=4000)
    session.write(1, native.create(path, b"", types.EPHEMERAL))
    session.break_off()
    started = time.monotonic()
    with native.Tree(_grpc(cluster, 2)) as tree:
        assert tree.get(path, linearizable=True)
        while tree.exists(path).result.exists:
            assert time.monotonic() - started < 10, "it is there after 10 s"
            time.sleep(0.05)
    assert time.monotonic() - started > 3.5, "it ended too early"
    try:
        native.Session(_grpc(cluster, 3), session.id, session.password)
    except native.Ended as end:
        assert end.code == "UNAUTHENTICATED", end
        return
    raise AssertionError("a session that has expired was opened")


def shared_identities_count_at_both_doors(cluster):
    path = _fresh("secret")
    acl = [types.Acl(permissions=31, scheme="auth")]
    alice = types.Credential(scheme="digest", secret=b"alice:wonder")
    with native.Tree(_grpc(cluster, 1)) as tree:
        tree.create(path, b"secret", acl=acl, credentials=[alice])
        _expect("PERMISSION_DENIED", "NO_AUTH", tree.get, path)
        assert tree.get(path, credentials=[alice]).result.data == b"secret"
    zookeeper = _zookeeper(cluster)
    try:
        try:
            zookeeper.get(path)
            raise AssertionError("everybody may read it")
        except kazoo.exceptions.NoAuthError:
            pass
        zookeeper.add_auth("digest", "alice:wonder")
        assert zookeeper.get(path)[0] == b"secret"
    finally:
        zookeeper.stop()
        zookeeper.close()
    with native.Session(_grpc(cluster, 2), credentials=[alice]) as session:
        assert session.get(path, linearizable=True).get.data == b"secret"
        identities = session.call(who_am_i=native.session.Request.WhoAmI()).who_am_i.identities
        assert [(i.scheme, i.id) for i in identities] == [("ip", "127.0.0.1"), ("digest", "alice")]


def shared_a_session_moves_and_writes_are_made_once(cluster):
    path = _fresh("moves")
    with native.Session(_grpc(cluster, 1)) as first:
        write = [native.create(path), native.create(path + "/n-", b"", types.PERSISTENT_SEQUENTIAL)]
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
            first.watch(1, path, types.SUBTREE)
            tree.create(path + "/1")
            first.wait_events(1)
            first._wait(lambda: first.zxid >= first.events[0].event.zxid)
            seen = first.zxid
        for i in range(2, 50):
            tree.create(f"{path}/{i}")
        with native.Session(_grpc(cluster, 2), first.id, first.password) as second:
            answer = second.watch(1, path, types.SUBTREE, seen)
            assert native.name_of(answer.error) == "OK", answer
            for i in range(50, 60):
                tree.create(f"{path}/{i}")
            events = second.wait_events(58)
            assert [e.event.path for e in events] == [f"{path}/{i}" for i in range(2, 60)]
            second.close()
        stream = tree.watch(path, types.CHILDREN, seen)
        paths = []
        for response in stream:
            paths += [event.path for event in response.events]
            if len(paths) >= 58:
                break
        stream.cancel()
        assert paths == [f"{path}/{i}" for i in range(2, 60)]


def shared_reflection_lists_the_services(cluster):
    names = native.services_of(_grpc(cluster, 1))
    for name in ("quorate.v1.Sessions", "quorate.v1.Tree"):
        assert name in names, names


def alone_events_that_are_not_kept_are_said_to_be_lost(server):
    import harness
    with harness.Cluster(server, size=1, settings=["eventHistoryBytes=20000"]) as cluster:
        with native.Tree(_grpc(cluster, 1)) as tree:
            seen = tree.create("/a").zxid
            for i in range(300):
                tree.set("/a", b"")
            with native.Session(_grpc(cluster, 1)) as session:
                answer = session.watch(1, "/a", types.NODE, seen)
                assert native.name_of(answer.error) == "EVENTS_LOST", answer
                answer = session.watch(1, "/a", types.NODE, answer.watch.oldest_zxid)
                assert native.name_of(answer.error) == "OK", answer
                session.close()
            # The history is there again after a restart, as far as the log goes back.
            before = tree.set("/a", b"").zxid
            last = tree.set("/a", b"").zxid
        cluster.command("stop", 1)
        cluster.restart(1)
        with native.Session(_grpc(cluster, 1)) as session:
            answer = session.watch(1, "/a", types.NODE, before)
            assert native.name_of(answer.error) == "OK", answer
            assert [e.event.zxid for e in session.wait_events(1)] == [last]
            session.close()
