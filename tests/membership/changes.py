# SPDX-License-Identifier: Apache-2.0
"""Tests changes that an operator makes."""

import json
import os
import shutil

import administration
import harness
import quorate_cli
import zkwire as zk
from writer import Writer


def members(cluster, *asked):
    """Returns the members as the leader sees them, by number."""
    result = quorate_cli.run("--json", "--server", cluster.grpc(*asked), "members")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["from_leader"], answer
    return {member["id"]: member for member in answer["members"]}


def member_command(cluster, *arguments):
    return quorate_cli.run("--server", cluster.grpc(), "member", *arguments)


def lines(cluster, *numbers, observers=()):
    """Returns the lines of /zookeeper/config, without that of the version."""
    base = cluster.ports.base
    return [f"server.{i}=127.0.0.1:{base + 200 + i}:{base + 400 + i}:{'observer' if i in observers else 'participant'}"
            for i in numbers]


def config(connection, watch=False):
    """Returns the lines of /zookeeper/config, the version that its last line names, and its stat."""
    data, stat = connection.get("/zookeeper/config", watch)
    *rest, last = data.decode().split("\n")
    assert last.startswith("version="), data
    return rest, int(last[len("version="):], 16), stat


def leads(cluster, member):
    """Returns whether the member leads; asks the one that does to hand leadership over."""
    leader = cluster.leader()
    if leader != member:
        administration.transfer_leadership(cluster.grpc(leader), member)
    return leader == member


def wait_for_mode(cluster, member, mode):
    def has_it():
        try:
            return f"Mode: {mode}\n" in zk.four_letter(cluster.address(member), "srvr")
        except (OSError, zk.Closed):
            return False
    cluster.wait_until(f"member {member} is {mode}", has_it)


def test_a_cluster_moves_from_members_1_to_3_to_members_4_and_5_under_writes():
    with harness.Cluster(size_max=5) as cluster:
        stays = cluster.others(cluster.leader())[0]
        with Writer(cluster, stays, "/grow") as writer:
            for new in (4, 5):
                cluster.add(new)
                writer.wait_for_more()
            first = next(i for i in (cluster.leader(), 1, 2, 3) if i < 4 and i != stays)
            cluster.drop(first)
            writer.wait_for_more()
        with Writer(cluster, 4, "/shrink") as writer:
            for old in [i for i in (1, 2, 3) if i in cluster.numbers()]:
                cluster.drop(old)
                writer.wait_for_more()
        assert cluster.numbers() == [4, 5]
        assert sorted(members(cluster)) == [4, 5]
        with zk.Connection(cluster.address(5)) as connection:
            connection.sync()
            assert config(connection)[0] == lines(cluster, 4, 5)
            assert {"grow", "shrink"} <= set(connection.children("/"))
        cluster.check_alive()


def test_members_find_each_other_after_a_restart_although_their_files_name_the_members_of_before():
    with harness.Cluster(size_max=5) as cluster:
        cluster.add(4)
        cluster.add(5)
        for old in (1, 2):
            cluster.drop(old)
        with zk.Connection(cluster.address(3)) as connection:
            connection.create("/before", b"x")
        with open(os.path.join(cluster.member_dir(3), "zoo.cfg"), encoding="utf-8") as file:
            assert "server.1=" in (text := file.read()) and "server.5=" not in text, text
        cluster.kill_all()
        for member in cluster.numbers():
            cluster.command("launch", member)
        cluster.leader()
        for member in cluster.numbers():
            cluster.restart(member)
            with zk.Connection(cluster.address(member)) as connection:
                connection.sync()
                assert connection.get("/before")[0] == b"x"
                assert config(connection)[0] == lines(cluster, 3, 4, 5)


def test_config_shows_each_change_with_its_zxid_and_fires_watches():
    with harness.Cluster(size_max=4) as cluster:
        with zk.Connection(cluster.address(1)) as connection:
            before, version, stat = config(connection, watch=True)
            assert (before, version, stat.mzxid) == (lines(cluster, 1, 2, 3), 0, 0), (before, version)
            cluster.add(4, observer=True)
            event = connection.wait_event()
            assert (event.type, event.path) == (zk.NODE_DATA_CHANGED, "/zookeeper/config"), event
            after, version, stat = config(connection)
            assert after == lines(cluster, 1, 2, 3, 4, observers=(4,))
            assert version == stat.mzxid > 0 and stat.version == -1, stat
            assert member_command(cluster, "promote", 4).returncode == 0
            promoted, later, _ = config(connection)
            assert promoted == lines(cluster, 1, 2, 3, 4) and later > version
        # Each member has the same data at the same zxid.
        for member in cluster.numbers():
            with zk.Connection(cluster.address(member)) as connection:
                connection.sync()
                assert config(connection)[:2] == (promoted, later)


def test_an_observer_serves_and_does_not_count():
    with harness.Cluster(size_max=5) as cluster:
        for new in (4, 5):
            cluster.add(new, observer=True)
            wait_for_mode(cluster, new, "observer")
        for new in (4, 5):
            with zk.Connection(cluster.address(new)) as connection:
                connection.create(f"/by-observer-{new}", b"x")
            cluster.kill(new)
        leader = cluster.leader()
        cluster.kill(cluster.others(leader, 4, 5)[0])
        # Two of three voters are a majority, though three of five members are down.
        with zk.Connection(cluster.address(leader)) as connection:
            connection.create("/still", b"x")
        result = member_command(cluster, "demote", leader, "--timeout", 1)
        assert result.returncode == 1 and "too many of the voters" in result.stderr, result
        for member in cluster.numbers():
            if member not in (leader,) and not cluster.pids()[cluster.numbers().index(member)]:
                cluster.restart(member)


def test_a_dead_member_is_replaced_by_a_new_machine_with_an_empty_disk():
    with harness.Cluster(size_max=4) as cluster:
        dead = cluster.others(cluster.leader())[0]
        cluster.kill(dead)
        shutil.rmtree(cluster.member_dir(dead))
        with Writer(cluster, cluster.leader(), "/meanwhile") as writer:
            cluster.add(4)
            writer.wait_for_more()
            result = member_command(cluster, "remove", dead)
            assert result.returncode == 0, result.stderr
            cluster.members.remove(dead)
            writer.wait_for_more()
        # The new member counts: the cluster survives the loss of another one of the old.
        cluster.kill(cluster.others(cluster.leader(), 4)[0])
        with zk.Connection(cluster.address(4)) as connection:
            connection.create("/after", b"x")


def test_a_removed_member_says_so_and_disturbs_nobody_when_it_comes_back():
    with harness.Cluster(size_max=3) as cluster:
        removed = cluster.leader()
        result = member_command(cluster, "remove", removed)
        assert result.returncode == 0, result.stderr
        cluster.wait_until("its log says that it was removed",
                           lambda: "this server was removed from the cluster" in cluster.log(removed))
        cluster.members.remove(removed)
        leader = cluster.leader()
        with Writer(cluster, leader, "/calm") as writer:
            cluster.command("stop", removed)
            cluster.command("launch", removed)
            writer.wait_for_more()
            cluster.wait_until("it is refused",
                               lambda: f"quorate member add {removed}" in cluster.log(removed))
            writer.wait_for_more()
        assert cluster.leader() == leader
        assert sorted(members(cluster)) == cluster.numbers()
        cluster.command("kill", removed)


def test_a_command_that_was_broken_off_goes_on_when_it_is_given_again():
    with harness.Cluster(size_max=4) as cluster:
        base = cluster.ports.base
        line = f"127.0.0.1:{base + 204}:{base + 404}"
        result = member_command(cluster, "add", 4, line, "--timeout", 1)
        assert result.returncode == 1 and "the leader has no connection to member 4" in result.stderr, result
        assert members(cluster)[4]["role"] == "observer"
        with zk.Connection(cluster.address(1)) as connection:
            connection.create("/undisturbed", b"x")
        result = member_command(cluster, "remove", 4)
        assert result.returncode == 0, result.stderr
        assert sorted(members(cluster)) == [1, 2, 3]
        cluster.add(4)
        assert members(cluster)[4]["role"] == "follower"
        again = member_command(cluster, "add", 4, line)
        assert again.returncode == 0 and "Nothing to do" in again.stdout, again


def test_a_member_that_was_away_is_told_where_the_leader_is():
    with harness.Cluster(size_max=4) as cluster:
        away = cluster.others(cluster.leader())[0]
        cluster.kill(away)
        cluster.add(4)
        cluster.wait_until("member 4 leads", lambda: leads(cluster, 4))
        cluster.command("launch", away)
        cluster.wait_until("it refuses the leader, which it does not know",
                           lambda: f"the configuration of server {away} has no other server 4" in cluster.log(4))
        cluster.command("stop", away)
        base = cluster.ports.base
        # Its log does not say that the members change, so its lines may not either: it begins without data.
        result = quorate_cli.run("rebuild", cluster.member_dir(away), "--yes")
        assert result.returncode == 0, result.stderr
        with open(os.path.join(cluster.member_dir(away), "zoo.cfg"), "a", encoding="utf-8") as file:
            file.write(f"server.4=127.0.0.1:{base + 204}:{base + 404}\n")
        cluster.restart(away)
        with zk.Connection(cluster.address(away)) as connection:
            connection.create("/back", b"x")
            assert config(connection)[0] == lines(cluster, 1, 2, 3, 4)
