# SPDX-License-Identifier: Apache-2.0
"""Tests that followers feed observers instead of the leader. The kernel counts what the leader sends, for each of its
connections to other members."""

import re
import subprocess
import threading

import harness
import zkwire as zk
from changes import config, lines, member_command, members

SETTINGS = ("observerMasterPort=2191",)
SENT = re.compile(r"\bbytes_sent:(\d+)")
DATA = b"x" * 20_000
BATCH = 50
# Heartbeats and verdicts about digests may be sent to an observer; what is written may not.
LITTLE = len(DATA) * BATCH // 20


def _peer_port(cluster, member):
    return cluster.ports.base + 200 + member


def _sent(cluster, sender, receiver):
    """Returns the bytes that a member has sent on its connection to another one."""
    pid = cluster.pids()[cluster.numbers().index(sender)]
    connections = ["state", "established", "dport", "=", f":{_peer_port(cluster, receiver)}"]
    result = subprocess.run(["ss", "-tinpOH", *connections], capture_output=True, text=True, check=True)
    return sum(int(found.group(1)) for line in result.stdout.splitlines()
               if f"pid={pid}," in line and (found := SENT.search(line)))


def _is_in_sync(cluster, member):
    view = members(cluster)[member]
    return view["in_sync"] and view["reachable"]


def _stays_in_sync_under_writes(feeding, member):
    """Checks that a member is in sync at times while a client writes without a pause."""
    ended = threading.Event()

    def write():
        with zk.Connection(feeding.cluster.address(feeding.leader)) as connection:
            while not ended.is_set():
                connection.set("/data", b"again")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            feeding.cluster.wait_until("the observer is in sync while there are writes",
                                       lambda: _is_in_sync(feeding.cluster, member))
    finally:
        ended.set()
        writer.join()


class _Feeding:
    """A cluster with observers, and a client of its leader that writes."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.leader = cluster.leader()
        # It sends no pings while members are added.
        self.connection = zk.Connection(cluster.address(self.leader), timeout_ms=40000)
        self.connection.create("/data", b"")

    def observers(self):
        return [i for i in self.cluster.numbers() if i > 3]

    def write(self):
        """Writes a batch. Returns what the leader sent meanwhile to each other member."""
        others = [i for i in self.cluster.numbers() if i != self.leader]
        before = {i: _sent(self.cluster, self.leader, i) for i in others}
        for _ in range(BATCH):
            self.connection.set("/data", DATA)
        # The leader has sent everything that it will when all members have it.
        version = self.connection.get("/data")[1].version
        for member in others:
            self.wait_for(member, version)
        assert self.cluster.leader() == self.leader
        return {i: _sent(self.cluster, self.leader, i) - before[i] for i in others}

    def wait_for(self, member, version):
        with zk.Connection(self.cluster.address(member)) as connection:
            self.cluster.wait_until(f"member {member} has what was written",
                                    lambda: connection.get("/data")[1].version >= version)

    def wait_until_fed(self):
        """Waits until followers feed all observers."""
        self.cluster.wait_until("followers feed all observers", self.is_fed)

    def is_fed(self):
        sent = self.write()
        return all(sent[i] < LITTLE for i in self.observers())


def test_four_observers_cost_the_leader_as_much_as_one():
    with harness.Cluster(size_max=7, settings=SETTINGS) as cluster:
        cluster.add(4, observer=True)
        feeding = _Feeding(cluster)
        totals = []
        for added in ((), (5, 6, 7)):
            for observer in added:
                cluster.add(observer, observer=True)
            feeding.wait_until_fed()
            sent = feeding.write()
            for observer in feeding.observers():
                assert sent[observer] < LITTLE, sent
            # The two followers have received it from the leader.
            assert all(sent[i] > BATCH * len(DATA) for i in (1, 2, 3) if i != feeding.leader), sent
            totals.append(sum(sent.values()))
        assert totals[1] < totals[0] + LITTLE, totals
        return f"the leader sent {totals[0]} bytes with one observer, {totals[1]} with four"


def test_without_the_setting_the_leader_feeds_observers():
    with harness.Cluster(size_max=4) as cluster:
        cluster.add(4, observer=True)
        feeding = _Feeding(cluster)
        assert feeding.write()[4] > BATCH * len(DATA)


def test_an_observer_that_a_follower_feeds_serves_and_survives_its_feeder_and_becomes_a_voter():
    with harness.Cluster(size_max=4, settings=SETTINGS) as cluster:
        cluster.add(4, observer=True)
        feeding = _Feeding(cluster)
        feeding.wait_until_fed()
        cluster.wait_until("the observer is in sync and reachable", lambda: _is_in_sync(cluster, 4))
        _stays_in_sync_under_writes(feeding, 4)
        with zk.Connection(cluster.address(4), timeout_ms=40000) as client:
            client.create("/by-observer", b"x", zk.EPHEMERAL)
            client.sync()
            # Whoever feeds it, it goes on.
            for member in cluster.others(feeding.leader, 4):
                assert member_command(cluster, "safe-to-stop", member).returncode == 0
                cluster.kill(member)
                feeding.connection.set("/data", b"without it")
                feeding.wait_for(4, feeding.connection.get("/data")[1].version)
                cluster.restart(member)
                cluster.wait_until("all are in sync", lambda: all(one["in_sync"] for one in members(cluster).values()))
            assert client.get("/by-observer")[0] == b"x"
            feeding.wait_until_fed()
            result = member_command(cluster, "promote", 4)
            assert result.returncode == 0, result.stderr
            assert config(client)[0] == lines(cluster, 1, 2, 3, 4)
        # Its vote counts: two of the other three voters are not needed.
        cluster.kill(cluster.others(cluster.leader(), 4)[0])
        with zk.Connection(cluster.address(4)) as connection:
            connection.create("/with-its-vote", b"x")
