# SPDX-License-Identifier: Apache-2.0
"""Tests backups of running clusters, backups while connections and members fail, clusters that are restored
from backups, and the output of `quorate members` and `quorate status`."""

import json
import os
import pwd
import random
import re
import shutil
import socket
import subprocess
import threading
import time

import checkpoints
import crashes
import harness
import zkwire as zk

CLI = os.environ.get("QUORATE", os.path.join(harness.ROOT, ".bazel/opt-bin/tools/quorate"))
SETTINGS = ["snapCount=2000", "logSegmentBytes=65536"]
WAIT_SECONDS = 60
NODES = 300
# So large that a backup at the lowest rate takes some seconds.
LARGE_NODES, LARGE_BYTES = 60, 150_000
CUT_AFTER_BYTES = 2_000_000
# How many writes of each client are acknowledged before a backup begins.
WRITES_BETWEEN = 100
# How far above its backup's zxid a restored cluster begins.
ZXID_BUMP = 1 << 40
KILLS = 12
DAMAGES = 40


def _require_quorate(server):
    if server != "quorate":
        raise harness.Skipped("about our own backups")
    assert os.access(CLI, os.X_OK), f"{CLI} is missing: bazel build --config=opt //tools:quorate"


def _quorate(*arguments, status=0):
    """Runs the command line, which has to end with `status`. Returns (standard output, standard error)."""
    result = subprocess.run([CLI, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                            text=True, timeout=WAIT_SECONDS, check=False)
    assert result.returncode == status, (f"quorate {' '.join(map(str, arguments))} ended with "
                                         f"{result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout, result.stderr


def _grpc(cluster, member):
    return f"{harness.HOST}:{cluster.ports.base + 100 + member}"


def _servers(cluster):
    return ",".join(_grpc(cluster, member) for member in cluster.numbers())


def _backup(cluster, name, *options):
    """Makes a backup. Returns (path, the facts that the command prints)."""
    path = os.path.join(cluster.parent, name)
    output, _ = _quorate("--server", _servers(cluster), "--json", "backup", path, *options)
    facts = json.loads(output)
    assert facts["bytes"] == os.path.getsize(path)
    assert os.stat(path).st_mode & 0o777 == 0o600, "other users may read the backup"
    assert not os.path.exists(path + ".partial")
    return path, facts


def _restore(path, cluster, member, *options, status=0):
    output, errors = _quorate("--json", "restore", path, "--data-dir", cluster.member_dir(member), "--member",
                              member, "--members", ",".join(map(str, cluster.numbers())), *options,
                              status=status)
    return json.loads(output) if status == 0 else errors


def _fill(cluster, large=False):
    """Creates nodes of all kinds, and a session that stays. Returns its connection."""
    with zk.Connection(cluster.address(1)) as connection:
        connection.create("/tree", b"root of all")
        count, size = (LARGE_NODES, LARGE_BYTES) if large else (NODES, 500)
        for i in range(count):
            connection.create(f"/tree/{i}", os.urandom(size))
        connection.create("/tree/0/empty")
        connection.create("/tree/0/n-", b"numbered", zk.SEQUENTIAL)
        connection.set("/tree/1", b"changed")
        connection.delete("/tree/2")
        connection.close()
    owner = zk.Connection(cluster.address(1), checkpoints.SESSION_MS)
    owner.create("/tree/3/mine", b"", zk.EPHEMERAL)
    return owner


def _walk(cluster, member):
    """Returns {path: (data, stat)} of all nodes except those that describe the servers."""
    return {path: node for path, node in checkpoints._walk(cluster, member).items()
            if not path.startswith("/zookeeper")}


def _digests(cluster):
    output, _ = _quorate("--server", _servers(cluster), "--json", "status")
    return {server["digest"] for server in json.loads(output)["servers"]}


def alone_a_backup_under_load_has_every_write_that_was_acknowledged_before_it(server):
    _require_quorate(server)
    with harness.Cluster(server, settings=SETTINGS) as cluster:
        owner = _fill(cluster)
        writers_now, before, backups = [], {}, []

        def disturb():
            for round_number in range(3):
                for writer in writers_now:
                    writer.wait_for_writes(WRITES_BETWEEN)
                acknowledged = {path for writer in writers_now for path in list(writer.acknowledged)}
                path, facts = _backup(cluster, f"backup-{round_number}")
                backups.append((path, facts))
                before[path] = acknowledged

        class Watched(crashes.Writer):
            def __init__(self, *arguments):
                super().__init__(*arguments)
                writers_now.append(self)
        original, crashes.Writer = crashes.Writer, Watched
        try:
            writers = crashes.with_writers(cluster, "/load", disturb)
        finally:
            crashes.Writer = original
        longest = max(writer.longest_pause for writer in writers)
        assert not any(writer.disconnects for writer in writers), "a client lost its connection"
        # Makes one more backup, of an idle cluster, for comparison.
        quiet, facts = _backup(cluster, "quiet")
        tree = _walk(cluster, 1)
        assert len({facts["zxid"] for _, facts in backups}) == 3, backups
        session = owner.session
        with zk.Connection(cluster.address(1)) as connection:
            connection.create("/after-the-backups")
            cluster_zxid = connection.exists("/after-the-backups").czxid
            connection.close()
        facts_of = dict(backups + [(quiet, facts)])
        for path, wanted in list(before.items()) + [(quiet, set(tree))]:
            facts = facts_of[path]
            with harness.Cluster(server, start=False) as restored:
                made = [_restore(path, restored, member) for member in restored.numbers()]
                assert len({facts["cluster_id"] for facts in made}) == 1, made
                assert made[0]["cluster_id"] != facts["cluster_id"], "the new cluster has the id of the old one"
                assert int(made[0]["zxid"], 16) == int(facts["zxid"], 16) + ZXID_BUMP, made
                restored.start()
                assert _digests(restored) == {made[0]["digest"]}
                found = _walk(restored, 2)
                assert not wanted - found.keys(), f"lost: {sorted(wanted - found.keys())[:5]}"
                if path == quiet:
                    assert found == tree, "the trees differ"
                # The session of the old cluster goes on in the new cluster.
                with zk.Connection(restored.address(3), checkpoints.SESSION_MS, session=session) as resumed:
                    assert resumed.session == session
                    assert resumed.exists("/tree/3/mine").ephemeral_owner == session[0]
                    resumed.create("/new")
                    assert resumed.exists("/new").czxid > cluster_zxid, "zxids are used twice"
                    resumed.close()
                restored.kill(restored.leader())
                assert "/tree/3/mine" not in checkpoints._walk(restored, restored.leader())
        owner.abandon()
        sizes = ", ".join(str(len(wanted)) for wanted in before.values())
        return f"{sizes} writes acknowledged before, longest pause of a client {longest * 1000:.0f} ms"


class _Proxy:
    """A proxy in front of a member, which breaks a connection once, after a number of bytes of answers."""

    def __init__(self, address, cut_after):
        host, _, port = address.partition(":")
        self.target, self.left, self.cuts = (host, int(port)), cut_after, 0
        self.listener = socket.create_server((harness.HOST, 0))
        self.address = f"{harness.HOST}:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            member = socket.create_connection(self.target)
            threading.Thread(target=self._copy, args=(client, member, False), daemon=True).start()
            threading.Thread(target=self._copy, args=(member, client, True), daemon=True).start()

    def _copy(self, source, target, counts):
        try:
            while data := source.recv(65536):
                target.sendall(data)
                if counts and self.left > 0:
                    self.left -= len(data)
                    if self.left <= 0:
                        self.cuts += 1
                        break
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()


def alone_a_backup_whose_connection_breaks_goes_on_and_one_whose_member_dies_begins_anew(server):
    _require_quorate(server)
    with harness.Cluster(server, settings=SETTINGS) as cluster:
        _fill(cluster, large=True).abandon()
        proxy = _Proxy(_grpc(cluster, cluster.followers()[0]), CUT_AFTER_BYTES)
        broken = os.path.join(cluster.parent, "broken")
        # Writes in between, so that there are newer checkpoints when the client reconnects.
        command = [CLI, "--server", proxy.address, "backup", broken, "--rate", "1"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            checkpoints._make_nodes(cluster, 1, "/churn")
            checkpoints._write_until_cut(cluster, 1, "/churn")
            _, errors = process.communicate(timeout=WAIT_SECONDS)
        proxy.close()
        assert process.returncode == 0, errors
        assert proxy.cuts == 1, f"the connection was cut {proxy.cuts} times"
        assert errors.count("going on where it broke off") == 1, errors
        assert "starting from the beginning" not in errors, errors

        path = os.path.join(cluster.parent, "replaced")
        leaders = [cluster.leader()]
        command = [CLI, "--server", _servers(cluster), "--json", "backup", path, "--rate", "1"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            lines, victim = [], 0
            for line in process.stderr:
                lines.append(line)
                source = re.match(r"backup from .*:(\d+)(: +[1-9]\d*%)?", line)
                if source and source[2] and not victim:
                    victim = int(source[1]) - cluster.ports.base - 100
                    leaders.append(cluster.leader())
                    cluster.kill(victim)
            output, _ = process.communicate(timeout=WAIT_SECONDS)
        errors = "".join(lines)
        assert victim, f"no member was killed:\n{errors}"
        assert victim in cluster.others(*leaders) or len(set(leaders)) > 1, "the leader sent the backup"
        assert process.returncode == 0, errors
        assert "starting from the beginning" in errors, errors
        source = json.loads(output)["server"]
        assert source != _grpc(cluster, victim)
        steps = _check_progress(lines, source)
        cluster.restart(victim)
        for made in (broken, path):
            with harness.Cluster(server, size=1, start=False) as restored:
                _restore(made, restored, 1)
                restored.start()
                nodes = checkpoints._walk(restored, 1)
                assert len([node for node in nodes if node.startswith("/tree/")]) == LARGE_NODES + 2
        _kill_and_repeat(cluster)
        # No server is left: the command reports that soon.
        cluster.command("down")
        _, errors = _quorate("--server", "127.0.0.1:1", "status", status=1)
        assert "127.0.0.1:1" in errors or "none of the servers" in errors, errors
        return f"{proxy.cuts} connection cut, member {victim} killed, {steps} steps of progress"


def _kill_and_repeat(cluster):
    """A backup starts from the beginning when the command was killed, and has the writes made meanwhile."""
    path = os.path.join(cluster.parent, "killed")
    command = [CLI, "--server", _servers(cluster), "backup", path, "--rate", "1"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as process:
        shown = any(re.search(r": +[1-9]\d*%", line) for line in process.stderr)
        process.kill()
    assert shown and os.path.exists(path + ".partial") and not os.path.exists(path)
    with zk.Connection(cluster.address(1)) as connection:
        connection.create("/after-the-killed-one")
        written = connection.exists("/after-the-killed-one").czxid
        connection.close()
    _, facts = _backup(cluster, "killed")
    assert int(facts["zxid"], 16) >= written, f"{facts['zxid']}, before 0x{written:x}"


def _check_progress(lines, source):
    """Checks that the progress of a backup from `source` grows up to its full size. Returns the number of progress
    lines. At the lowest rate a backup takes longer than the time between two lines."""
    units = {"B": 1, "KiB": 2**10, "MiB": 2**20}
    shown = []
    for line in lines:
        step = re.fullmatch(rf"backup from {re.escape(source)}: +(\d+)%  ([0-9.]+) (B|KiB|MiB).*\n", line)
        if step:
            shown.append((int(step[1]), float(step[2]) * units[step[3]]))
    assert len(shown) >= 2, f"no progress is shown:\n{''.join(lines)}"
    assert all(before[0] <= after[0] and before[1] <= after[1]
               for before, after in zip(shown, shown[1:])), f"progress goes back: {shown}"
    assert shown[0][1] < shown[-1][1] and shown[0][0] < shown[-1][0] == 100, (
        f"the progress does not reach the full size: {shown}")
    return len(shown)


def alone_damage_and_full_directories_are_refused_and_a_killed_restore_can_be_repeated(server):
    _require_quorate(server)
    with harness.Cluster(server, size=1, settings=SETTINGS) as cluster:
        _fill(cluster, large=True).abandon()
        path, facts = _backup(cluster, "backup")
        _, errors = _quorate("--server", _servers(cluster), "backup", path, status=1)
        assert "there already" in errors, errors
        refused = _damage(path, cluster)
        errors = _restore(path, cluster, 1, status=1)
        assert cluster.member_dir(1) in errors, errors
        with harness.Cluster(server, size=1, start=False) as restored:
            kept = _restore(path, restored, 1, "--without-sessions")
            assert kept["sessions"] == 0
            restored.start()
            nodes = checkpoints._walk(restored, 1)
            assert "/tree/3" in nodes and "/tree/3/mine" not in nodes, sorted(nodes)[:20]
            assert nodes["/tree/3"][1].num_children == 0
        made = []
        for number, options in enumerate(((), ("--cluster-name", "other"))):
            output, _ = _quorate("--json", "restore", path, "--config", _config(cluster, number), *options)
            made.append(json.loads(output)["cluster_id"])
        assert made[0] != made[1], "--cluster-name makes no difference"
        _check_owners(path, cluster)
        return f"{refused} damaged files refused, {_kill_restores(server, path, facts)}"


def _config(cluster, number):
    """Writes the configuration of a standalone server with a directory of its own."""
    directory = os.path.join(cluster.parent, f"by-config-{number}")
    path = directory + ".cfg"
    with open(path, "w", encoding="ascii") as file:
        file.write(f"dataDir={directory}\nclientPort=1\n")
    return path


def _check_owners(path, cluster):
    """Checks that root restores a member's files for the user to whom the directories belong."""
    if os.geteuid() != 0:
        return
    user = pwd.getpwnam("nobody").pw_uid
    data, log = (os.path.join(cluster.parent, f"owned-{name}") for name in ("data", "log"))
    for directory in (data, log):
        os.mkdir(directory, 0o700)
        os.chown(directory, user, -1)
    for name, text in (("myid", "1\n"), ("zoo.cfg", "")):
        with open(os.path.join(data, name), "w", encoding="ascii") as file:
            file.write(text)
    _quorate("restore", path, "--data-dir", data, "--log-dir", log, "--member", 1, "--members", 1)
    owners = {os.path.join(parent, name): os.lstat(os.path.join(parent, name)).st_uid for directory in (data, log)
              for parent, directories, files in os.walk(directory) for name in (*directories, *files)}
    assert owners.pop(os.path.join(data, "zoo.cfg")) == 0, "a file of the administrator was given away"
    names = {os.path.basename(name) for name in owners}
    assert {"LOCK", "checkpoints", "hard_state", "identity", "incarnation", "log", "myid"} <= names, names
    assert set(owners.values()) == {user}, owners


def _damage(path, cluster):
    """Checks that every damaged or truncated file is refused, and that no directory is made of it."""
    with open(path, "rb") as file:
        whole = file.read()
    target = os.path.join(cluster.parent, "refused")
    bad = os.path.join(cluster.parent, "bad")
    chance = random.Random(1)
    for number in range(DAMAGES):
        damaged = bytearray(whole)
        if number % 4 == 0:
            del damaged[chance.randrange(12, len(whole)):]
        elif number % 4 == 1:
            damaged += b"x"
        else:
            damaged[chance.randrange(12, len(whole))] ^= 1 << chance.randrange(8)
        with open(bad, "wb") as file:
            file.write(damaged)
        _, errors = _quorate("restore", bad, "--data-dir", target, "--member", 1, "--members", 1, status=1)
        assert bad in errors and "offset" in errors, errors
        assert not os.path.exists(target), "a directory was made"
    with open(bad, "wb") as file:
        file.write(b"dataDir=/tmp\n" * 10)
    _, errors = _quorate("restore", bad, "--data-dir", target, "--member", 1, "--members", 1, status=1)
    assert "not a backup" in errors, errors
    return DAMAGES + 1


def _kill_restores(server, path, facts):
    chance = random.Random(2)
    whole = repeated = 0
    with harness.Cluster(server, size=1, start=False) as restored:
        directory = restored.member_dir(1)
        command = [CLI, "restore", path, "--data-dir", directory, "--member", "1", "--members", "1"]
        started = time.monotonic()
        _restore(path, restored, 1)
        takes = time.monotonic() - started
        for _ in range(KILLS):
            shutil.rmtree(directory, ignore_errors=True)
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as process:
                time.sleep(chance.uniform(0, takes))
                process.kill()
            again = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                   timeout=WAIT_SECONDS, check=False)
            if again.returncode != 0:  # the first command was killed after it had finished
                assert again.returncode == 1 and f"{directory}: is not empty" in again.stderr, again.stderr
                whole += 1
            else:
                repeated += 1
            restored.start()
            digests = _digests(restored)
            assert digests == {facts["digest"]}, f"{digests}, not {facts['digest']}"
            restored.command("down")
    return f"{KILLS} killed ({repeated} repeated in place, {whole} whole)"


def alone_the_command_line_shows_how_servers_and_members_do(server):
    _require_quorate(server)
    # The leader of this cluster does not change if a member is delayed for a moment.
    with harness.Cluster(server, settings=["electionTimeoutMs=2000"]) as cluster:
        with zk.Connection(cluster.address(1)) as connection:
            connection.create("/a", b"12345")
            leader = cluster.leader()
            output = json.loads(_quorate("--server", _servers(cluster), "--json", "status")[0])["servers"]
            assert [status["member"] for status in output] == list(cluster.numbers())
            for status in output:
                assert status["serving"] and status["leader"] == leader, status
                assert status["role"] == ("leader" if status["member"] == leader else "follower")
                assert status["disk_used_bytes"] > 0 and status["disk_free_bytes"] > 0, status
                assert len(status["cluster_id"]) == 32, status
            assert {status["sessions"] for status in output} <= {0, 1}
            connection.close()
        table = cluster.command("cli", "status").splitlines()
        assert len(table) == 5 and table[0].split()[:3] == ["SERVER", "MEMBER", "ROLE"], table
        assert table[4].startswith("The cluster version is "), table
        output = json.loads(_quorate("--server", _servers(cluster), "members", "--json")[0])
        assert output["from_leader"] and output["leader"] == leader, output
        for member in output["members"]:
            assert member["reachable"], member
            assert member["peer_address"] == f"127.0.0.1:{cluster.ports.base + 200 + member['id']}", member
        table = cluster.command("cli", "members").splitlines()
        assert len(table) == 4 and table[0].split()[:2] == ["MEMBER", "ROLE"], table
        down = cluster.followers()[0]
        cluster.kill(down)

        def noticed():
            seen = json.loads(_quorate("--server", _servers(cluster), "--json", "members")[0])["members"]
            return [member["id"] for member in seen if not member["reachable"]] == [down]
        checkpoints._wait_for("the member is shown as down", noticed)
        output, _ = _quorate("--server", _servers(cluster), "--json", "status", status=3)
        servers = json.loads(output)["servers"]
        assert ["error" in status for status in servers] == [i == down for i in cluster.numbers()], servers
        # A follower shows only its own view, and says so.
        follower = next(i for i in cluster.followers() if i != down)
        assert "knows by itself" in _quorate("--server", _grpc(cluster, follower), "members")[0]
        _, errors = _quorate("--server", _grpc(cluster, down), "status", status=1)
        assert "none of the servers answered" in errors, errors
        for arguments in (("status",), ("--server", "nonsense", "status"), ("backup",), ("restore", "x"),
                          ("no-such-command",), ()):
            _quorate(*arguments, status=2)
        # Without a majority there is no backup, and the command says so.
        cluster.kill(follower)

        def alone():
            result = subprocess.run([CLI, "--server", _grpc(cluster, leader), "status"], capture_output=True,
                                    stdin=subprocess.DEVNULL, timeout=WAIT_SECONDS, check=False)
            return result.returncode == 1  # the member answers, and knows no leader
        checkpoints._wait_for("the member knows no leader", alone)
        _, errors = _quorate("--server", _servers(cluster), "backup", os.path.join(cluster.parent, "none"),
                             status=1)
        assert "no server can make a backup" in errors and "no leader" in errors, errors
        for member in (down, follower):
            cluster.restart(member)
        _backup(cluster, "some")
