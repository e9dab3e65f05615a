# SPDX-License-Identifier: Apache-2.0
"""Tests checkpoints and their uses: the log is cut, a start needs only the end of the log, and members catch
up by a snapshot or with an empty directory."""

import os
import shutil
import subprocess
import time

import crashes
import harness
import zkwire as zk

# So small that a few thousand writes cut the log.
SNAP_COUNT = 2000
SETTINGS = [f"snapCount={SNAP_COUNT}", "logSegmentBytes=65536"]
NODES = 200
PIPELINE = 500
WAIT_SECONDS = 30
SESSION_MS = 40000  # the longest timeout with a tick of 2 s

WRITTEN = "written in"
LOADED = "loaded in"
SNAPSHOT = "snapshot of zxid"
RECOVERING = "neither votes nor counts"
RECOVERED = "counts as a member again"


def _require_quorate(server):
    if server != "quorate":
        raise harness.Skipped("about our own checkpoints")


def _wait_for(what, condition):
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT_SECONDS} s: {what}"
        time.sleep(0.05)


def _segments(cluster, member):
    """Returns the files of the log, without the ballast file."""
    return set(os.listdir(os.path.join(cluster.member_dir(member), "log"))) - {"spare"}


class _Log:
    """The lines that a member logs from now on."""

    def __init__(self, cluster, member):
        self.cluster, self.member = cluster, member
        self.begin = len(cluster.log(member))

    def has(self, text):
        return text in self.cluster.log(self.member)[self.begin:]

    def wait(self, text):
        _wait_for(f"\"{text}\" in the log of member {self.member}", lambda: self.has(text))


def _make_nodes(cluster, member, parent):
    with zk.Connection(cluster.address(member)) as connection:
        connection.create(parent)
        for i in range(NODES):
            connection.create(f"{parent}/{i}", b"new")
        connection.close()


def _write_until_cut(cluster, member, parent):
    """Changes the nodes below `parent` until every running member has removed all the log files that it
    has now."""
    old = {i: _segments(cluster, i) for i, pid in zip(cluster.numbers(), cluster.pids()) if pid}
    count = 0
    deadline = time.monotonic() + WAIT_SECONDS
    with zk.Connection(cluster.address(member), SESSION_MS) as connection:
        while any(old[i] & _segments(cluster, i) for i in old):
            assert time.monotonic() < deadline, f"{count} writes did not cut the log"
            for _ in range(PIPELINE):
                connection.submit(zk.SET_DATA, zk.request_set(
                    f"{parent}/{count * 7 % NODES}", b"%d" % count + b"x" * 100, -1))
                count += 1
            for _ in range(PIPELINE):
                assert connection.receive().err == zk.OK
        connection.close()
    return count


def _walk(cluster, member):
    """Returns {path: (data, stat)} of the whole tree, after a sync."""
    nodes = {}
    with zk.Connection(cluster.address(member), timeout=WAIT_SECONDS) as reader:
        reader.sync()
        paths = ["/"]
        while paths:
            path = paths.pop()
            nodes[path] = reader.get(path)
            paths += [f"{path.rstrip('/')}/{name}" for name in reader.children(path)]
        reader.close()
    return nodes


def _zxid(cluster, member):
    try:
        lines = zk.four_letter(cluster.address(member), "srvr").splitlines()
    except zk.Closed:
        return None
    return next((line for line in lines if line.startswith("Zxid:")), None)


def _check_same(cluster):
    """Checks that all members have the same tree, including the stats, and reach the same zxid."""
    trees = [_walk(cluster, member) for member in cluster.numbers()]
    for member, tree in zip(cluster.numbers(), trees):
        different = [path for path in trees[0].keys() | tree.keys() if trees[0].get(path) != tree.get(path)]
        assert not different, f"members 1 and {member} differ in {sorted(different)[:5]}"
    zxids = []

    def equal():
        zxids[:] = [_zxid(cluster, member) for member in cluster.numbers()]
        return zxids[0] is not None and len(set(zxids)) == 1
    _wait_for("all members have the same zxid", equal)
    return len(trees[0])


def alone_the_log_is_cut_and_all_that_are_killed_begin_with_a_checkpoint(server):
    _require_quorate(server)
    with harness.Cluster(server, settings=SETTINGS) as cluster:
        _make_nodes(cluster, 1, "/churn")
        logs, counts = [], []

        def disturb():
            counts.append(_write_until_cut(cluster, 1, "/churn"))
            cluster.kill_all()
            logs.extend(_Log(cluster, member) for member in cluster.numbers())
            cluster.command("start")
            _write_until_cut(cluster, 2, "/churn")
            cluster.kill_all()
            cluster.command("start")
        writers = crashes.with_writers(cluster, "/cut", disturb)
        total = crashes.check_all_there(cluster, "/cut", writers)
        for log in logs:
            assert log.has(LOADED), f"member {log.member} loaded no checkpoint"
            assert log.has(WRITTEN), f"member {log.member} wrote no checkpoint after the restart"
        _check_same(cluster)
        size = sum(len(_segments(cluster, member)) for member in cluster.numbers())
        return f"{total} writes acknowledged beside {counts[0]}, {size} log files left"


def alone_a_member_that_was_away_for_long_comes_back_by_a_snapshot(server):
    _require_quorate(server)
    with harness.Cluster(server, settings=SETTINGS) as cluster:
        away, home = cluster.followers()
        _make_nodes(cluster, home, "/churn")
        with zk.Connection(cluster.address(away), SESSION_MS) as client:
            for name in ("changed", "quiet", "gone"):
                client.create(f"/{name}")
            client.create("/mine", b"", zk.EPHEMERAL)
            client.get("/changed", watch=True)
            session, seen = client.session, client.last_zxid
        cluster.kill(away)
        log = _Log(cluster, away)
        count = _write_until_cut(cluster, home, "/churn")
        with zk.Connection(cluster.address(home)) as writer:
            writer.set("/changed", b"while it was away")
            writer.delete("/gone")
            writer.close()
        cluster.restart(away)
        log.wait(SNAPSHOT)
        with zk.Connection(cluster.address(away), SESSION_MS, session=session, last_zxid=seen,
                           timeout=WAIT_SECONDS) as client:
            assert client.session == session, "the resumed session has another id or password"
            client.sync()
            client.call(zk.SET_WATCHES, zk.request_set_watches(
                seen, data=["/changed", "/quiet", "/gone"], exist=["/born"], child=["/quiet"]),
                xid=zk.XID_SET_WATCHES)
            missed = {(event.type, event.path) for event in client.events}
            assert missed == {(zk.NODE_DATA_CHANGED, "/changed"), (zk.NODE_DELETED, "/gone")}, missed
            client.events.clear()
            assert client.exists("/mine").ephemeral_owner == session[0]
            with zk.Connection(cluster.address(home)) as writer:
                writer.set("/quiet", b"changed")
                writer.create("/born")
                writer.create("/quiet/child")
                writer.close()
            events = [(event.type, event.path) for event in (client.wait_event() for _ in range(3))]
            assert events == [(zk.NODE_DATA_CHANGED, "/quiet"), (zk.NODE_CREATED, "/born"),
                              (zk.NODE_CHILDREN_CHANGED, "/quiet")], events
            client.close()
        nodes = _check_same(cluster)
        # The member has stored the snapshot: it starts again without the help of the others.
        again = _Log(cluster, away)
        cluster.kill(away)
        cluster.restart(away)
        assert again.has(LOADED), "it did not keep the snapshot"
        assert not again.has(SNAPSHOT), "it needed another snapshot"
        _check_same(cluster)
        return f"{count} writes while it was away, {nodes} nodes alike"


def alone_a_member_that_lost_its_disk_is_rebuilt_and_counts_again(server):
    _require_quorate(server)
    with harness.Cluster(server, settings=SETTINGS) as cluster:
        _make_nodes(cluster, 1, "/churn")
        _write_until_cut(cluster, 1, "/churn")
        lost, home = cluster.followers()

        def disturb():
            cluster.kill(lost)
            directory = cluster.member_dir(lost)
            for name in os.listdir(directory):
                path = os.path.join(directory, name)
                if os.path.isdir(path):
                    shutil.rmtree(path)
                elif name not in ("zoo.cfg", "myid", "server.log"):
                    os.unlink(path)
            log = _Log(cluster, lost)
            cluster.restart(lost)
            for text in (RECOVERING, SNAPSHOT, RECOVERED):
                log.wait(text)
            # Now a majority needs this member.
            cluster.kill(home)
            with zk.Connection(cluster.address(lost), timeout=WAIT_SECONDS) as connection:
                connection.create("/with-the-rebuilt-one")
                connection.close()
            cluster.restart(home)
            leader = cluster.leader()
            cluster.kill(leader)
            cluster.leader()
            cluster.restart(leader)
        writers = crashes.with_writers(cluster, "/rebuilt", disturb)
        total = crashes.check_all_there(cluster, "/rebuilt", writers)
        _check_same(cluster)
        return f"{total} writes acknowledged"


def alone_checkpoints_are_in_the_data_directory_and_go_with_their_log(server):
    _require_quorate(server)
    cluster = harness.Cluster(server, size=1, start=False)
    with cluster:
        log_dir = os.path.join(cluster.parent, "apart")
        cluster.settings = ["snapCount=2", f"dataLogDir={log_dir}"]
        cluster.start()
        log = _Log(cluster, 1)
        with zk.Connection(cluster.address(1)) as connection:
            for i in range(10):
                connection.create(f"/{i}")
            connection.close()
        log.wait(WRITTEN)
        cluster.command("down")
        assert os.path.isdir(os.path.join(cluster.member_dir(1), "checkpoints"))
        assert os.path.isdir(os.path.join(log_dir, "log"))
        assert not os.path.exists(os.path.join(log_dir, "checkpoints"))
        # With a checkpoint beside a new log, the member does not know what it promised to the others.
        os.rename(log_dir, log_dir + ".moved")
        result = subprocess.run(
            [cluster.environment.get("QUORATED", harness.SERVERS[server]),
             os.path.join(cluster.member_dir(1), "zoo.cfg")],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=WAIT_SECONDS, check=False)
        assert result.returncode > 0, f"exit status {result.returncode}: {result.stdout}"
        for directory in (cluster.member_dir(1), log_dir):
            assert directory in result.stdout, f"the error does not name {directory}:\n{result.stdout}"
        shutil.rmtree(log_dir)
        os.rename(log_dir + ".moved", log_dir)
        cluster.command("start")
        with zk.Connection(cluster.address(1)) as connection:
            assert connection.exists("/9"), "a node is lost"
            connection.close()
