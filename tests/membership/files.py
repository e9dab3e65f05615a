# SPDX-License-Identifier: Apache-2.0
"""Tests that the configuration files follow the members, as those of ZooKeeper do."""

import os

import harness
import zkwire as zk
from changes import config, members
from reconfig import ENABLED, joining, kazoo, server_line, servers_outside, version_of


def _read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def _shows(cluster, member, version):
    """Returns whether the last line of the member's zoo.cfg names the dynamic file of that version."""
    path = os.path.join(os.path.realpath(cluster.member_dir(member)), "zoo.cfg")
    return _read(path).endswith(f"\ndynamicConfigFile={path}.dynamic.{version:x}\n")


def test_files_follow_the_members_and_servers_start_with_them():
    with harness.Cluster(size_max=4, settings=ENABLED) as cluster:
        path = os.path.join(cluster.member_dir(1), "zoo.cfg")
        with open(path, "a", encoding="utf-8") as file:  # the server reads the file again before it rewrites it
            file.write("# a comment that stays\n")
        before = _read(path)
        with servers_outside(cluster, 4), kazoo(cluster, 1) as client:
            data, _ = client.reconfig(joining=joining(cluster, 4), leaving=None, new_members=None)
            version = version_of(data)
            for member in (1, 2, 3, 4):
                cluster.wait_until(f"the files of member {member} show the change",
                                   lambda m=member: _shows(cluster, m, version))
            static = _read(path).splitlines()
            assert "# a comment that stays" in static and not [s for s in static if s.startswith("server.")], static
            assert _read(path + ".bak") == before
            # As in ZooKeeper: sorted, without a version, and without a newline at the end.
            assert _read(f"{path}.dynamic.{version:x}") == data.decode().rsplit("\nversion=", 1)[0]
            assert f"server.4={server_line(cluster, 4)}" in _read(f"{path}.dynamic.{version:x}")
            data, _ = client.reconfig(joining=None, leaving="4", new_members=None)
            for member in (1, 2, 3):
                cluster.wait_until(f"the files of member {member} show the second change",
                                   lambda m=member: _shows(cluster, m, version_of(data)))
            # Without its own line it could not start any more.
            assert "server.4=" in _read(os.path.join(cluster.member_dir(4), f"zoo.cfg.dynamic.{version:x}"))
        cluster.kill_all()
        for member in cluster.numbers():
            cluster.command("launch", member)
        cluster.leader()
        assert sorted(members(cluster)) == [1, 2, 3]
        with zk.Connection(cluster.address(2)) as connection:
            connection.sync()
            assert config(connection)[1] == version_of(data)


def test_a_file_that_cannot_be_written_is_named_in_one_warning_and_stops_nothing():
    with harness.Cluster(settings=ENABLED) as cluster:
        # Root writes everywhere but here.
        os.mkdir(os.path.join(cluster.member_dir(2), "zoo.cfg.dynamic.2.tmp"))
        before = _read(os.path.join(cluster.member_dir(2), "zoo.cfg"))
        with kazoo(cluster, 2) as client:
            data, _ = client.reconfig(joining=joining(cluster, 3, role="observer"), leaving=None, new_members=None)
            cluster.wait_until("member 2 warns", lambda: "does not show the members" in cluster.log(2))
            cluster.wait_until("member 1 shows the change", lambda: _shows(cluster, 1, version_of(data)))
            client.create("/goes-on", b"x")
        assert cluster.log(2).count("does not show the members") == 1
        assert _read(os.path.join(cluster.member_dir(2), "zoo.cfg")) == before
        cluster.kill(2)
        cluster.restart(2)
        assert members(cluster)[3]["role"] == "observer"
