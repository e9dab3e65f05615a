# SPDX-License-Identifier: Apache-2.0
"""Tests members that move to other addresses, members that are away meanwhile, and clients of a member that leaves."""

import os

import harness
import zkwire as zk
from changes import config, leads, member_command, members
from writer import Writer

# The number whose ports a member moves to.
SPARE = 7


def _value(cluster, number):
    base = cluster.ports.base
    return f"127.0.0.1:{base + 200 + number}:{base + 400 + number}"


def _edit(cluster, member, moved):
    """Gives a member's configuration the new line of the member that moves."""
    path = os.path.join(cluster.member_dir(member), "zoo.cfg")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    old = f"server.{moved}={_value(cluster, moved)}"
    assert old in text, text
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(old, f"server.{moved}={_value(cluster, SPARE)}"))


def _move(cluster, member):
    result = member_command(cluster, "move", member, _value(cluster, SPARE))
    assert result.returncode == 0, result.stderr


def _wait_for_sync(cluster):
    cluster.wait_until("all are in sync", lambda: all(one.get("in_sync") for one in members(cluster).values()))


def _set_addresses(cluster):
    """Changes the members, so that the log has their addresses, and back."""
    observer = max(cluster.numbers()) + 2
    cluster.add(observer, observer=True)
    cluster.drop(observer)


def _check_counts(cluster, member):
    """Checks that a member has a vote and is reached, by stopping another one."""
    other = cluster.others(cluster.leader(), member)[0] if cluster.leader() != member else cluster.others(member)[0]
    cluster.kill(other)
    with zk.Connection(cluster.address(member)) as connection:
        connection.create("/counts", b"x")
    cluster.restart(other)


def _moves_while_it_is_away(log_has_addresses):
    with harness.Cluster(size_max=SPARE) as cluster:
        if log_has_addresses:
            _set_addresses(cluster)
        away = cluster.others(cluster.leader())[0]
        cluster.kill(away)
        with Writer(cluster, cluster.leader(), "/meanwhile") as writer:
            _move(cluster, away)
            writer.wait_for_more()
            _edit(cluster, away, away)
            cluster.restart(away)
            _wait_for_sync(cluster)
            writer.wait_for_more()
        with zk.Connection(cluster.address(away)) as connection:
            connection.sync()
            assert f"server.{away}={_value(cluster, SPARE)}:participant" in config(connection)[0]
            assert "meanwhile" in connection.children("/")
        _check_counts(cluster, away)
        cluster.check_alive()


def test_a_member_that_is_away_while_its_address_changes_comes_back_at_the_new_one():
    _moves_while_it_is_away(log_has_addresses=False)


def test_the_same_in_a_cluster_whose_log_has_addresses():
    _moves_while_it_is_away(log_has_addresses=True)


def _comes_back_after_the_leader_has_moved(log_has_addresses):
    with harness.Cluster(size=5, size_max=SPARE) as cluster:
        if log_has_addresses:
            _set_addresses(cluster)
        away, moved = cluster.others(cluster.leader())[:2]
        cluster.kill(away)
        cluster.command("stop", moved)
        with zk.Connection(cluster.address(cluster.leader())) as connection:
            connection.create("/meanwhile", b"x")
        _move(cluster, moved)
        _edit(cluster, moved, moved)
        cluster.restart(moved)
        cluster.wait_until("the member that moved leads", lambda: leads(cluster, moved))
        _edit(cluster, away, moved)
        cluster.restart(away)
        _wait_for_sync(cluster)
        with zk.Connection(cluster.address(away)) as connection:
            assert connection.get("/meanwhile")[0] == b"x"
            connection.create("/back", b"x")
            assert f"server.{moved}={_value(cluster, SPARE)}:participant" in config(connection)[0]
        assert cluster.leader() == moved


def test_a_member_that_was_away_while_the_leader_moved_comes_back_with_the_new_line():
    _comes_back_after_the_leader_has_moved(log_has_addresses=False)


def test_the_same_if_its_log_has_the_old_address():
    _comes_back_after_the_leader_has_moved(log_has_addresses=True)


def _is_closed(client):
    try:
        client.exists("/ephemeral")
        return False
    except (zk.Closed, ConnectionError):
        return True


def test_a_member_that_is_removed_hands_its_clients_over_and_says_so():
    with harness.Cluster() as cluster:
        leader = cluster.leader()
        removed, stays = cluster.others(leader)
        client = zk.Connection(cluster.address(removed), timeout_ms=20000)
        client.create("/ephemeral", b"x", zk.EPHEMERAL)
        with Writer(cluster, stays, "/undisturbed") as writer:
            result = member_command(cluster, "remove", removed)
            assert result.returncode == 0, result.stderr

            # Its client is told by the end of the connection, long before the session would expire.
            cluster.wait_until("the connection is closed", lambda: _is_closed(client))
            with zk.Connection(cluster.address(stays), session=client.session) as moved:
                assert moved.session == client.session
                assert moved.get("/ephemeral")[0] == b"x"
                assert moved.exists("/ephemeral").ephemeral_owner == client.session[0]
            writer.wait_for_more()
        log = cluster.log(removed)
        assert "this server was removed from the cluster" in log, log
        cluster.members.remove(removed)
        cluster.command("kill", removed)
