# SPDX-License-Identifier: Apache-2.0
"""Tests sessions that only the server of their client knows (localSessionsEnabled). The alone_ tests hold for
ZooKeeper, too."""

import re
import struct
import time

import harness
import zkwire as zk

EPHEMERAL_ON_LOCAL_SESSION = -120
CREATE2 = 15
SESSION_MS = 4000  # the shortest timeout with a tick of 2 s
# The time after which a silent session has ended, on a busy machine too.
EXPIRY_SECONDS_MAX = 30
LOCAL = ("localSessionsEnabled=true", "4lw.commands.whitelist=*")
UPGRADING = (*LOCAL, "localSessionsUpgradingEnabled=true")
SESSIONS = 20
LEADER_KILLS = 4


def _probe(cluster, member, path):
    """Returns the zxid of a write."""
    with zk.Connection(cluster.address(member)) as client:
        client.create(path)
        zxid = client.last_zxid
        client.close()
        return zxid


def _submit_create(client, path, flags=zk.PERSISTENT, operation=zk.CREATE):
    client.submit(operation, zk.request_create(path, b"", flags))


def _is_refused(address, session):
    """Returns whether the session is refused as expired."""
    try:
        zk.Connection(address, session=session).abandon()
    except zk.SessionRefused:
        return True
    return False


def _monitor(cluster, member, key):
    lines = zk.four_letter(cluster.address(member), "mntr").splitlines()
    return int(float(next(line.split("\t")[1] for line in lines if line.startswith(f"zk_{key}\t"))))


def _reply(client):
    reply = client.receive()
    return reply.err, reply.zxid


def _sessions_are_local(cluster, member, other):
    before = _probe(cluster, member, "/before")
    clients = [zk.Connection(cluster.address(member)) for _ in range(SESSIONS)]
    assert _monitor(cluster, member, "local_sessions") == SESSIONS
    assert _monitor(cluster, other, "local_sessions") == 0
    assert _monitor(cluster, member, "global_sessions") == 0
    assert {client.session_id >> 56 for client in clients} == {member}
    shown = zk.four_letter(cluster.address(member), "dump")
    assert re.search(rf"^SessionTracker dump:\nLocal Session Sets \(\d\)/\({SESSIONS}\):\n", shown), shown
    assert f"\t0x{clients[0].session_id:x}\n" in shown, shown
    for client in clients[1:]:
        client.close()
    # A session may be continued at its server alone.
    first = clients[0]
    first.abandon()
    assert _is_refused(cluster.address(other), first.session)
    again = zk.Connection(cluster.address(member), session=first.session)
    assert again.session_id == first.session_id
    again.close()
    assert _is_refused(cluster.address(member), first.session)
    after = _probe(cluster, other, "/after")
    assert after == before + 1, f"{SESSIONS} local sessions and a write have moved the zxid from {before} to {after}"
    for path in ("/before", "/after"):
        with zk.Connection(cluster.address(member)) as client:
            client.delete(path)
            client.close()


def _local_sessions_write(cluster, member, other, is_strict):
    with zk.Connection(cluster.address(member)) as client, zk.Connection(cluster.address(other)) as watcher:
        client.create("/local", b"1")
        watcher.sync()
        assert watcher.get("/local", watch=True)[0] == b"1"
        for path, flags, operation in (("/local/a", zk.PERSISTENT, zk.CREATE), ("/e", zk.EPHEMERAL, zk.CREATE),
                                       ("/missing/e", zk.EPHEMERAL_SEQUENTIAL, CREATE2)):
            _submit_create(client, path, flags, operation)
        client.submit(zk.MULTI, zk.request_multi([
            (zk.CREATE, zk.request_create("/local/m", b"")), (zk.CREATE, zk.request_create("/e", b"", zk.EPHEMERAL))]))
        _submit_create(client, "/local/b")
        errors = [client.receive() for _ in range(5)]
        assert [reply.err for reply in errors] == [0, *[EPHEMERAL_ON_LOCAL_SESSION] * 2, 0, 0], errors
        # A follower of ZooKeeper 3.8 answers with SessionExpired here.
        refused = EPHEMERAL_ON_LOCAL_SESSION if is_strict else zk.SESSION_EXPIRED
        results = b"".join(zk.multi_header(-1, False, error) + struct.pack(">i", error) for error in (zk.OK, refused))
        assert errors[3].body == results + zk.multi_header(-1, True, -1), errors[3]
        client.set("/local", b"2")
        event = watcher.wait_event()
        assert (event.type, event.path) == (zk.NODE_DATA_CHANGED, "/local"), event
        client.sync()
        assert sorted(client.children("/local")) == ["a", "b"]
        for path in ("/local/a", "/local/b", "/local"):
            watcher.delete(path)
        client.close()
        watcher.close()


def _silent_sessions_end(cluster, member):
    abandoned = zk.Connection(cluster.address(member), SESSION_MS)
    silent = zk.Connection(cluster.address(member), SESSION_MS)
    pinging = zk.Connection(cluster.address(member), SESSION_MS)
    started = time.monotonic()
    abandoned.abandon()
    while _monitor(cluster, member, "local_sessions") > 1:
        assert time.monotonic() - started < EXPIRY_SECONDS_MAX, "silent sessions do not end"
        pinging.ping()
        time.sleep(0.2)
    seconds = time.monotonic() - started
    assert seconds > SESSION_MS / 1000 - 0.5, f"ended after {seconds:.1f} s"
    assert silent.is_closed_by_peer(5)
    for client in (abandoned, silent):
        assert _is_refused(cluster.address(member), client.session)
    pinging.close()
    return seconds


def alone_local_sessions(server):
    with harness.Cluster(server, settings=LOCAL) as cluster:
        leader = cluster.leader()
        followers = cluster.others(leader)
        for member, other in ((followers[0], leader), (leader, followers[1]), (followers[0], followers[1])):
            _sessions_are_local(cluster, member, other)
            _local_sessions_write(cluster, member, other, server == "quorate" or member == leader)
        seconds = _silent_sessions_end(cluster, followers[0])
        client = zk.Connection(cluster.address(followers[1]))
        cluster.kill(followers[1])
        cluster.restart(followers[1])
        assert _is_refused(cluster.address(followers[1]), client.session)
        return f"silent sessions end after {seconds:.1f} s of {SESSION_MS / 1000:.0f}"


def _is_made_global(cluster, member, other, multi):
    base = _probe(cluster, other, f"/base-{member}-{multi}")
    client = zk.Connection(cluster.address(member), SESSION_MS)
    _submit_create(client, "/p")
    if multi:
        client.submit(zk.MULTI, zk.request_multi([(zk.CREATE, zk.request_create("/p/e", b"", zk.EPHEMERAL))]))
    else:
        _submit_create(client, "/p/e", zk.EPHEMERAL)
    _submit_create(client, "/p/f", zk.EPHEMERAL, CREATE2)
    client.submit(zk.EXISTS, zk.request_path_watch("/p/f", False))
    _submit_create(client, "/p/g")
    replies = [_reply(client) for _ in range(5)]
    assert replies == [(0, base + 1), (0, base + 3), (0, base + 4), (0, base + 4), (0, base + 5)], (base, replies)
    with zk.Connection(cluster.address(other)) as watcher:
        watcher.sync()
        owner = watcher.exists("/p/e", watch=True).ephemeral_owner
        assert owner & (2**64 - 1) == client.session_id & (2**64 - 1), owner
        # Now any server continues the session.
        moved = zk.Connection(cluster.address(other), SESSION_MS, session=client.session)
        moved.close()
        assert watcher.wait_event().type == zk.NODE_DELETED
        assert sorted(watcher.children("/p")) == ["g"]
        watcher.delete("/p/g")
        watcher.delete("/p")
        watcher.close()


def alone_local_sessions_become_global(server):
    with harness.Cluster(server, settings=UPGRADING) as cluster:
        leader = cluster.leader()
        first, second = cluster.others(leader)
        for multi in (False, True):
            _is_made_global(cluster, first, second, multi)
            _is_made_global(cluster, leader, second, multi)
        # The session of a client that dies is ended by the leader.
        with zk.Connection(cluster.address(second)) as watcher:
            client = zk.Connection(cluster.address(first), SESSION_MS)
            client.create("/dying", b"", zk.EPHEMERAL)
            client.abandon()
            watcher.sync()
            started = time.monotonic()
            while watcher.exists("/dying"):
                assert time.monotonic() - started < EXPIRY_SECONDS_MAX, "an abandoned session does not end"
                watcher.ping()
                time.sleep(0.1)


class Upgrade:
    """A new session, which sends requests that make it global in their midst."""

    def __init__(self, cluster, member, number):
        self.client = zk.Connection(cluster.address(member), timeout=60)
        self.base = f"/run-{number}"
        self.requests = [(self.base, zk.PERSISTENT), (f"{self.base}/a", zk.PERSISTENT),
                         (f"{self.base}/e-", zk.EPHEMERAL_SEQUENTIAL), (f"{self.base}/b", zk.PERSISTENT),
                         (f"{self.base}/e-", zk.EPHEMERAL_SEQUENTIAL)]

    def submit(self):
        for path, flags in self.requests:
            _submit_create(self.client, path, flags)

    def check(self):
        replies = [self.client.receive() for _ in self.requests]
        assert [reply.err for reply in replies] == [0] * len(replies), replies
        zxids = [reply.zxid for reply in replies]
        assert zxids == sorted(set(zxids)), zxids
        # Each request is done once, in order: the sequence numbers count what was created before.
        paths = [zk.Reader(reply.body).ustring() for reply in replies]
        assert paths == [self.base, f"{self.base}/a", f"{self.base}/e-0000000001", f"{self.base}/b",
                         f"{self.base}/e-0000000003"], paths
        owner = self.client.exists(paths[2]).ephemeral_owner
        assert owner == self.client.session_id, owner


def test_sessions_are_made_global_once_while_leaders_die():
    with harness.Cluster(settings=UPGRADING) as cluster:
        for number in range(LEADER_KILLS):
            leader = cluster.leader()
            member = cluster.others(leader)[0]
            upgrades = [Upgrade(cluster, member, f"{number}-{i}") for i in range(SESSIONS)]
            before, after = upgrades[:SESSIONS // 2], upgrades[SESSIONS // 2:]
            for upgrade in before:
                upgrade.submit()
            cluster.kill(leader)
            for upgrade in after:
                upgrade.submit()
            for upgrade in upgrades:
                upgrade.check()
            cluster.restart(leader)
            assert _monitor(cluster, member, "global_sessions") == SESSIONS
            assert _monitor(cluster, member, "local_sessions") == 0
            for upgrade in upgrades:
                upgrade.client.close()
        return f"{LEADER_KILLS * SESSIONS} sessions, {LEADER_KILLS} leaders killed"


def test_one_member_alone_may_have_local_sessions():
    with harness.Cluster() as cluster:
        leader = cluster.leader()
        local, other = cluster.others(leader)
        cluster.command("stop", local)
        with open(f"{cluster.member_dir(local)}/zoo.cfg", "a", encoding="utf-8") as file:
            file.write("localSessionsEnabled=true\n")
        cluster.restart(local)
        with zk.Connection(cluster.address(local)) as client, zk.Connection(cluster.address(other)) as ordinary:
            client.sync()  # the member may not have the session of the other client yet
            assert _monitor(cluster, local, "local_sessions") == 1
            assert _monitor(cluster, local, "global_sessions") == 1
            client.create("/of-a-local-session")
            ordinary.create("/e", b"", zk.EPHEMERAL)
            client.sync()
            assert client.exists("/e")
            client.close()
            ordinary.close()
