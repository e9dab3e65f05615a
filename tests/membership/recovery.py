# SPDX-License-Identifier: Apache-2.0
"""Tests `quorate recover`: what is left of a cluster that has lost a majority for good becomes a new cluster."""

import contextlib
import json
import os
import pwd
import shutil
import subprocess

import harness
import quorate_cli
import zkwire as zk
from changes import config, lines, members

FORCE = "--force-new-cluster"


def _address(cluster, member):
    base = cluster.ports.base
    return f"127.0.0.1:{base + 200 + member}:{base + 400 + member}"


def _recover(cluster, *survivors, arguments=("--yes",)):
    """Runs `quorate recover` on the directories of the survivors."""
    known = [word for member in survivors for word in ("--address", f"{member}={_address(cluster, member)}")]
    return quorate_cli.run("recover", FORCE, *(cluster.member_dir(member) for member in survivors), *known, *arguments)


def _write(cluster, member, names):
    """Creates znodes through a member, and waits until the member has applied them."""
    with zk.Connection(cluster.address(member)) as connection:
        for name in names:
            connection.create(f"/{name}", name.encode())
        connection.sync()
        connection.close()


def _put_away(cluster, member):
    """Moves the directory of a member whose machine is lost away. Returns where it is."""
    place = f"{cluster.parent}/lost{member}"
    shutil.move(cluster.member_dir(member), place)
    return place


def _paths(directory):
    yield directory
    for parent, directories, files in os.walk(directory):
        yield from (os.path.join(parent, name) for name in (*directories, *files))


def _owners(directory):
    return {os.lstat(path).st_uid for path in _paths(directory)}


def _give_away(directory):
    """Gives the files to another user, as whom root then recovers, if the test runs as root. Returns the owner."""
    owner = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else os.geteuid()
    for path in _paths(directory):
        os.lchown(path, owner, -1)
    return owner


def _forget(cluster, *lost):
    """Takes lost members from the list of tools/cluster, which knows nothing of the recovery."""
    path = os.path.join(cluster.dir, "cluster.conf")
    with open(path, encoding="utf-8") as file:
        conf = json.load(file)
    conf["numbers"] = [number for number in conf["numbers"] if number not in lost]
    conf["members"] = len(conf["numbers"])
    with open(path, "w", encoding="utf-8") as file:
        json.dump(conf, file)
    cluster.members = conf["numbers"]


def _last_entry(cluster, member):
    """Returns the term and the index of the last entry of a stopped member's log."""
    result = quorate_cli.run("--json", "verify", cluster.member_dir(member))
    assert result.returncode == 0, result.stderr
    log = json.loads(result.stdout)["log"]
    return log["last_term"], log["last_index"]


@contextlib.contextmanager
def _left_behind(cluster, member):
    """Runs the server of a lost member on its old directory. Yields the path of its log."""
    path = f"{cluster.parent}/back{member}.log"
    with open(path, "ab") as log:
        process = subprocess.Popen([harness.SERVERS["quorate"], os.path.join(cluster.member_dir(member), "zoo.cfg")],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield path
    finally:
        process.kill()
        process.wait()


def _text(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def test_two_of_three_are_lost_and_the_last_one_becomes_a_cluster_that_grows_again():
    with harness.Cluster(size_max=5) as cluster:
        survivor = cluster.others(cluster.leader())[0]
        lost = cluster.others(survivor)
        with zk.Connection(cluster.address(survivor), timeout_ms=40000) as client:
            client.create("/ephemeral", b"x", zk.EPHEMERAL)
            session = client.session
        _write(cluster, survivor, [f"kept{i}" for i in range(20)])
        cluster.kill_all()
        old = {member: _put_away(cluster, member) for member in lost}
        owner = _give_away(cluster.member_dir(survivor))
        result = _recover(cluster, survivor)
        assert result.returncode == 0, result.stderr
        assert _owners(cluster.member_dir(survivor)) == {owner}
        assert f"member {survivor} of new cluster" in result.stdout and "May be lost" in result.stdout, result.stdout
        # Its configuration still has the lines of all three.
        cluster.restart(survivor)
        with zk.Connection(cluster.address(survivor), session=session) as connection:
            assert connection.session == session
            assert {"ephemeral", *(f"kept{i}" for i in range(20))} <= set(connection.children("/"))
            assert config(connection)[0] == lines(cluster, survivor)
            connection.create("/after", b"x")
        for new in (4, 5):
            cluster.add(new)
        _forget(cluster, *lost)
        assert sorted(members(cluster)) == sorted([survivor, 4, 5])
        pids, leader = cluster.pids(), cluster.leader()
        # A dead member comes back on its old disk: it is refused, leads nobody, and disturbs nobody.
        back = lost[0]
        shutil.move(old[back], cluster.member_dir(back))
        with _left_behind(cluster, back) as log:
            cluster.wait_until("it is refused", lambda: "`quorate rebuild` puts the data aside" in _text(log))
            _write(cluster, survivor, ["meanwhile"])
        said = _text(log)
        assert f"server {survivor} belongs to cluster " in said, said
        assert cluster.pids() == pids and cluster.leader() == leader
        for member in cluster.numbers():
            with zk.Connection(cluster.address(member)) as connection:
                connection.sync()
                assert {"kept19", "after", "meanwhile"} <= set(connection.children("/"))
                assert config(connection)[0] == lines(cluster, *sorted([survivor, 4, 5]))
        cluster.check_alive()


def test_the_recovered_server_goes_on_while_all_that_it_left_behind_come_back():
    with harness.Cluster() as cluster, contextlib.ExitStack() as stack:
        survivor = cluster.leader()
        left = cluster.others(survivor)
        _write(cluster, survivor, ["kept"])
        cluster.kill_all()
        assert _recover(cluster, survivor).returncode == 0
        cluster.restart(survivor)
        # Together they are the majority of the old cluster, and most servers in the configuration of the new one.
        logs = {member: stack.enter_context(_left_behind(cluster, member)) for member in left}
        for member, log in logs.items():
            cluster.wait_until(f"member {member} is refused",
                               lambda log=log: f"server {survivor} belongs to cluster " in _text(log))
        _write(cluster, survivor, ["alone"])
        with zk.Connection(cluster.address(survivor)) as connection:
            assert {"kept", "alone"} <= set(connection.children("/"))
        assert "belongs to another cluster than the other servers" not in cluster.log(survivor)


def test_three_of_five_are_lost_and_the_longer_log_of_the_two_others_is_taken():
    with harness.Cluster(size=5) as cluster:
        leader = cluster.leader()
        behind, ahead, *lost = cluster.others(leader)
        lost = [*lost, leader]
        _write(cluster, behind, ["early"])
        cluster.kill(behind)
        _write(cluster, ahead, [f"late{i}" for i in range(10)])
        # Its server runs: refused, and nothing changes.
        result = _recover(cluster, behind, ahead)
        assert result.returncode != 0 and cluster.member_dir(ahead) in result.stderr, result
        cluster.kill_all()
        for member in lost:
            _put_away(cluster, member)
        assert _last_entry(cluster, behind) < _last_entry(cluster, ahead)
        before = _last_entry(cluster, ahead)
        # Without a terminal and without --yes nobody confirms.
        result = _recover(cluster, behind, ahead, arguments=())
        assert result.returncode != 0 and "give --yes" in result.stderr, result
        assert _last_entry(cluster, ahead) == before
        result = _recover(cluster, behind, ahead)
        assert result.returncode == 0, result.stderr
        assert "has fewer" in result.stdout and f"member {ahead} of new cluster" in result.stdout, result.stdout
        cluster.restart(ahead)
        # The other survivor joins again without data, under its number.
        result = quorate_cli.run("rebuild", cluster.member_dir(behind), "--yes")
        assert result.returncode == 0, result.stderr
        cluster.command("launch", behind)
        result = quorate_cli.run("--server", cluster.grpc(ahead), "member", "add", behind, _address(cluster, behind))
        assert result.returncode == 0, result.stderr
        for member in (ahead, behind):
            with zk.Connection(cluster.address(member)) as connection:
                connection.sync()
                assert {"early", *(f"late{i}" for i in range(10))} <= set(connection.children("/"))
                assert config(connection)[0] == lines(cluster, *sorted([ahead, behind]))


def test_directories_of_two_clusters_and_a_damaged_one_are_refused():
    with harness.Cluster() as cluster, harness.Cluster() as other:
        for one in (cluster, other):
            _write(one, 1, ["x"])
            one.kill_all()
        result = quorate_cli.run("recover", FORCE, "--yes", cluster.member_dir(1), other.member_dir(2))
        assert result.returncode != 0 and "are of different clusters" in result.stderr, result
        result = quorate_cli.run("recover", "--yes", cluster.member_dir(1))
        assert result.returncode == 2 and FORCE in result.stderr, result
        with open(os.path.join(cluster.member_dir(1), "identity"), "r+b") as file:
            file.write(b"damaged")
        result = _recover(cluster, 1)
        assert result.returncode != 0 and "Nothing is recovered while a given directory is damaged" in result.stderr, result
