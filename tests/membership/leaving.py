# SPDX-License-Identifier: Apache-2.0
"""Tests what becomes of a server that is removed, of a change that cannot be finished, and how a change tells its
state."""

import contextlib
import json
import os
import subprocess
import time

import harness
import quorate_cli
import zkwire as zk
from changes import member_command, members, wait_for_mode
from kazoo import exceptions as errors
from moves import _is_closed as is_closed
from reconfig import ENABLED, PATIENCE_SECONDS, SERVER, joining, kazoo
from writer import Writer

REMOVED_STATUS = 5
END_SECONDS = 60  # a removed server ends after 30 s
LAST_WORD = "the server ends, because it was removed from the cluster: its clients were sent to the other members"


@contextlib.contextmanager
def _server(cluster, number):
    """Starts a member, whose directory exists, as a child of this process."""
    with open(os.path.join(cluster.member_dir(number), "server.log"), "ab") as log:
        process = subprocess.Popen([SERVER, os.path.join(cluster.member_dir(number), "zoo.cfg")],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _line(cluster, number):
    base = cluster.ports.base
    return f"127.0.0.1:{base + 200 + number}:{base + 400 + number}"


@contextlib.contextmanager
def _reconfigurable(size_max, *settings):
    """A cluster with a super user, so that only an administrator at a Unix socket sees and makes changes by gRPC."""
    cluster = harness.Cluster(size_max=size_max, start=False, settings=[*ENABLED, "tickTime=1000", *settings])
    cluster.settings.append(f"grpcUnixSocket={_socket(cluster, '{member}')}")
    with cluster:
        cluster.start()
        yield cluster


def _socket(cluster, member):
    return os.path.join(cluster.parent, f"grpc-{member}.sock")


def _local(cluster):
    return ",".join(f"unix:{_socket(cluster, member)}" for member in cluster.numbers())


def change_of(cluster, servers=None):
    """Returns (state, what, detail) of the last change, as `quorate member status` prints it."""
    result = quorate_cli.run("--json", "--server", servers or cluster.grpc(), "member", "status")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    return answer["state"], answer["what"], answer["detail"]


def test_a_removed_server_moves_its_clients_and_ends_with_a_status_and_a_last_word():
    with harness.Cluster(size_max=4) as cluster:
        cluster.add(4)
        cluster.kill(4)
        with _server(cluster, 4) as process:
            # The leader may still count the killed server as in sync.
            wait_for_mode(cluster, 4, "follower")
            cluster.wait_until("member 4 is in sync", lambda: members(cluster)[4]["in_sync"])
            client = zk.Connection(cluster.address(4), timeout_ms=20000)
            client.create("/ephemeral", b"x", zk.EPHEMERAL)
            begin = time.monotonic()
            result = member_command(cluster, "remove", 4)
            assert result.returncode == 0, result.stderr
            cluster.members.remove(4)
            cluster.wait_until("the change is done", lambda: change_of(cluster) == ("done", "member 4 is removed", ""))
            cluster.wait_until("the connection is closed", lambda: is_closed(client))
            with zk.Connection(cluster.address(1), session=client.session) as moved:
                assert moved.exists("/ephemeral").ephemeral_owner == client.session[0]
                assert moved.get("/ephemeral")[0] == b"x"
            assert process.wait(END_SECONDS) == REMOVED_STATUS
            assert time.monotonic() - begin > 20, "it did not wait until it could be added again"
            last = cluster.log(4).splitlines()[-1]
            assert LAST_WORD in last and cluster.member_dir(4) in last and "`quorate member add 4`" in last, last
        with _server(cluster, 4) as process:
            waits = "it waits for nothing: it was removed from the cluster"
            cluster.wait_until("it says how it can be admitted", lambda: waits in cluster.log(4))
            assert process.poll() is None
        # Its number is free: it comes back without its data.
        result = quorate_cli.run("rebuild", cluster.member_dir(4), "--yes")
        assert result.returncode == 0, result.stderr
        with _server(cluster, 4):
            result = member_command(cluster, "add", 4, _line(cluster, 4))
            assert result.returncode == 0, result.stderr
            wait_for_mode(cluster, 4, "follower")
            with zk.Connection(cluster.address(4)) as connection:
                connection.create("/back", b"x")


def test_a_dead_member_is_replaced_by_one_with_another_number_in_one_command():
    with harness.Cluster(size_max=4) as cluster:
        dead = cluster.others(cluster.leader())[0]
        with Writer(cluster, cluster.others(dead)[0], "/meanwhile") as writer:
            cluster.kill(dead)
            cluster.command("new", 4)
            result = member_command(cluster, "replace", dead, "--with", f"4={_line(cluster, 4)}")
            assert result.returncode == 0, result.stderr
            assert f"giving member 4 the place of member {dead}, which leaves" in result.stderr, result.stderr
            cluster.members = sorted([*cluster.others(dead), 4])
            writer.wait_for_more()
        assert sorted(members(cluster)) == cluster.numbers()
        assert members(cluster)[4]["role"] == "follower"
        again = member_command(cluster, "replace", dead, "--with", f"4={_line(cluster, 4)}")
        assert again.returncode == 0 and "Nothing to do" in again.stdout, again
        # The new member counts: the cluster survives the loss of another one of the old.
        cluster.kill(cluster.others(cluster.leader(), 4)[0])
        with zk.Connection(cluster.address(4)) as connection:
            connection.create("/after", b"x")


def test_a_change_whose_new_voters_die_is_taken_back_and_writes_go_on():
    # The timeout is long, because the change has to begin while the new voters, which are paused, still count as heard.
    with _reconfigurable(5, "initLimit=15", "electionTimeoutMs=6000") as cluster:
        leader = cluster.leader()
        leaving = cluster.others(leader)
        for member in (4, 5):
            cluster.command("new", member)
        with kazoo(cluster, leader) as client, Writer(cluster, leaving[0], "/meanwhile") as writer:
            client.reconfig(joining=joining(cluster, 4, 5, role="observer"), leaving=None, new_members=None)
            cluster.wait_until("the observers are in sync",
                               lambda: all(members(cluster)[i]["in_sync"] for i in (4, 5)))
            writer.wait_for_more()
            for member in (4, 5):
                cluster.command("pause", member)
            try:
                waits = client.reconfig_async(joining(cluster, 4, 5), ",".join(map(str, leaving)), None, -1)
                cluster.wait_until("the change is taken back", lambda: "the members stay:" in cluster.log(leader))
                writer.wait_for_more()
                try:
                    waits.get(timeout=PATIENCE_SECONDS)
                    raise AssertionError("voters were taken in that nobody can reach")
                except errors.NewConfigNoQuorumError:
                    pass
                assert change_of(cluster, _local(cluster))[0] == "failed"
                view = members(cluster)
                assert [i for i in view if view[i]["role"] == "observer"] == [4, 5], view
                log = cluster.log(leader)
                assert log.count("leading in term") == 1 and "no longer leading" not in log, log
            finally:
                for member in (4, 5):
                    cluster.command("resume", member)
            # The new voters are back, and the change can be done.
            cluster.wait_until("the observers are in sync again",
                               lambda: all(members(cluster)[i]["in_sync"] for i in (4, 5)))
            client.reconfig(joining=joining(cluster, 4, 5), leaving=None, new_members=None)
            done = ("done", "member 4 gets a vote, member 5 gets a vote", "")
            cluster.wait_until("it is done", lambda: change_of(cluster, _local(cluster)) == done)
            writer.wait_for_more()


def test_a_change_tells_that_it_runs_what_it_waits_for_and_why_it_failed():
    reason = "member 4 cannot be reached, or has not caught up within initLimit"
    with _reconfigurable(4, "initLimit=6") as cluster:
        local = _local(cluster)
        assert change_of(cluster, local) == ("none", "", "")
        with kazoo(cluster, 1) as client:
            waits = client.reconfig_async(joining(cluster, 4), None, None, -1)
            cluster.wait_until("the change runs",
                               lambda: change_of(cluster, local) == ("running", "member 4 is added", reason))
            shown = quorate_cli.run("--server", local, "member", "status").stdout
            assert shown == f"Running: member 4 is added.\nWaits: {reason}.\n", shown
            with contextlib.suppress(errors.NewConfigNoQuorumError):
                waits.get(timeout=PATIENCE_SECONDS)
                raise AssertionError("a participant was taken in that nobody can reach")
        cluster.wait_until("it has failed", lambda: change_of(cluster, local) == ("failed", "member 4 is added", reason))
        refused = quorate_cli.run("--server", cluster.grpc(), "member", "status")
        assert refused.returncode == 1 and "only administrators" in refused.stderr, refused
        follower = cluster.others(cluster.leader())[0]
        result = quorate_cli.run("--server", local, "member", "demote", follower)
        assert result.returncode == 0, result.stderr
        cluster.wait_until("the next one is done",
                           lambda: change_of(cluster, local) == ("done", f"member {follower} becomes an observer", ""))
