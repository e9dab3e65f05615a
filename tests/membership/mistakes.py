# SPDX-License-Identifier: Apache-2.0
"""Tests that mistakes get a clear answer, and change nothing."""

import harness
import zkwire as zk
from changes import config, lines, member_command, members


def test_mistakes_are_refused_and_the_members_stay():
    with harness.Cluster(size_max=4) as cluster:
        base = cluster.ports.base
        taken = f"127.0.0.1:{base + 201}:{base + 401}"
        free = f"127.0.0.1:{base + 204}:{base + 404}"
        for arguments, text in (
                (("add", 4, taken), "the members 1 and 4 have the same address"),
                (("add", 4, "127.0.0.1"), "it has to be host:peerPort:electionPort"),
                (("add", 4, f"127.0.0.1:{base + 204}"), "needs two ports"),
                (("add", 3, free), "member 3 is at"),
                (("add", 0, free), "ID"),
                (("add", 255, free), "ID"),
                (("move", 9, free), "there is no member 9"),
                (("promote", 9), "there is no member 9")):
            result = member_command(cluster, *arguments)
            assert result.returncode in (1, 2) and text in result.stderr, (arguments, result)
        assert sorted(members(cluster)) == [1, 2, 3]
        with zk.Connection(cluster.address(1)) as connection:
            assert config(connection)[:2] == (lines(cluster, 1, 2, 3), 0)


def test_a_change_that_would_lose_the_majority_is_refused():
    with harness.Cluster() as cluster:
        leader = cluster.leader()
        down = cluster.others(leader)[0]
        other = cluster.others(leader, down)[0]
        assert member_command(cluster, "safe-to-stop", down).returncode == 0
        cluster.kill(down)
        cluster.wait_until("the leader notices it", lambda: not members(cluster)[down]["reachable"])
        result = member_command(cluster, "safe-to-stop", other)
        assert result.returncode == 1 and "would stop the cluster" in result.stderr, result
        # Of the two voters that would remain, one is down.
        result = member_command(cluster, "remove", other, "--timeout", 1)
        assert result.returncode == 1 and "too many of the voters" in result.stderr, result
        assert sorted(members(cluster)) == [1, 2, 3]
        cluster.restart(down)
        assert member_command(cluster, "remove", other).returncode == 0


def test_the_last_voter_cannot_be_removed():
    with harness.Cluster() as cluster:
        last = cluster.leader()
        for member in cluster.others(last):
            assert member_command(cluster, "remove", member).returncode == 0
        for verb in ("remove", "demote"):
            result = member_command(cluster, verb, last)
            assert result.returncode == 2 and "no member would have a vote" in result.stderr, result
        with zk.Connection(cluster.address(last)) as connection:
            connection.create("/alone", b"x")
