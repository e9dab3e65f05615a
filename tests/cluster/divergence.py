# SPDX-License-Identifier: Apache-2.0
"""Tests that a member whose tree differs from the others' notices it, stops, and serves again only after it was
rebuilt."""

import json
import os
import re
import shutil
import time

import harness
import offline_tools
import zkwire as zk

WAIT_SECONDS = 20
MARKER = "diverged"
DIFFERS = "this member's tree differs from that of a majority"
ATTEMPTS = 5


def _require_quorate(server):
    if server != "quorate":
        raise harness.Skipped("ZooKeeper does not stop")


def _wait_for(what, condition):
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT_SECONDS} s: {what}"
        time.sleep(0.05)


def _write(cluster, prefix, count):
    """Creates nodes, and returns when every member has them."""
    with zk.Connection(cluster.address(1)) as connection:
        for i in range(count):
            connection.create(f"/{prefix}{i}", prefix.encode())
        connection.close()
    for member in cluster.numbers():
        with zk.Connection(cluster.address(member)) as connection:
            connection.sync()
            assert connection.exists(f"/{prefix}{count - 1}")
            connection.close()


def _terms(cluster, member):
    """Returns the terms of the entries in the log of a stopped member."""
    dumped, _ = offline_tools._apart("log", "dump", cluster.member_dir(member), "--json")
    return [entry["term"] for entry in json.loads(dumped)["items"]]


def _compared(cluster, member):
    return int(cluster.monitor(member).get("quorate_digest_compared_zxid", 0))


class _Directories:
    """Copies the directories of stopped members."""

    def __init__(self, cluster):
        self.cluster = cluster

    def _path(self, name, member):
        return os.path.join(self.cluster.parent, f"{name}-{member}")

    def keep(self, name):
        for member in self.cluster.numbers():
            shutil.copytree(self.cluster.member_dir(member), self._path(name, member))

    def put_all_back(self, name):
        for member in self.cluster.numbers():
            self.put_back(name, member)

    def put_back(self, name, member):
        shutil.rmtree(self.cluster.member_dir(member))
        shutil.copytree(self._path(name, member), self.cluster.member_dir(member))


def _fork(cluster):
    """Makes two histories with the same beginning. Member 3 gets one of them, and the others the other one, as if an
    operator had put back a copy of a directory that was in use elsewhere. The copied log has other entries than the
    others', but with the same indexes and terms, so that consensus cannot notice it. Leaves all members stopped."""
    directories = _Directories(cluster)
    _write(cluster, "common", 3)
    cluster.kill_all()
    directories.keep("common")
    for attempt in range(ATTEMPTS):
        # The terms may differ, because an election may take several terms.
        name = f"elsewhere-{attempt}"
        _go_on(cluster, name, 5)
        directories.keep(name)
        elsewhere = _terms(cluster, 3)
        directories.put_all_back("common")
        _go_on(cluster, "here", 20)
        if all(_terms(cluster, member)[:len(elsewhere)] == elsewhere for member in (1, 2)):
            directories.put_back(name, 3)
            return
        directories.put_all_back("common")
    raise AssertionError(f"{ATTEMPTS} attempts did not make two histories in the same terms")


def _go_on(cluster, name, writes):
    """Starts the cluster, writes, and stops the cluster."""
    cluster.command("start")
    _write(cluster, name, writes)
    # The members are killed, because a leader that is stopped hands over, which may add an entry of another term.
    cluster.kill_all()


def alone_a_member_that_differs_stops_and_serves_again_when_it_was_rebuilt(server):
    _require_quorate(server)
    with harness.Cluster(server) as cluster:
        _fork(cluster)
        begin = len(cluster.log(3))
        # Does not wait until all serve, because the diverged member may end before the others serve.
        for member in cluster.numbers():
            cluster.command("launch", member)
        _wait_for("stopped", lambda: not cluster.pids()[2])
        said = cluster.log(3)[begin:]
        assert DIFFERS in said and "quorate rebuild" in said, said
        marker = os.path.join(cluster.member_dir(3), MARKER)
        with open(marker, encoding="utf-8") as file:
            zxid = int(re.search(r"^zxid (0x[0-9a-f]+)$", file.read(), re.MULTILINE).group(1), 16)
        assert f"at zxid 0x{zxid:x} its digest is" in said, said

        # The member does not start again; the others go on.
        begin = len(cluster.log(3))
        cluster.command("restart", 3, check=False)
        _wait_for("refused", lambda: DIFFERS in cluster.log(3)[begin:])
        _wait_for("the member has stopped again", lambda: not cluster.pids()[2])
        _wait_for("the other members serve", lambda: all(
            cluster.monitor(member).get("server_state") in ("leader", "follower") for member in (1, 2)))
        with zk.Connection(cluster.address(1)) as connection:
            connection.create("/after")
            connection.close()

        # Rebuilds the member, as the message advises.
        offline_tools._quorate("rebuild", cluster.member_dir(3), "--yes")
        aside = [name for name in os.listdir(cluster.member_dir(3)) if name.startswith("aside-")]
        assert len(aside) == 1, aside
        kept = os.listdir(os.path.join(cluster.member_dir(3), aside[0]))
        assert {"identity", "hard_state", "log", MARKER} <= set(kept), kept
        assert not os.path.exists(marker), "the marker file still exists"
        begin = len(cluster.log(3))
        cluster.command("restart", 3)
        with zk.Connection(cluster.address(3)) as connection:
            connection.sync()
            assert connection.exists("/after") and connection.exists("/here0")
            assert not connection.exists("/elsewhere0")
            connection.close()
        _wait_for("the member counts again", lambda: offline_tools.RECOVERED in cluster.log(3)[begin:])
        _wait_for("compared", lambda: all(_compared(cluster, member) > zxid
                                          for member in cluster.numbers()))
        # Now a majority needs this member.
        cluster.kill(1)
        with zk.Connection(cluster.address(3), timeout=WAIT_SECONDS) as connection:
            connection.create("/with-the-rebuilt-one")
            connection.close()
        cluster.restart(1)
        cluster.command("down")
        for member in cluster.numbers():
            offline_tools._quorate("verify", cluster.member_dir(member))
        return f"found at zxid 0x{zxid:x}"


def shared_equal_trees_are_compared_and_no_difference_is_seen(cluster):
    with zk.Connection(cluster.address(1)) as connection:
        connection.create("/compared")
        zxid = connection.last_zxid
        connection.close()
    _wait_for("compared", lambda: all(_compared(cluster, i) >= zxid for i in cluster.numbers()))
    for member in cluster.numbers():
        values = cluster.monitor(member)
        assert values["digest_mismatches_count"] == "0", values
        assert values["quorate_digest_undecided"] == "0", values
