# SPDX-License-Identifier: Apache-2.0
"""Tests that no acknowledged write is lost, and that the clients of the other members go on, when members are
killed at any time while writes are under way."""

import shutil
import threading
import time

import harness
import zkwire as zk

ROUND_SECONDS = 1.0
CATCH_UP_SECONDS = 15


class Writer(threading.Thread):
    """Creates sequential nodes through one member as fast as it is answered, and records which creations
    were acknowledged. Reconnects with its session when its connection is lost, and counts the losses."""

    def __init__(self, cluster, member, parent):
        super().__init__(daemon=True)
        self.address, self.parent = cluster.address(member), parent
        self.member = member
        self.acknowledged = []
        self.unknown = []
        self.disconnects = 0
        self.longest_pause = 0.0
        self.error = None
        self.stopping = threading.Event()
        self.progress = threading.Condition()
        self.connection = zk.Connection(self.address, 20000)

    def run(self):
        try:
            self._run()
        except Exception as error:  # reported by finish()
            self.error = error

    def _run(self):
        count = 0
        last = time.monotonic()
        while not self.stopping.is_set():
            path = f"{self.parent}/{self.member}-{count}"
            count += 1
            try:
                assert self.connection.create(path, path.encode()) == path
                with self.progress:
                    self.acknowledged.append(path)
                    self.progress.notify_all()
                now = time.monotonic()
                self.longest_pause, last = max(self.longest_pause, now - last), now
            except zk.Closed:
                self.unknown.append(path)
                self.disconnects += 1
                self._reconnect()

    def _reconnect(self):
        session, zxid = self.connection.session, self.connection.last_zxid
        self.connection.abandon()
        while not self.stopping.is_set():
            try:
                self.connection = zk.Connection(self.address, 20000, session=session, last_zxid=zxid)
                return
            except zk.SessionRefused:
                raise
            except zk.Closed:
                time.sleep(0.02)

    def wait_for_writes(self, count, seconds=30):
        """Waits until `count` more writes are acknowledged."""
        with self.progress:
            wanted = len(self.acknowledged) + count
            assert self.progress.wait_for(lambda: len(self.acknowledged) >= wanted, seconds), (
                f"the writer on member {self.member} makes no progress: {self.error!r}")

    def finish(self):
        self.stopping.set()
        self.join(30)
        assert not self.is_alive(), f"the writer on member {self.member} is stuck"
        if self.error:
            raise AssertionError(f"the writer on member {self.member}: {self.error!r}") from self.error
        self.connection.abandon()


def check_all_there(cluster, parent, writers):
    """Checks that every member has every acknowledged node, with its data, and no node that was never sent."""
    wanted = {path for writer in writers for path in writer.acknowledged}
    possible = wanted | {path for writer in writers for path in writer.unknown}
    assert wanted, "no write was acknowledged"
    for member in cluster.numbers():
        with zk.Connection(cluster.address(member), timeout=CATCH_UP_SECONDS) as reader:
            reader.sync()
            there = {f"{parent}/{name}" for name in reader.children(parent)}
            assert not wanted - there, (f"member {member} lost {len(wanted - there)} acknowledged writes: "
                                        f"{sorted(wanted - there)[:5]}")
            assert not there - possible, f"member {member} has {sorted(there - possible)[:5]}: never sent"
            for path in sorted(wanted)[::max(1, len(wanted) // 50)]:
                assert reader.get(path)[0] == path.encode(), f"{path} has wrong data"
            reader.close()
    return len(wanted)


def with_writers(cluster, parent, disturb):
    """Runs disturb() with a writer on each member, after each has written. Returns the finished writers."""
    with zk.Connection(cluster.address(1)) as connection:
        connection.create(parent)
        connection.close()
    writers = [Writer(cluster, member, parent) for member in cluster.numbers()]
    for writer in writers:
        writer.start()
    try:
        for writer in writers:
            writer.wait_for_writes(1)
        disturb()
    finally:
        for writer in writers:
            writer.stopping.set()
    for writer in writers:
        writer.finish()
    return writers


def _kill_one(cluster, victim, parent):
    def disturb():
        time.sleep(ROUND_SECONDS)
        cluster.kill(victim)
        time.sleep(ROUND_SECONDS)
        cluster.restart(victim)
        time.sleep(ROUND_SECONDS)
    writers = with_writers(cluster, parent, disturb)
    total = check_all_there(cluster, parent, writers)
    others = [writer for writer in writers if writer.member != victim]
    if cluster.keeps_connections:
        dropped = [writer.member for writer in others if writer.disconnects]
        assert not dropped, f"clients of member {dropped} lost their connections when {victim} died"
    assert all(writer.acknowledged for writer in others), "a client of a surviving member made no progress"
    pause = max(writer.longest_pause for writer in others)
    return f"{total} writes acknowledged, longest pause of the others {pause * 1000:.0f} ms"


def shared_the_leader_is_killed_under_writes(cluster):
    return _kill_one(cluster, cluster.leader(), "/leader-killed")


def shared_a_follower_is_killed_under_writes(cluster):
    return _kill_one(cluster, cluster.followers()[0], "/follower-killed")


def shared_members_are_killed_again_and_again_under_writes(cluster):
    killer = harness.Killer(cluster, 60)
    kills = []

    def disturb():
        killer.start()
        time.sleep(8)
        kills.append(killer.stop())
    writers = with_writers(cluster, "/many-kills", disturb)
    return f"{check_all_there(cluster, '/many-kills', writers)} writes acknowledged, {kills[0]} kills"


def shared_all_are_killed_and_come_back_with_data_and_sessions(cluster):
    owners = []
    for member in cluster.numbers():
        owner = zk.Connection(cluster.address(member), 30000)
        owner.create(f"/owned-{member}", b"", zk.EPHEMERAL)
        owners.append((owner.session, owner.last_zxid, f"/owned-{member}"))

    def disturb():
        time.sleep(ROUND_SECONDS)
        cluster.kill_all()
        cluster.command("start")
        time.sleep(ROUND_SECONDS)
    writers = with_writers(cluster, "/all-killed", disturb)
    total = check_all_there(cluster, "/all-killed", writers)
    for number, (session, zxid, path) in enumerate(owners):
        # Resumes the session at another member than the one that opened it.
        address = cluster.address(1 + (number + 1) % cluster.size)
        with zk.Connection(address, 30000, session=session, last_zxid=zxid) as resumed:
            assert resumed.session == session, "a resumed session has another id or password"
            stat = resumed.exists(path)
            assert stat, f"{path} is deleted although its session exists"
            assert stat.ephemeral_owner == session[0], f"{path} belongs to {stat.ephemeral_owner:x}"
            resumed.close()
    with zk.Connection(cluster.address(1)) as reader:
        reader.sync()
        left = [path for _, _, path in owners if reader.exists(path)]
        assert not left, f"{left} outlived the end of their sessions"
        reader.close()
    return f"{total} writes acknowledged"


def shared_the_leader_hangs_under_writes(cluster):
    leader = cluster.leader()
    home = cluster.others(leader)[0]
    parent = "/leader-hung"
    with zk.Connection(cluster.address(home), 30000, timeout=30) as connection:
        connection.create(parent)
        cluster.command("pause", leader)
        try:
            started = time.monotonic()
            while True:
                try:
                    connection.create(f"{parent}/during")
                    break
                except (zk.Closed, zk.ZkError) as error:
                    assert not cluster.keeps_connections, f"the client of member {home} got {error!r}"
                    assert time.monotonic() - started < 40, "no write while the leader hangs"
                    try:
                        connection = zk.Connection(cluster.address(home), 30000, timeout=30)
                    except zk.Closed:
                        time.sleep(0.1)
            pause = time.monotonic() - started
        finally:
            cluster.command("resume", leader)
        # The member that hung must not serve outdated state as current.
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while True:
            try:
                with zk.Connection(cluster.address(leader), last_zxid=connection.last_zxid) as there:
                    assert there.exists(f"{parent}/during"), "a read is older than what the client has seen"
                    there.close()
                    break
            except zk.Closed:
                assert time.monotonic() < deadline, "the member that hung does not recover"
                time.sleep(0.1)
        connection.close()
    return f"writes went on after {pause * 1000:.0f} ms"


def shared_a_follower_that_was_away_catches_up(cluster):
    away = cluster.followers()[0]
    home = [i for i in cluster.numbers() if i != away][0]
    cluster.kill(away)
    with zk.Connection(cluster.address(home)) as writer:
        writer.create("/caught-up")
        for i in range(500):
            writer.submit(zk.CREATE, zk.request_create(f"/caught-up/{i}", b"x" * 500))
        for _ in range(500):
            assert writer.receive().err == zk.OK
        zxid = writer.last_zxid
        writer.close()
    cluster.restart(away)
    with zk.Connection(cluster.address(away), last_zxid=zxid) as reader:
        assert len(reader.children("/caught-up")) == 500, "a restarted follower lacks nodes"
        reader.close()


def shared_a_cluster_without_quorum_acknowledges_nothing(cluster):
    leader = cluster.leader()
    victims = cluster.others(leader)
    with zk.Connection(cluster.address(leader), timeout=3) as connection:
        for victim in victims:
            cluster.kill(victim)
        try:
            connection.create("/without-quorum")
        except zk.Closed:
            pass
        else:
            raise AssertionError("a write was acknowledged by one member of three")
    for victim in victims:
        cluster.command("restart", victim)
    with zk.Connection(cluster.address(victims[0])) as connection:
        connection.create("/with-quorum-again")
        connection.close()


def shared_sigterm_stops_a_member_cleanly(cluster):
    leader = cluster.leader()
    home = cluster.others(leader)[0]
    writers = with_writers(cluster, "/leader-stopped", lambda: (
        time.sleep(ROUND_SECONDS), cluster.command("stop", leader), time.sleep(ROUND_SECONDS),
        cluster.restart(leader)))
    total = check_all_there(cluster, "/leader-stopped", writers)
    result = next(writer for writer in writers if writer.member == home)
    if cluster.keeps_connections:
        assert not result.disconnects, f"the client of member {home} was disconnected"
    return f"{total} writes acknowledged, longest pause {result.longest_pause * 1000:.0f} ms"


def alone_a_cluster_of_one_keeps_what_it_acknowledged(server):
    with harness.Cluster(server, size=1) as cluster:
        for turn in range(3):
            writers = with_writers(cluster, f"/alone-{turn}", lambda: (
                time.sleep(0.5), cluster.kill(1), cluster.command("start")))
            check_all_there(cluster, f"/alone-{turn}", writers)


def alone_a_backup_of_all_directories_is_a_cluster(server):
    """The directories of stopped members can be copied and started elsewhere."""
    with harness.Cluster(server) as cluster:
        with zk.Connection(cluster.address(1)) as connection:
            connection.create("/kept", b"value")
            connection.close()
        cluster.command("down")
        copy = harness.Cluster(server, start=False)
        with copy:
            for member in cluster.numbers():
                shutil.copytree(cluster.member_dir(member), copy.member_dir(member))
            copy.start()
            with zk.Connection(copy.address(2)) as connection:
                connection.sync()
                assert connection.get("/kept")[0] == b"value"
                connection.close()
