"""What is done to the directories of members that are stopped: made from records, looked through,
and set aside to be filled again by the others."""

import json
import os
import subprocess
import time

import harness
import zkwire as zk

QUORATE = os.path.join(harness.ROOT, ".bazel/opt-bin/tools/quorate")
MAKE_MEMBER = os.path.join(harness.ROOT, ".bazel/opt-bin/tests/cluster/make_member")
LARGE_ZXID = 0x500000123
# Of a segment of the log, and of a record in it.
SEGMENT_HEADER_BYTES, RECORD_HEADER_BYTES = 4096, 32
NODES = 300
WAIT_SECONDS = 30
RECOVERED = "counts as a member again"


def _require_quorate(server):
    if server != "quorate":
        raise harness.Skipped("about our own directories")


def _program(variable, path):
    path = os.environ.get(variable, path)
    assert os.access(path, os.X_OK), f"{path} is missing: bazel build --config=opt //tools:quorate //tests/cluster:all"
    return path


def _run(*command, status=0):
    """Standard output and error of a program that ends with this exit status."""
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    assert result.returncode == status, (f"{' '.join(command)} ended with {result.returncode}, not "
                                         f"{status}:\n{result.stdout}")
    return result.stdout


def _quorate(*arguments, status=0):
    return _run(_program("QUORATE", QUORATE), *arguments, status=status)


def _contents(directory):
    """{path: (bytes, time of change)} of all files under a directory but LOCK, in which whoever may
    change something leaves its process id."""
    contents = {}
    for parent, _, names in os.walk(directory):
        for path in (os.path.join(parent, name) for name in names if name != "LOCK"):
            with open(path, "rb") as file:
                contents[path] = (file.read(), os.stat(path).st_mtime_ns)
    return contents


def _write(cluster, member, parent):
    with zk.Connection(cluster.address(member), timeout=WAIT_SECONDS) as connection:
        connection.create(parent)
        for i in range(NODES):
            connection.create(f"{parent}/{i}", b"x" * 100)
        connection.close()


def _damage_log(directory):
    """Turns a bit of the first record over; the path of the segment."""
    log = os.path.join(directory, "log")
    segment = os.path.join(log, min(os.listdir(log)))
    with open(segment, "r+b") as file:
        file.seek(SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    return segment


def _refusal(server, cluster, member):
    """What a member says that does not start."""
    server = cluster.environment.get("QUORATED", harness.SERVERS[server])
    return _run(server, os.path.join(cluster.member_dir(member), "zoo.cfg"), status=1)


def _serve_from_made_directories(server, size, zxid):
    cluster = harness.Cluster(server, size=size, start=False)
    with cluster:
        for member in cluster.numbers():
            _run(_program("MAKE_MEMBER", MAKE_MEMBER), cluster.member_dir(member), str(member),
                 str(size), hex(zxid))
        cluster.start()
        last = zxid
        for _ in range(2):
            for member in cluster.numbers():
                with zk.Connection(cluster.address(member)) as connection:
                    connection.sync()
                    assert connection.get("/made")[0] == b"from records"
                    assert "a" in connection.children("/made")
                    connection.create(f"/made/of-{member}-{last:x}")
                    stat = connection.exists(f"/made/of-{member}-{last:x}")
                    assert last < stat.czxid < zxid + 1000, f"zxid 0x{stat.czxid:x} after 0x{last:x}"
                    last = stat.czxid
                    connection.close()
            # Whatever was made is kept as by any other member.
            cluster.command("down")
            cluster.start()
        leader = cluster.leader()
        if size > 1:
            cluster.kill(leader)
            leader = cluster.leader()
        with zk.Connection(cluster.address(leader)) as connection:
            connection.sync()
            assert len([name for name in connection.children("/made") if name.startswith("of-")]) == 2 * size
            connection.close()
        return f"zxid 0x{zxid:x} to 0x{last:x}"


def alone_a_server_begins_with_a_tree_that_was_made_from_records(server):
    _require_quorate(server)
    return _serve_from_made_directories(server, 1, 20)


def alone_three_servers_begin_with_a_tree_of_a_large_zxid(server):
    _require_quorate(server)
    return _serve_from_made_directories(server, 3, LARGE_ZXID)


def alone_a_damaged_member_is_explained_put_aside_and_filled_again(server):
    _require_quorate(server)
    with harness.Cluster(server, settings=["snapCount=200"]) as cluster:
        _write(cluster, 1, "/before")
        damaged, home = cluster.followers()
        directory = cluster.member_dir(damaged)
        message = _run(_program("QUORATE", QUORATE), "verify", directory, status=1)
        assert "running server" in message, message
        cluster.command("stop", damaged)
        whole = _quorate("verify", directory)
        assert "whole: a server can start from it" in whole, whole

        segment = _damage_log(directory)
        message = _refusal(server, cluster, damaged)
        for text in (segment, "quorate verify", "quorate rebuild"):
            assert text in message, f"the refusal does not name {text}:\n{message}"
        before = _contents(directory)
        report = json.loads(_quorate("verify", directory, "--json", status=1).rpartition("\nquorate verify: ")[0])
        problem = next(finding for finding in report["findings"] if finding["problem"])
        assert (problem["file"], problem["offset"]) == (segment, SEGMENT_HEADER_BYTES), report
        dump = _quorate("log", "dump", directory, status=1)
        assert f"-- damage: {segment}" in dump, dump[:2000]
        tree = json.loads(_quorate("snapshot", "dump", directory, "--json", "--path", "/before"))
        assert tree["znodes"][0]["path"] == "/before", tree["head"]
        assert _contents(directory) == before, "looking has changed something"

        message = _quorate("rebuild", directory, status=1)
        assert "CHECK FIRST" in message and "--yes" in message, message
        assert _contents(directory) == before, "it did not wait for a yes"
        _quorate("rebuild", directory, "--yes")
        begin = len(cluster.log(damaged))
        cluster.restart(damaged)
        deadline = time.monotonic() + WAIT_SECONDS
        while RECOVERED not in cluster.log(damaged)[begin:]:
            assert time.monotonic() < deadline, f"member {damaged} was not filled again"
            time.sleep(0.05)
        # Now a majority needs it.
        cluster.kill(home)
        _write(cluster, damaged, "/after")
        cluster.restart(home)
        with zk.Connection(cluster.address(damaged)) as connection:
            connection.sync()
            for parent in ("/before", "/after"):
                assert len(connection.children(parent)) == NODES
            connection.close()
        cluster.command("down")
        for member in cluster.numbers():
            _quorate("verify", cluster.member_dir(member))
        return f"{len(dump.splitlines())} lines of a damaged log"
