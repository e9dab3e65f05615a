# SPDX-License-Identifier: Apache-2.0
"""Tests ZooKeeper's reconfig by clients that are not of this project: Kazoo and ZooKeeper's own zkCli.sh."""

import contextlib
import os
import re
import subprocess
import sys
import threading

import harness
import zkwire as zk
from changes import config, members, wait_for_mode
from kazoo import exceptions as errors
from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl
from writer import Writer

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../interop"))
import jvm  # noqa: E402  # pylint: disable=wrong-import-position

SUPER = "super:secret"
ENABLED = ("reconfigEnabled=true", "DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=")
JARS = ("zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop")
# Long enough for each step of a change on a busy machine.
PATIENCE_SECONDS = 60
SERVER = os.environ.get("QUORATED", os.path.join(harness.ROOT, ".bazel/opt-bin/rpc/quorated/quorated"))


@contextlib.contextmanager
def kazoo(cluster, *numbers, credentials=SUPER):
    """A client of these members, or of all. `credentials` None: it proves no identity."""
    client = KazooClient(",".join(cluster.address(i) for i in numbers or cluster.numbers()), timeout=20,
                         auth_data=[("digest", credentials)] if credentials else [])
    client.start(timeout=PATIENCE_SECONDS)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def server_line(cluster, number, role="participant"):
    """Returns the value of the line server.`number`, as /zookeeper/config shows it."""
    base = cluster.ports.base
    return f"127.0.0.1:{base + 200 + number}:{base + 400 + number}:{role};127.0.0.1:{base + number}"


def joining(cluster, *numbers, role="participant"):
    return ",".join(f"server.{i}={server_line(cluster, i, role)}" for i in numbers)


def version_of(data):
    return int(data.decode().rsplit("version=", 1)[1], 16)


@contextlib.contextmanager
def servers_outside(cluster, *numbers):
    """Starts servers that are no members, as ZooKeeper's guide says: with the lines of the members and their own."""
    with open(os.path.join(cluster.member_dir(1), "zoo.cfg"), encoding="utf-8") as file:
        text = file.read()
    processes = []
    try:
        for number in numbers:
            own = re.sub(r"(?m)^(clientPort|grpcPort|admin\.serverPort)=(\d+)$",
                         lambda line, n=number: f"{line[1]}={int(line[2]) + n - 1}", text)
            own = own.replace(cluster.member_dir(1), cluster.member_dir(number))
            own += joining(cluster, *numbers, role="observer").replace(",", "\n") + "\n"
            os.mkdir(cluster.member_dir(number))
            for name, content in (("zoo.cfg", own), ("myid", f"{number}\n")):
                with open(os.path.join(cluster.member_dir(number), name), "w", encoding="utf-8") as file:
                    file.write(content)
            with open(os.path.join(cluster.member_dir(number), "server.log"), "wb") as log:
                processes.append(subprocess.Popen([SERVER, os.path.join(cluster.member_dir(number), "zoo.cfg")],
                                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        yield
        for number, process in zip(numbers, processes):
            assert process.poll() is None, f"server {number} has ended:\n{cluster.log(number)[-3000:]}"
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_kazoo_moves_a_cluster_from_members_1_to_3_to_members_4_and_5_under_writes():
    with harness.Cluster(size_max=5, settings=ENABLED) as cluster, servers_outside(cluster, 4, 5):
        follower = cluster.others(cluster.leader())[0]
        with Writer(cluster, follower, "/grow") as writer, kazoo(cluster, follower) as client:
            fired = threading.Event()
            client.get("/zookeeper/config", lambda event: fired.set())
            data, stat = client.reconfig(joining=joining(cluster, 4, 5), leaving=None, new_members=None)
            assert fired.wait(PATIENCE_SECONDS), "the watch of /zookeeper/config does not fire"
            lines = data.decode().split("\n")
            assert lines[3:5] == [f"server.{i}={server_line(cluster, i)}" for i in (4, 5)], lines
            assert version_of(data) == stat.mzxid > 0 and stat.version == -1, (data, stat)
            assert client.get("/zookeeper/config")[0] == data
            writer.wait_for_more()
        roles = {number: member["role"] for number, member in members(cluster).items()}
        assert sorted(roles.values()) == ["follower"] * 4 + ["leader"], roles
        for new in (4, 5):
            wait_for_mode(cluster, new, "leader" if cluster.leader() == new else "follower")
        with Writer(cluster, 4, "/shrink") as writer, kazoo(cluster, 5) as client:
            # The leader is one of those that leave: it hands over.
            data, _ = client.reconfig(joining=None, leaving="1,2,3", new_members=None, from_config=version_of(data))
            assert [line.split("=")[0] for line in data.decode().split("\n")] == ["server.4", "server.5", "version"]
            writer.wait_for_more()
            assert set(client.get_children("/")) >= {"grow", "shrink"}


def test_kazoo_gets_the_errors_of_zookeeper():
    with harness.Cluster(size_max=4, settings=ENABLED) as cluster:
        def error_of(client, joins=None, leaves=None, all_of_them=None, from_config=-1):
            try:
                client.reconfig(joining=joins, leaving=leaves, new_members=all_of_them, from_config=from_config)
            except errors.KazooException as error:
                return type(error)
            return None

        for member in cluster.numbers():  # at the leader and at followers
            with kazoo(cluster, member, credentials=None) as client:
                assert error_of(client, leaves="3") == errors.NoAuthError
            with kazoo(cluster, member) as client:
                assert error_of(client, leaves="3", from_config=77) == errors.BadVersionError
                assert error_of(client, joins="server.4=127.0.0.1") == errors.BadArgumentsError
                assert error_of(client, leaves="1,2") == errors.BadArgumentsError
                first = cluster.ports.base + 201
                assert error_of(client, joins=f"server.4=127.0.0.1:{first}:5;6") == errors.BadArgumentsError
                assert error_of(client, all_of_them="server.1=127.0.0.1:1:2;3") == errors.BadArgumentsError
        with zk.Connection(cluster.address(1)) as connection:
            assert config(connection)[1] == 0, "a refused reconfig has changed the members"


def test_those_who_may_write_the_config_reconfigure():
    with harness.Cluster(settings=ENABLED) as cluster:
        with kazoo(cluster, 1) as client:
            client.set_acls("/zookeeper/config", [make_acl("world", "anyone", read=True),
                                                  make_digest_acl("ops", "secret", write=True)])
        for member in cluster.numbers():
            with kazoo(cluster, member, credentials="ops:secret") as client:
                client.reconfig(joining=joining(cluster, 3, role="observer" if member % 2 else "participant"),
                                leaving=None, new_members=None)
        assert members(cluster)[3]["role"] == "observer"


def test_reconfig_is_refused_to_all_unless_the_leader_allows_it():
    with harness.Cluster(settings=ENABLED[1:]) as cluster:
        for member in cluster.numbers():
            with zk.Connection(cluster.address(member)) as connection:
                connection.call(zk.AUTH, zk.request_auth("digest", SUPER.encode()), xid=-4)
                try:
                    connection.call(16, zk.ustring(None) + zk.ustring("3") + zk.ustring(None) + b"\xff" * 8)
                    raise AssertionError("a member was removed")
                except zk.ZkError as error:
                    assert error.code == -123, error


def test_a_member_that_does_not_come_up_gets_no_vote_and_does_not_stay():
    with harness.Cluster(size_max=4, settings=[*ENABLED, "initLimit=1", "tickTime=1000"]) as cluster:
        with kazoo(cluster, cluster.others(cluster.leader())[0]) as client:
            try:
                client.reconfig(joining=joining(cluster, 4), leaving=None, new_members=None)
                raise AssertionError("a participant was taken in that nobody can reach")
            except errors.NewConfigNoQuorumError:
                pass
            client.create("/goes-on", b"x")
            assert sorted(members(cluster)) == [1, 2, 3]
            # An observer may be admitted before it is started.
            data, _ = client.reconfig(joining=joining(cluster, 4, role="observer"), leaving=None, new_members=None)
            assert f"server.4={server_line(cluster, 4, 'observer')}" in data.decode()


def test_later_requests_wait_and_pings_do_not_while_a_change_is_in_progress():
    with harness.Cluster(size_max=4, settings=[*ENABLED, "initLimit=2", "tickTime=1000"]) as cluster:
        with zk.Connection(cluster.address(cluster.others(cluster.leader())[0])) as connection:
            connection.call(zk.AUTH, zk.request_auth("digest", SUPER.encode()), xid=-4)
            change = zk.ustring(joining(cluster, 4)) + zk.ustring(None) * 2 + b"\xff" * 8
            connection.send(zk.frame(zk.header(100, 16) + change))
            connection.send(zk.frame(zk.header(101, zk.CREATE) + zk.request_create("/behind", b"")))
            connection.send(zk.frame(zk.header(-2, 11)))
            xids = [zk.decode_reply(connection.receive_frame()) for _ in range(3)]
            assert [reply.xid for reply in xids] == [-2, 100, 101], xids
            assert [reply.err for reply in xids] == [0, -13, 0], xids


def test_another_change_is_refused_while_one_is_in_progress():
    with harness.Cluster(size_max=4, settings=[*ENABLED, "initLimit=12", "tickTime=1000"]) as cluster:
        with kazoo(cluster, 1) as first, kazoo(cluster, 2) as second:
            waits = first.reconfig_async(joining(cluster, 4), None, None, -1)
            cluster.wait_until("member 4 is admitted", lambda: 4 in members(cluster))
            try:
                second.reconfig(joining=None, leaving="3", new_members=None)
                raise AssertionError("two changes at once")
            except errors.ReconfigInProcessError:
                pass
            try:
                waits.get(timeout=PATIENCE_SECONDS)
                raise AssertionError("a participant was taken in that nobody can reach")
            except errors.NewConfigNoQuorumError:
                pass
        assert sorted(members(cluster)) == [1, 2, 3]


def test_zkcli_reconfigures():
    with harness.Cluster(size_max=4, settings=ENABLED) as cluster, servers_outside(cluster, 4):
        lines = ["addauth digest " + SUPER, f"reconfig -add {joining(cluster, 4)}", "reconfig -remove 4", "config", "quit"]
        result = subprocess.run(
            [*jvm.command("org.apache.zookeeper.ZooKeeperMain", JARS), "-waitforconnection", "-server",
             cluster.address(1)], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=PATIENCE_SECONDS, check=False, cwd=cluster.parent)
        output = result.stdout
        assert output.count("Committed new configuration:") == 2, output
        assert output.count(f"server.4={server_line(cluster, 4)}") == 1, output
        assert output.count("server.3=") == 3 and output.count("version=") == 3, output
        assert sorted(members(cluster)) == [1, 2, 3]


def test_a_server_that_names_only_itself_grows_and_starts_again_with_its_old_file():
    # Without standaloneEnabled=false, the server would be a standalone one, which nobody can join.
    settings = [*ENABLED, "standaloneEnabled=false"]
    with harness.Cluster(size=1, size_max=3, settings=settings, start=False) as cluster:
        cluster.settings.append("server.1=" + joining(cluster, 1).split("=", 1)[1])
        cluster.start()
        with servers_outside(cluster, 2, 3):
            with kazoo(cluster, 1) as client:
                client.reconfig(joining=joining(cluster, 2, 3), leaving=None, new_members=None)
                client.create("/grown", b"x")
            assert sorted(members(cluster)) == [1, 2, 3]
            # tools/cluster knows nothing of the other members, and would wait for this one to lead.
            cluster.kill(1)
            with open(os.path.join(cluster.member_dir(1), "server.log"), "ab") as log:
                again = subprocess.Popen([SERVER, os.path.join(cluster.member_dir(1), "zoo.cfg")],
                                         stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                with kazoo(cluster, 1) as client:
                    assert client.get("/grown")[0] == b"x"
                assert again.poll() is None, cluster.log(1)[-3000:]
            finally:
                again.kill()
                again.wait()
