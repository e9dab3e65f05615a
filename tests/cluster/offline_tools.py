# SPDX-License-Identifier: Apache-2.0
"""Tests the tools for directories of stopped members: they make directories from records, read them, and
put them aside, so that the other members fill them again."""

import json
import os
import re
import signal
import subprocess
import time

import harness
import zkwire as zk

QUORATE = os.path.join(harness.ROOT, ".bazel/opt-bin/tools/quorate")
MAKE_MEMBER = os.path.join(harness.ROOT, ".bazel/opt-bin/tests/cluster/make_member")
LARGE_ZXID = 0x500000123
# The sizes of the heads of a log segment and of a record in it.
SEGMENT_HEADER_BYTES, RECORD_HEADER_BYTES = 4096, 32
NODES = 300
WAIT_SECONDS = 30
RECOVERED = "counts as a member again"
# How many writes only a leader has, and how often the test tries that: the leader may be deposed too early.
TAIL, ATTEMPTS = 50, 5


def _require_quorate(server):
    if server != "quorate":
        raise harness.Skipped("about our own directories")


def _program(variable, path):
    path = os.environ.get(variable, path)
    assert os.access(path, os.X_OK), f"{path} is missing: bazel build --config=opt //tools:quorate //tests/cluster:all"
    return path


def _run(*command, status=0):
    """Runs a program, which has to end with `status`. Returns its standard output and error together."""
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    assert result.returncode == status, (f"{' '.join(command)} ended with {result.returncode}, not "
                                         f"{status}:\n{result.stdout}")
    return result.stdout


def _quorate(*arguments, status=0):
    return _run(_program("QUORATE", QUORATE), *arguments, status=status)


def _apart(*arguments, status=0):
    """Runs the command line, which has to end with `status`. Returns (standard output, standard error)."""
    result = subprocess.run([_program("QUORATE", QUORATE), *map(str, arguments)], stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == status, (f"quorate {' '.join(map(str, arguments))} ended with "
                                         f"{result.returncode}, not {status}:\n{result.stdout}{result.stderr}")
    return result.stdout, result.stderr


def _contents(directory):
    """Returns {path: (bytes, time of change)} of all files below a directory except LOCK, into which each program
    that locks the directory writes its process id."""
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
    """Flips a bit of the first record. Returns the path of the segment."""
    log = os.path.join(directory, "log")
    segment = os.path.join(log, min(os.listdir(log)))
    with open(segment, "r+b") as file:
        file.seek(SEGMENT_HEADER_BYTES + RECORD_HEADER_BYTES)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    return segment


def _refusal(server, cluster, member):
    """Starts a member that must refuse to start. Returns its output."""
    server = cluster.environment.get("QUORATED", harness.SERVERS[server])
    return _run(server, os.path.join(cluster.member_dir(member), "zoo.cfg"), status=3)


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
            # Member directories that were made by the tool keep their data after a restart.
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
        report = json.loads(_apart("verify", directory, "--json", status=1)[0])
        problem = next(finding for finding in report["findings"] if finding["problem"])
        assert (problem["file"], problem["offset"]) == (segment, SEGMENT_HEADER_BYTES), report
        dump = _quorate("log", "dump", directory, status=1)
        assert f"-- damage: {segment}" in dump, dump[:2000]
        tree = json.loads(_quorate("snapshot", "dump", directory, "--json", "--path", "/before"))
        assert tree["znodes"][0]["path"] == "/before", tree["head"]
        assert _contents(directory) == before, "a command that only reads has changed a file"

        message = _quorate("rebuild", directory, status=1)
        assert "CHECK FIRST" in message and "--yes" in message, message
        assert _contents(directory) == before, "the command did not wait for a confirmation"
        _quorate("rebuild", directory, "--yes")
        begin = len(cluster.log(damaged))
        cluster.restart(damaged)
        deadline = time.monotonic() + WAIT_SECONDS
        while RECOVERED not in cluster.log(damaged)[begin:]:
            assert time.monotonic() < deadline, f"member {damaged} was not filled again"
            time.sleep(0.05)
        # Now a majority needs this member.
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


def _change_some(cluster):
    with zk.Connection(cluster.address(1), timeout=WAIT_SECONDS) as connection:
        connection.create("/made/new", b"\x1b[2J")
        connection.set("/made/a", b"changed")
        connection.close()


def alone_trees_of_stopped_members_and_backups_are_compared(server):
    _require_quorate(server)
    with harness.Cluster(server, size=1, settings=["snapCount=2"], start=False) as cluster:
        directory = cluster.member_dir(1)
        twin = os.path.join(cluster.parent, "twin")
        for path in (directory, twin):
            _run(_program("MAKE_MEMBER", MAKE_MEMBER), path, "1", "1", "20")
        before = _contents(twin)
        assert _apart("snapshot", "diff", directory, twin) == ("", ""), "equal trees print nothing"
        output, errors = _apart("snapshot", "diff", directory, twin, "--json")
        assert json.loads(output) == {"differences": [], "same": True} and not errors, (output, errors)

        cluster.start()
        _change_some(cluster)
        backup = os.path.join(cluster.parent, "backup")
        _apart("--server", f"{harness.HOST}:{cluster.ports.base + 101}", "backup", backup)
        message = _apart("snapshot", "diff", directory, twin, status=1)[1]
        assert "running server" in message and directory in message, message
        cluster.command("down")

        output, errors = _apart("snapshot", "diff", twin, backup, status=1)
        assert errors.startswith("quorate snapshot diff: the trees differ in "), errors
        assert "\x1b" not in output, "bytes of a znode reach the terminal"
        for text in ("\nonly in b: znode /made/new\n", "\nznode /made/a\n",
                     '    data: "from records" in a, "changed" in b\n', "    version: 0 in a, 1 in b\n"):
            assert text in output, f"{text!r} is missing:\n{output}"
        document = json.loads(_apart("snapshot", "diff", twin, backup, "--json", status=1)[0])
        assert not document["same"], document
        found = {(one["kind"], one.get("name")): one for one in document["differences"]}
        assert len(found) == len(document["differences"]) == int(errors.split(" in ")[1].split()[0])
        assert found["znode", "/made/new"]["only_in"] == "b", found
        assert found["znode", "/made/a"]["fields"]["data"] == {"a": '"from records"', "b": '"changed"'}, found
        assert found["head", None]["fields"]["zxid"]["a"] == "0x14", found
        # Compares in the other direction.
        document = json.loads(_apart("snapshot", "diff", backup, twin, "--json", status=1)[0])
        turned = {(one["kind"], one.get("name")): one for one in document["differences"]}
        assert turned.keys() == found.keys() and turned["znode", "/made/new"]["only_in"] == "a", turned
        assert _contents(twin) == before, "a command that only reads has changed a file"

        nowhere = os.path.join(cluster.parent, "nowhere")
        assert nowhere in _apart("snapshot", "diff", twin, nowhere, status=1)[1]
        _apart("snapshot", "diff", twin, status=2)
        return f"{len(found)} differences"


def alone_the_log_of_a_stopped_member_is_dumped_for_programs(server):
    _require_quorate(server)
    with harness.Cluster(server, size=1) as cluster:
        with zk.Connection(cluster.address(1)) as connection:
            session = connection.session[0]
            connection.create("/dumped", b"text")
            connection.create("/dumped/s-", b"\xff\x00", zk.EPHEMERAL_SEQUENTIAL)
            connection.set("/dumped", b"\x1b[2J", 0)
            connection.call(zk.MULTI, zk.request_multi([
                (zk.CREATE, zk.request_create("/dumped/m", b"")),
                (zk.DELETE, zk.request_delete("/dumped/m", -1))]))
            connection.close()
        cluster.command("down")
        directory = cluster.member_dir(1)
        before = _contents(directory)
        output, errors = _apart("log", "dump", directory, "--json")
        assert not errors and "\x1b" not in output, errors
        document = json.loads(output)
        items = document["items"]
        assert document["base_index"] == 0 and [item["index"] for item in items] == list(range(1, len(items) + 1))
        assert all(a["offset"] + a["bytes"] < b["offset"] and a["term"] <= b["term"]
                   for a, b in zip(items, items[1:])), items
        mine = [item for item in items if item.get("session") == hex(session)]
        assert [item["kind"] for item in mine] == ["createSession", *["request"] * 4, "closeSession"], mine
        create, numbered, change, multi = (item["operations"] for item in mine[1:-1])
        assert create == [{"operation": "create", "path": "/dumped", "mode": "persistent", "data_bytes": 4}], create
        assert numbered[0]["mode"] == "ephemeral sequential" and numbered[0]["path"] == "/dumped/s-", numbered
        assert change == [{"operation": "setData", "path": "/dumped", "version": 0, "data_bytes": 4}], change
        assert [one["operation"] for one in multi] == ["create", "delete"] and mine[4]["multi"], multi

        first, last = mine[1]["index"], mine[3]["index"]
        part = json.loads(_apart("log", "dump", directory, "--json", "--data", "--from", first, "--to", last)[0])
        assert [item["index"] for item in part["items"]] == list(range(first, last + 1)), part
        data = [item["operations"][0] for item in part["items"] if "operations" in item]
        assert (data[0]["data"], data[1]["data_hex"], data[2]["data_hex"]) == ("text", "ff00", "1b5b324a"), data
        # Operations of a transaction have lines of their own.
        lines = [line for line in _apart("log", "dump", directory)[0].splitlines() if not line.startswith(" ")]
        assert len(lines) == len(items) and lines[first - 1].endswith("create /dumped (4 bytes)"), lines
        assert _contents(directory) == before, "a command that only reads has changed a file"
        return f"{len(items)} entries"


def _tail_of_a_deposed_leader(cluster):
    """Sends writes to a leader whose followers were killed, so that only the leader has them. Returns the stopped leader;
    0 if no write reached its log."""
    leader = cluster.leader()
    pids = cluster.pids()
    with zk.Connection(cluster.address(leader), timeout=WAIT_SECONDS) as connection:
        connection.create("/common-", b"", zk.SEQUENTIAL)
        for member in cluster.others(leader):
            os.kill(pids[member - 1], signal.SIGKILL)
        for i in range(TAIL):
            connection.submit(zk.CREATE, zk.request_create(f"/never-{i}", b""))
        cluster.command("stop", leader)
    log = json.loads(_apart("log", "dump", cluster.member_dir(leader), "--json")[0])["items"]
    paths = [one.get("path", "") for item in log for one in item.get("operations", ())]
    if any(path.startswith("/never-") for path in paths):
        return leader
    cluster.command("start")
    return 0


def alone_an_export_says_what_a_deposed_leader_cannot_know(server):
    _require_quorate(server)
    with harness.Cluster(server) as cluster:
        deposed = next(filter(None, (_tail_of_a_deposed_leader(cluster) for _ in range(ATTEMPTS))), 0)
        assert deposed, f"in {ATTEMPTS} attempts no write got into the leader's log only"
        others = [member for member in cluster.numbers() if member != deposed]
        cluster.command("launch", others[0])
        cluster.restart(others[1])
        with zk.Connection(cluster.address(others[0]), timeout=WAIT_SECONDS) as connection:
            connection.create("/kept")
            connection.close()
        backup = os.path.join(cluster.parent, "backup")
        _apart("--server", ",".join(f"{harness.HOST}:{cluster.ports.base + 100 + member}" for member in others),
               "backup", backup)
        cluster.command("down")

        logs = {member: json.loads(_apart("verify", cluster.member_dir(member), "--json")[0])
                for member in cluster.numbers()}
        ends = {member: (log["log"]["last_term"], log["log"]["last_index"]) for member, log in logs.items()}
        best = max(others, key=lambda member: ends[member])
        assert ends[best] > ends[deposed], f"the rule chooses the deposed leader {deposed}: {ends}"
        exported = {}
        for name, source in (("deposed", cluster.member_dir(deposed)), ("best", cluster.member_dir(best)),
                             ("backup", backup)):
            target = os.path.join(cluster.parent, f"export-{name}")
            output, errors = _apart("export", "--zookeeper-snapshot", target, source, "--json")
            facts = json.loads(output)
            assert facts["warnings"] == re.findall("^warning: (.*)$", errors, re.MULTILINE), errors
            with open(facts["snapshot"], "rb") as file:
                exported[name] = (file.read(), facts)
        content, facts = exported["deposed"]
        assert b"/never-" in content and b"/kept" not in content
        assert facts["open_entries"] == logs[deposed]["committed"]["open_entries"] > 0, facts
        assert facts["last_term"] == ends[deposed][0], facts
        assert f"the last {facts['open_entries']} entries" in facts["warnings"][0], facts
        for name in ("best", "backup"):
            content, facts = exported[name]
            assert b"/kept" in content and b"/never-" not in content, name
        assert facts["open_entries"] == 0 and not facts["warnings"], facts
        return f"{exported['deposed'][1]['open_entries']} entries of member {deposed} are open"
