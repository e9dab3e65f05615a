# SPDX-License-Identifier: Apache-2.0
"""Tests sessions, ephemeral nodes and watches on a cluster whose members are killed."""

import time

import zkwire as zk

SESSION_MS = 4000  # the shortest timeout with a tick of 2 s
TICK_SECONDS = 2
# Long enough for a busy machine; a session that never ends is found nevertheless.
EXPIRY_SECONDS_MAX = SESSION_MS / 1000 + TICK_SECONDS + 20


def _expiry(watcher, path, started):
    """Returns the seconds from `started` until `watcher` sees that `path` is deleted."""
    while watcher.exists(path):
        assert time.monotonic() - started < EXPIRY_SECONDS_MAX, (
            f"{path} still exists after {EXPIRY_SECONDS_MAX} s")
        time.sleep(0.02)
    return time.monotonic() - started


def shared_an_abandoned_session_expires_in_time(cluster):
    with zk.Connection(cluster.address(1), 20000) as watcher:
        abandoned = zk.Connection(cluster.address(2), SESSION_MS)
        assert abandoned.timeout_ms == SESSION_MS, f"negotiated {abandoned.timeout_ms} ms"
        touched = time.monotonic()  # the earliest time at which the server may receive the last message
        abandoned.create("/abandoned", b"", zk.EPHEMERAL)
        session = abandoned.session
        abandoned.abandon()
        watcher.sync()
        seconds = _expiry(watcher, "/abandoned", touched)
        assert seconds > SESSION_MS / 1000 - 0.5, f"expired {seconds:.1f} s after it was abandoned"
        try:
            zk.Connection(cluster.address(1), session=session)
        except zk.SessionRefused:
            return f"after {seconds:.1f} s of {SESSION_MS / 1000:.0f}"
        raise AssertionError("an expired session was resumed")


def shared_pings_alone_keep_a_session(cluster):
    with zk.Connection(cluster.address(1), SESSION_MS) as idle:
        idle.create("/idle", b"", zk.EPHEMERAL)
        end = time.monotonic() + SESSION_MS / 1000 + TICK_SECONDS + 1
        while time.monotonic() < end:
            idle.ping()
            time.sleep(0.5)
        assert idle.exists("/idle"), "the ephemeral node of a session that pings is deleted"
        idle.close()


def shared_a_closed_session_takes_its_nodes_at_once(cluster):
    with zk.Connection(cluster.address(1)) as watcher, zk.Connection(cluster.address(2)) as owner:
        owner.create("/closing", b"", zk.EPHEMERAL)
        watcher.sync()
        assert watcher.exists("/closing", watch=True)
        owner.close()
        event = watcher.wait_event()
        assert (event.type, event.path) == (zk.NODE_DELETED, "/closing"), event
        assert watcher.exists("/closing") is None
        watcher.close()


def shared_a_session_moves_between_members_with_its_nodes(cluster):
    first = zk.Connection(cluster.address(1))
    path = first.create("/moving-", b"", zk.EPHEMERAL_SEQUENTIAL)
    session, zxid = first.session, first.last_zxid
    second = zk.Connection(cluster.address(2), session=session, last_zxid=zxid)
    assert second.session == session, "the moved session has another id or password"
    assert second.exists(path), "a session that moved does not see its own node"
    # Writes over the old connection must have no effect any more.
    try:
        first.set(path, b"from the old place")
    except (zk.Closed, zk.ZkError):
        pass
    else:
        raise AssertionError("a connection that lost its session to another one can still write")
    assert second.get(path)[0] == b"", "a write over the old connection was applied"
    second.close()
    first.abandon()


def shared_a_server_behind_the_client_refuses_it(cluster):
    try:
        zk.Connection(cluster.address(1), last_zxid=0x7000000000000000, timeout=8)
    except zk.SessionRefused as error:
        raise AssertionError("a client that has seen a later zxid was told that its session has ended") from error
    except zk.Closed:
        return
    raise AssertionError("a client that has seen a later zxid was served")


def shared_sessions_outlive_the_leader_and_expire_under_the_next(cluster):
    leader = cluster.leader()
    home = cluster.others(leader)[0]
    with zk.Connection(cluster.address(home), 20000) as watcher:
        alive = zk.Connection(cluster.address(leader), 20000)
        alive.create("/alive", b"", zk.EPHEMERAL)
        dead = zk.Connection(cluster.address(leader), SESSION_MS)
        dead.create("/dead", b"", zk.EPHEMERAL)
        session, zxid = alive.session, dead.last_zxid
        watcher.sync()
        cluster.kill(leader)
        next_leader = cluster.leader()
        alive = zk.Connection(cluster.address(next_leader), session=session, last_zxid=zxid)
        assert alive.exists("/alive"), "an ephemeral node was lost with the leader"
        if not cluster.keeps_connections:
            watcher = zk.Connection(cluster.address(home), 20000)
        seconds = _expiry(watcher, "/dead", time.monotonic())
        assert watcher.exists("/alive"), "the wrong session expired"
        alive.close()
        watcher.close()
    cluster.restart(leader)
    return f"the abandoned one expired after {seconds:.1f} s"


def shared_a_watch_fires_across_a_change_of_leaders(cluster):
    leader = cluster.leader()
    home, other = cluster.others(leader)
    with zk.Connection(cluster.address(home), 20000) as watcher:
        watcher.create("/watched", b"before")
        watcher.get("/watched", watch=True)
        watcher.children("/watched", watch=True)
        seen, session = watcher.last_zxid, watcher.session
        cluster.kill(leader)
        cluster.leader()
        if not cluster.keeps_connections:
            watcher = zk.Connection(cluster.address(home), session=session, last_zxid=seen)
            watcher.call(zk.SET_WATCHES, zk.request_set_watches(seen, ["/watched"], [], ["/watched"]),
                         xid=zk.XID_SET_WATCHES)
        with zk.Connection(cluster.address(other)) as writer:
            writer.set("/watched", b"after")
            writer.create("/watched/child")
            writer.close()
        events = [watcher.wait_event() for _ in range(2)]
        assert [(event.type, event.path) for event in events] == [
            (zk.NODE_DATA_CHANGED, "/watched"), (zk.NODE_CHILDREN_CHANGED, "/watched")], events
        assert watcher.get("/watched")[0] == b"after", "an event came before its change can be read"
        watcher.close()
    cluster.restart(leader)


def shared_watches_are_restored_after_a_reconnect(cluster):
    with zk.Connection(cluster.address(1)) as setup, zk.Connection(cluster.address(2)) as first:
        for name in ("data", "child", "quiet", "gone"):
            setup.create(f"/restore-{name}")
        first.sync()
        seen = max(first.last_zxid, setup.last_zxid)
        first.get("/restore-data", watch=True)
        session = first.session
        first.abandon()
        setup.set("/restore-data", b"changed")
        setup.create("/restore-child/new")
        setup.delete("/restore-gone")
        again = zk.Connection(cluster.address(3), session=session, last_zxid=seen)
        again.sync()
        again.call(zk.SET_WATCHES, zk.request_set_watches(
            seen, data=["/restore-data", "/restore-quiet", "/restore-gone"], exist=["/restore-born"],
            child=["/restore-child"]), xid=zk.XID_SET_WATCHES)
        missed = {(event.type, event.path) for event in again.events}
        assert missed == {(zk.NODE_DATA_CHANGED, "/restore-data"), (zk.NODE_DELETED, "/restore-gone"),
                          (zk.NODE_CHILDREN_CHANGED, "/restore-child")}, missed
        again.events.clear()
        setup.set("/restore-quiet", b"changed")
        setup.create("/restore-born")
        later = [again.wait_event() for _ in range(2)]
        assert [(event.type, event.path) for event in later] == [
            (zk.NODE_DATA_CHANGED, "/restore-quiet"), (zk.NODE_CREATED, "/restore-born")], later
        again.close()
        setup.close()
