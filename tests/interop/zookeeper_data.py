# SPDX-License-Identifier: Apache-2.0
"""Tests import from ZooKeeper and export to it: a tree that Debian's ZooKeeper wrote is imported, served and
compared node by node. A tree that was written to Quorate is exported, and ZooKeeper starts from it."""

import contextlib
import json
import os
import random
import shutil
import struct
import subprocess
import tempfile

import harness
import zkwire as zk

CLI = os.environ.get("QUORATE", os.path.join(harness.ROOT, ".bazel/opt-bin/tools/quorate"))
GET_ACL, SET_ACL, CREATE2, CREATE_CONTAINER, CREATE_TTL = 6, 7, 15, 19, 21
CONTAINER, TTL = 4, 5
# Longer than servers allow by default, because a move takes long on a slow machine.
SESSION_TIMEOUT_MS = 200000
BULK_NODES = 4000
PIPELINE = 200
SUPER = b"super:secret"
SUPER_DIGEST = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="
USER = b"user:pass"
USER_DIGEST = "user:smGaoVKd/cQkjm7b88GyorAUz20="
SETTINGS = ("extendedTypesEnabled=true", "containerCheckIntervalMs=600000",
            f"maxSessionTimeout={SESSION_TIMEOUT_MS}",
            f"DigestAuthenticationProvider.superDigest={SUPER_DIGEST}")
# A snapshot every few hundred transactions, so that some are written under load.
SNAPSHOT_SETTINGS = SETTINGS + ("snapCount=300", "preAllocSize=256")

# So few entries for each checkpoint and segment that a member has several of both.
OUR_SETTINGS = SETTINGS + ("snapCount=700", "logSegmentBytes=65536")

# Paths whose node is not compared, and why.
NOT_COMPARED = {
    "/zookeeper/config": "names the servers of the ensemble, which differ after the move",
}


# --- walking -----------------------------------------------------------------------------------


class ZooKeeperConnection(zk.Connection):
    """A connection to ZooKeeper. A follower of ZooKeeper sometimes stops answering, because it waits for ever for an
    entry that the leader has committed (CommitProcessor). The test then starts again."""

    def receive_frame(self, timeout=None):
        try:
            return super().receive_frame(timeout)
        except zk.Closed as error:
            raise harness.BeginAnew(f"ZooKeeper at {self.address} does not answer: {error}") from error


def connect(cluster, member, **options):
    """Returns a connection with all permissions."""
    kind = ZooKeeperConnection if cluster.is_java else zk.Connection
    connection = kind(cluster.address(member), timeout_ms=SESSION_TIMEOUT_MS, timeout=30.0, **options)
    connection.call(zk.AUTH, zk.request_auth("digest", SUPER), xid=zk.XID_AUTH)
    return connection


def read_acl(reader):
    entries = []
    for _ in range(max(0, reader.take(">i"))):
        entries.append((reader.take(">i"), reader.ustring(), reader.ustring()))
    return entries


def read_node(connection, path):
    """Returns (data, ACL, Stat, names of children): everything that a client can read of a node."""
    # Reads one after the other, because ZooKeeper on a busy machine was seen to leave pipelined reads unanswered.
    data, acl, children = (connection.call(operation, body) for operation, body in (
        (zk.GET_DATA, zk.request_path_watch(path, False)), (GET_ACL, zk.ustring(path)),
        (zk.GET_CHILDREN2, zk.request_path_watch(path, False))))
    result = (data.buffer(), read_acl(acl), sorted(children.strings()), data.stat())
    assert acl.stat() == result[3], path
    assert children.stat() == result[3], path
    return result


def walk(cluster, member):
    """Returns {path: node} of the whole tree."""
    nodes, left = {}, ["/"]
    with connect(cluster, member) as connection:
        connection.sync()
        while left:
            path = left.pop()
            nodes[path] = read_node(connection, path)
            left += [f"{path.rstrip('/')}/{name}" for name in nodes[path][2]]
        connection.close()
    return nodes


def check_same(before, after):
    """Fails with the first differences between two trees."""
    differences = []
    for path in sorted(before.keys() | after.keys()):
        if path in NOT_COMPARED or before.get(path) == after.get(path):
            continue
        differences.append(f"{path}\n  before {before.get(path)}\n  after  {after.get(path)}")
    assert not differences, f"{len(differences)} nodes differ:\n" + "\n".join(differences[:5])[:4000]


# --- writing -----------------------------------------------------------------------------------


def create_special(connection, operation, path, flags, extra=b"", data=b"", acls=None):
    return connection.call(operation, zk.request_create(path, data, flags, acls) + extra).ustring()


def pipeline(connection, requests):
    """Sends many requests without waiting for answers in between. Returns how many failed."""
    failed = 0
    for start in range(0, len(requests), PIPELINE):
        batch = requests[start:start + PIPELINE]
        for operation, body in batch:
            connection.submit(operation, body)
        failed += sum(connection.receive().err != zk.OK for _ in batch)
    return failed


def write_kinds(connection):
    """Creates a node of each kind and shape."""
    connection.create("/kinds", b"\0\xff\x80binary")
    connection.create("/kinds/empty", b"")
    connection.create("/kinds/null", None)
    connection.create("/kinds/large", bytes(range(256)) * 1500)
    connection.create("/kinds/n\u00e4me \u4e2d\u6587", "w\u00f6rt".encode())
    for flags in (zk.SEQUENTIAL, zk.EPHEMERAL_SEQUENTIAL):
        connection.create("/kinds/s-", b"", flags)
    connection.create("/kinds/ephemeral", b"mine", zk.EPHEMERAL)
    connection.set("/kinds/empty", None)
    create_special(connection, CREATE2, "/kinds/create2", zk.PERSISTENT)
    create_special(connection, CREATE2, "/kinds/create2-ephemeral", zk.EPHEMERAL)
    create_special(connection, CREATE_CONTAINER, "/kinds/container", CONTAINER)
    connection.create("/kinds/container/child")
    create_special(connection, CREATE_CONTAINER, "/kinds/container/inner", CONTAINER)
    create_special(connection, CREATE_TTL, "/kinds/ttl", TTL, struct.pack(">q", 3600000))
    create_special(connection, CREATE_TTL, "/kinds/ttl-max", TTL, struct.pack(">q", 0xFFFFFFFFFF))
    path = "/kinds"
    for depth in range(100):
        path += f"/d{depth}"
        connection.create(path, str(depth).encode())
    for name in ("gone", "again"):
        connection.create(f"/kinds/{name}", b"old")
        connection.delete(f"/kinds/{name}")
    connection.create("/kinds/again", b"new")


def write_acls(connection):
    connection.call(zk.AUTH, zk.request_auth("digest", USER), xid=zk.XID_AUTH)
    lists = [[zk.acl(1)], [zk.acl(31, "digest", USER_DIGEST)], [zk.acl(31, "auth", "")],
             [zk.acl(31, "ip", "127.0.0.0/8"), zk.acl(1)],
             [zk.acl(16, "digest", "other:hash"), zk.acl(3, "ip", "10.0.0.1"), zk.acl(4)]]
    connection.create("/acls")
    for number, acls in enumerate(lists):
        connection.call(zk.CREATE, zk.request_create(f"/acls/{number}", b"", zk.PERSISTENT, acls))
        connection.create(f"/acls/set-{number}")
        for _ in range(number):
            connection.call(SET_ACL, zk.ustring(f"/acls/set-{number}") + zk.vector(acls) +
                            struct.pack(">i", -1))


def write_quota(connection):
    connection.create("/quota")
    for path in ("/zookeeper/quota/quota", "/zookeeper/quota/quota/zookeeper_limits",
                 "/zookeeper/quota/quota/zookeeper_stats"):
        if connection.exists(path) is None:
            data = b"" if path.endswith("quota") else b"count=1000,bytes=-1"
            connection.create(path, data)
    for number in range(5):
        connection.create(f"/quota/{number}", b"12345")
    connection.delete("/quota/3")
    connection.set("/quota/2", b"123456789")


def write_multis(connection):
    connection.create("/multi")
    request = zk.request_multi([
        (zk.CREATE, zk.request_create("/multi/a", b"a")),
        (zk.CREATE, zk.request_create("/multi/a/b", b"b")),
        (zk.CREATE, zk.request_create("/multi/a/c-", b"c", zk.SEQUENTIAL)),
        (zk.CREATE, zk.request_create("/multi/e", b"e", zk.EPHEMERAL)),
        (zk.SET_DATA, zk.request_set("/multi/a", b"aa", 0)),
        (zk.CREATE, zk.request_create("/multi/gone", b"")),
        (zk.DELETE, zk.request_delete("/multi/gone", 0)),
        (zk.CHECK, zk.request_delete("/multi/a/b", 0)),
    ])
    connection.call(zk.MULTI, request)
    failing = zk.request_multi([(zk.CREATE, zk.request_create("/multi/never", b"")),
                                (zk.DELETE, zk.request_delete("/multi/nothing", -1))])
    connection.call(zk.MULTI, failing)


def write_bulk(connection, chance, count):
    """Creates, changes and deletes thousands of nodes."""
    if connection.exists("/bulk") is None:
        connection.create("/bulk")
        pipeline(connection, [(zk.CREATE, zk.request_create(f"/bulk/{i}", b"")) for i in range(20)])
    requests = []
    for number in range(count):
        path = f"/bulk/{chance.randrange(20)}/n{chance.randrange(count)}"
        requests.append(chance.choice([
            (zk.CREATE, zk.request_create(path, b"x" * chance.randrange(200))),
            (CREATE2, zk.request_create(path, b"y" * chance.randrange(200))),
            (zk.CREATE, zk.request_create(path + "-", b"", zk.SEQUENTIAL)),
            (zk.SET_DATA, zk.request_set(path, str(number).encode(), -1)),
            (zk.DELETE, zk.request_delete(path, -1)),
            (SET_ACL, zk.ustring(path) + zk.vector([zk.acl(31, "ip", f"10.0.0.{number % 9}"),
                                                    zk.acl()]) + struct.pack(">i", -1)),
        ]))
    failed = pipeline(connection, requests)
    assert 0 < failed < count, "some requests have to fail, and others to succeed"


def end_some_sessions(cluster):
    """Opens and ends sessions, some of which leave nodes."""
    for number in range(3):
        connection = connect(cluster, 1)
        connection.create(f"/kinds/of-closed-{number}", b"", zk.EPHEMERAL)
        connection.close()


# --- moving ------------------------------------------------------------------------------------


def quorate(*arguments, status=0):
    """Runs the command line. Returns its facts."""
    result = subprocess.run([CLI, *map(str, arguments), "--json"], stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == status, (f"quorate {' '.join(map(str, arguments))} ended with "
                                         f"{result.returncode}:\n{result.stdout}{result.stderr}")
    return json.loads(result.stdout) if status == 0 else result.stderr


def import_all(source, cluster, with_config=False, source_log=None):
    """Imports the data into every member of a cluster that was not started yet."""
    facts = []
    data = ["--zookeeper-data", source, *(["--zookeeper-log", source_log] if source_log else [])]
    for member in cluster.numbers():
        directory = cluster.member_dir(member)
        members = ",".join(map(str, cluster.numbers()))
        where = ["--data-dir", directory, "--member", member, "--members", members]
        if with_config:
            os.makedirs(directory)
            config = os.path.join(directory, "zoo.cfg")
            with open(config, "w", encoding="utf-8") as file:
                file.write(f"dataDir={directory}\nclientPort=2181\n")
                file.writelines(f"server.{i}=127.0.0.1:{2888 + i}:{3888 + i}\n"
                                for i in cluster.numbers())
            with open(os.path.join(directory, "myid"), "w", encoding="utf-8") as file:
                file.write(f"{member}\n")
            where = ["--config", config]
        facts.append(quorate("import", *data, *where))
    assert len({(fact["cluster"], fact["digest"], fact["last_zxid"]) for fact in facts}) == 1
    return facts[0]


def export_all(source, cluster):
    """Exports the data to every server of a ZooKeeper cluster that was not started yet."""
    facts = quorate("export", "--zookeeper-snapshot", os.path.join(cluster.parent, "export"), source)
    for member in cluster.numbers():
        shutil.copytree(os.path.join(cluster.parent, "export", "version-2"),
                        os.path.join(cluster.member_dir(member), "version-2"))
    return facts


def newest_of_ours(cluster):
    """Returns the member of a stopped Quorate cluster whose last entry has the greatest term and, among those, the
    greatest index, as the documents advise."""
    def last_entry(member):
        log = quorate("verify", cluster.member_dir(member))["log"]
        return log["last_term"], log["last_index"]
    return max(cluster.numbers(), key=last_entry)


def newest_member(cluster):
    """Returns the server of a stopped ZooKeeper cluster with the greatest last zxid, as the documents advise."""
    def last_zxid(member):
        facts = quorate("import", "--zookeeper-data", cluster.member_dir(member), "--check")
        return int(facts["last_zxid"], 16)
    return max(cluster.numbers(), key=last_zxid)


def check_every_snapshot(cluster):
    """Checks that every snapshot, together with the logs behind it, makes the same tree, even if the snapshot was not
    taken at one moment. Returns the number of snapshots."""
    digests = []
    for member in cluster.numbers():
        source = os.path.join(cluster.member_dir(member), "version-2")
        snapshots = sorted((name for name in os.listdir(source) if name.startswith("snapshot.")),
                           key=lambda name: int(name.split(".")[1], 16))
        for number, newest in enumerate(snapshots):
            later = snapshots[number + 1:]
            with tempfile.TemporaryDirectory(dir=cluster.parent) as directory:
                for name in set(os.listdir(source)) - set(later):
                    os.symlink(os.path.join(source, name), os.path.join(directory, name))
                facts = quorate("import", "--zookeeper-data", directory, "--check")
            assert facts["snapshot"].endswith(newest) and facts["digests_checked"] > 0, facts
            assert not facts["warnings"], facts
            digests.append((int(facts["last_zxid"], 16), facts["digest"]))
    newest = max(digests)
    assert all(digest == newest[1] for zxid, digest in digests if zxid == newest[0]), digests
    return len(digests)


def check_writes(cluster, last_zxid):
    """Checks that new writes succeed, and have greater zxids than all old ones."""
    with connect(cluster, 1) as connection:
        connection.create("/new", b"new")
        stat = connection.exists("/new")
        assert stat.czxid > last_zxid, f"0x{stat.czxid:x} after 0x{last_zxid:x}"
        connection.create("/kinds/s-", b"", zk.SEQUENTIAL)
        connection.set("/kinds/empty", b"now")
        stats = connection.get("/zookeeper/quota/quota/zookeeper_stats")[0]
        connection.create("/quota/more", b"12")
        after = connection.get("/zookeeper/quota/quota/zookeeper_stats")[0]
        connection.delete("/quota/more")
        connection.delete("/new")
        connection.close()
    assert stats.startswith(b"count=5,bytes=24") and after.startswith(b"count=6,bytes=26"), (stats, after)
    return stat.czxid


def check_session(cluster, session, ephemerals):
    """Checks that a client can resume its session, and that the session then works and ends as usual."""
    with connect(cluster, 1, session=session) as connection:
        assert connection.session == session
        for path in ephemerals:
            assert connection.exists(path).ephemeral_owner == session[0], path
        connection.create("/kinds/of-old-session", b"", zk.EPHEMERAL)
    try:
        zk.Connection(cluster.address(1), session=(session[0], b"x" * 16))
    except zk.SessionRefused:
        pass
    else:
        raise AssertionError("a wrong password opens a session")
    with connect(cluster, cluster.size, session=session) as connection:
        connection.close()
    with connect(cluster, 1) as connection:
        connection.sync()
        for path in [*ephemerals, "/kinds/of-old-session"]:
            assert connection.exists(path) is None, f"{path} outlives its session"
        connection.close()


def write_everything(cluster, restarts):
    """Writes to a cluster while members are stopped and killed. Returns the session that stays, and its nodes."""
    chance = random.Random(7)
    with connect(cluster, 1) as connection:
        write_kinds(connection)
        session = connection.session
        write_acls(connection)
        write_quota(connection)
        write_multis(connection)
        end_some_sessions(cluster)
        ephemerals = [f"/kinds/{name}" for name in connection.children("/kinds")
                      if connection.exists(f"/kinds/{name}").ephemeral_owner == session[0]]
        ephemerals.append("/multi/e")
        write_bulk(connection, chance, BULK_NODES // 2)
    for round_number in range(restarts):
        victim = cluster.leader()
        cluster.kill(victim) if round_number % 2 == 0 else cluster.command("stop", victim)
        cluster.restart(victim)
        cluster.leader()
        with connect(cluster, victim) as connection:
            write_bulk(connection, chance, BULK_NODES // 2)
    with connect(cluster, 1, session=session) as connection:
        assert connection.exists(ephemerals[0]) is not None
    return session, ephemerals


# --- tests -------------------------------------------------------------------------------------


def there_and_back(size, restarts, settings, with_config):
    with contextlib.ExitStack() as stack:
        zookeeper = stack.enter_context(harness.Cluster("zookeeper", size=size, settings=settings))
        session, ephemerals = write_everything(zookeeper, restarts)
        before = walk(zookeeper, 1)
        zookeeper.kill_all()
        snapshots = check_every_snapshot(zookeeper)

        ours = stack.enter_context(harness.Cluster(size=size, settings=SETTINGS, start=False))
        source = zookeeper.member_dir(newest_member(zookeeper))
        imported = import_all(source, ours, with_config)
        assert imported["digests_checked"] > 0, "ZooKeeper's digests were looked at"
        last_zxid = int(imported["last_zxid"], 16)
        ours.start()
        check_same(before, walk(ours, 1))
        check_session(ours, session, ephemerals)
        last_zxid = check_writes(ours, last_zxid)
        # The next move begins with a session that Quorate has created.
        middle, our_session = end_with_a_session(ours)
        for back_size in sorted({1, size}):
            last_back = check_way_back(ours, back_size, middle, last_zxid, our_session)
        return f"{len(before)} nodes, {snapshots} snapshots, zxid 0x{last_zxid:x}, 0x{last_back:x}"


def written_here():
    """Tests that data that clients have written to Quorate only is the same in ZooKeeper after the export."""
    with harness.Cluster(size=3, settings=OUR_SETTINGS) as ours:
        session, ephemerals = write_everything(ours, 3)
        before, our_session = end_with_a_session(ours)
        for path in ephemerals:
            assert before[path][3].ephemeral_owner == session[0], path
        last_zxid = max(max(stat.czxid, stat.mzxid, stat.pzxid) for *_, stat in before.values())
        for size in (1, 3):
            last_back = check_way_back(ours, size, before, last_zxid, our_session)
        return f"{len(before)} nodes, zxid 0x{last_zxid:x}, 0x{last_back:x}"


def end_with_a_session(ours):
    """Opens a session with the ephemeral node /kinds/ours, and stops the Quorate cluster. Returns (its tree, the
    session)."""
    with connect(ours, 1) as connection:
        connection.create("/kinds/ours", b"", zk.EPHEMERAL)
        session = connection.session
    nodes = walk(ours, 1)
    ours.command("down")
    return nodes, session


def check_way_back(ours, size, expected, last_zxid, session):
    """Checks that ZooKeeper starts from an export, and that its data can then be imported once more."""
    with harness.Cluster("zookeeper", size=size, settings=SETTINGS, start=False) as zookeeper:
        exported = export_all(ours.member_dir(newest_of_ours(ours)), zookeeper)
        assert exported["nodes"] == len(expected), exported
        zookeeper.start()
        check_same(expected, walk(zookeeper, size))
        digests = zookeeper.log(1) + zookeeper.log(size)
        assert "igest" not in digests, f"ZooKeeper finds the digest wrong:\n{digests[-2000:]}"
        last_zxid = check_writes(zookeeper, last_zxid)
        with connect(zookeeper, 1) as connection:
            assert connection.exists("/kinds/ours").ephemeral_owner == session[0]
            connection.close()
        again = walk(zookeeper, 1)
        zookeeper.kill_all()
        with harness.Cluster(size=1, settings=SETTINGS, start=False) as last:
            import_all(zookeeper.member_dir(newest_member(zookeeper)), last)
            last.start()
            check_same(again, walk(last, 1))
    return last_zxid


def compressed_snapshots():
    """Tests a server that compresses its snapshots."""
    names = []
    for method in ("gz", "snappy"):
        settings = SNAPSHOT_SETTINGS + (f"snapshot.compression.method={method}",)
        with harness.Cluster("zookeeper", size=1, settings=settings) as zookeeper:
            with connect(zookeeper, 1) as connection:
                write_bulk(connection, random.Random(1), 1000)
            zookeeper.command("stop", 1)
            zookeeper.restart(1)
            before = walk(zookeeper, 1)
            zookeeper.kill_all()
            with harness.Cluster(size=1, settings=SETTINGS, start=False) as ours:
                names.append(os.path.basename(import_all(zookeeper.member_dir(1), ours)["snapshot"]))
                ours.start()
                check_same(before, walk(ours, 1))
    assert names[0].endswith(".gz") and names[1].endswith(".snappy"), names
    return ", ".join(names)


def log_apart():
    """Tests a server with a dataLogDir beside its dataDir."""
    with contextlib.ExitStack() as stack:
        zookeeper = stack.enter_context(harness.Cluster("zookeeper", size=1, start=False))
        log_dir = os.path.join(zookeeper.parent, "apart")
        zookeeper.settings = [*SNAPSHOT_SETTINGS, f"dataLogDir={log_dir}"]
        zookeeper.start()
        with connect(zookeeper, 1) as connection:
            write_bulk(connection, random.Random(3), 1500)
            connection.create("/last", b"in the log only")
            connection.close()
        before = walk(zookeeper, 1)
        zookeeper.kill_all()
        data_dir = zookeeper.member_dir(1)
        assert not [name for name in os.listdir(os.path.join(data_dir, "version-2")) if "log." in name]

        # The snapshots alone are incomplete data, and must not be imported as complete.
        result = subprocess.run([CLI, "import", "--zookeeper-data", data_dir, "--check"],
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                                check=False)
        assert result.returncode == 1 or "warning:" in result.stderr, result.stdout + result.stderr
        assert "--zookeeper-log" in result.stderr, result.stderr

        ours = stack.enter_context(harness.Cluster(size=1, settings=SETTINGS, start=False))
        imported = import_all(data_dir, ours, source_log=log_dir)
        assert imported["transactions"] > 0 and not imported["warnings"], imported
        ours.start()
        check_same(before, walk(ours, 1))
        return f"{len(before)} nodes, {imported['transactions']} transactions"


def refusals():
    """Tests that data that cannot be imported or exported is refused with a reason, and that no directory is left from
    which a server starts."""
    with harness.Cluster("zookeeper", size=1, settings=SETTINGS) as zookeeper:
        with connect(zookeeper, 1) as connection:
            write_bulk(connection, random.Random(2), 300)
        zookeeper.kill_all()
        source = os.path.join(zookeeper.member_dir(1), "version-2")
        log = max((name for name in os.listdir(source) if name.startswith("log.")),
                  key=lambda name: int(name[4:], 16))
        with open(os.path.join(source, log), "r+b") as file:
            file.seek(3000)
            byte = file.read(1)
            file.seek(3000)
            file.write(bytes([byte[0] ^ 1]))
        target = os.path.join(zookeeper.parent, "target")
        error = quorate("import", "--zookeeper-data", zookeeper.member_dir(1), "--data-dir", target,
                        "--member", 1, "--members", 1, status=1)
        assert log in error and "damaged at offset" in error, error
        assert not os.path.exists(target)
        error = quorate("import", "--zookeeper-data", zookeeper.member_dir(1), status=2)
        assert "--config" in error, error
        error = quorate("export", "--zookeeper-snapshot", target, zookeeper.member_dir(1), status=1)
        assert zookeeper.member_dir(1) in error, error
        assert not os.path.exists(target)


def run(runner, server):
    if server != "quorate":
        return
    label = "interop zookeeper data:"

    def run_test(name, function, *arguments):
        runner.run(f"{label} {name}", harness.begun_anew, function, *arguments)

    run_test("three servers, imported and exported", there_and_back, 3, 3, SNAPSHOT_SETTINGS, True)
    run_test("one server, imported and exported", there_and_back, 1, 2, SNAPSHOT_SETTINGS, False)
    run_test("written to Quorate, exported and imported", written_here)
    run_test("compressed snapshots", compressed_snapshots)
    run_test("a separate log directory", log_apart)
    run_test("refusals", refusals)
