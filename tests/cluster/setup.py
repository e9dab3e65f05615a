# SPDX-License-Identifier: Apache-2.0
"""Tests that mistakes in configurations and data directories are refused with a message that names them. Also tests
tools/cluster."""

import os
import re
import shutil
import subprocess
import time

import harness
import zkwire as zk

REFUSAL_SECONDS = 15


def _server(cluster):
    return cluster.environment.get("QUORATED", harness.SERVERS["quorate"])


def _require_quorate(server):
    if server != "quorate":
        raise harness.Skipped("about our own messages")


def _run_server(cluster, config):
    """Runs the server on `config` until it ends. Returns (exit status, all its output)."""
    try:
        result = subprocess.run([_server(cluster), config], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                timeout=REFUSAL_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode(errors="replace")
        raise AssertionError(f"the server runs on with a bad {config}:\n{output}") from None
    return result.returncode, result.stdout


def _write_config(cluster, lines, name="bad.cfg"):
    """Writes a configuration for member 1 with `lines` appended. Returns (path, number of the last line)."""
    directory = cluster.member_dir(1)
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "myid"), "w", encoding="ascii") as file:
        file.write("1\n")
    base = [f"dataDir={directory}", "tickTime=2000", f"clientPort={cluster.ports.base + 1}",
            f"grpcPort={cluster.ports.base + 101}", f"admin.serverPort={cluster.ports.base + 301}",
            "clientPortAddress=127.0.0.1"]
    path = os.path.join(cluster.parent, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(base + lines) + "\n")
    return path, len(base) + len(lines)


def alone_a_bad_configuration_line_is_refused_by_file_line_and_key(server):
    _require_quorate(server)
    lines = ("tickTime=two thousand", "tickTime=0", "tickTime=-5", "clientPort=99999", "clientPort=abc",
             "initLimit=", "syncLimit=5 # five", "maxClientCnxns=many", "grpcPort=70000",
             "electionTimeoutMs=soon", "heartbeatMs=0", "server.1=127.0.0.1", "server.x=127.0.0.1:1:2",
             "server.1=127.0.0.1:port:2", "jute.maxbuffer=1g", "maxSessionTimeout=-7",
             "admin.serverPort=http")
    with harness.Cluster(server, start=False) as cluster:
        for line in lines:
            key = line.partition("=")[0]
            path, number = _write_config(cluster, [line])
            status, output = _run_server(cluster, path)
            assert status != 0, f"{line}: exit status 0"
            assert status > 0, f"{line}: died of signal {-status}:\n{output}"
            for wanted in (os.path.basename(path), key, str(number)):
                assert wanted in output, f"{line}: the error does not name {wanted}:\n{output}"
    return f"{len(lines)} bad lines"


def alone_a_line_that_is_no_key_and_value_is_refused(server):
    _require_quorate(server)
    with harness.Cluster(server, start=False) as cluster:
        path, number = _write_config(cluster, ["# a comment is fine", "", "words"])
        status, output = _run_server(cluster, path)
        assert status > 0 and str(number) in output and "bad.cfg" in output, f"status {status}: {output}"


def alone_members_may_be_named_in_a_file_of_their_own(server):
    """ZooKeeper has this since 3.5. A server that ignored the file would be a cluster of one."""
    with harness.Cluster(server) as cluster:
        with zk.Connection(cluster.address(1)) as session:
            session.create("/before", b"")
            session.close()
        for member in cluster.numbers():
            cluster.kill(member)
            path = os.path.join(cluster.member_dir(member), "zoo.cfg")
            with open(path, encoding="utf-8") as file:
                lines = file.read().splitlines()
            with open(path + ".dynamic", "w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines if line.startswith("server."))
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines if not line.startswith("server."))
                file.write(f"dynamicConfigFile={path}.dynamic\n")
            cluster.restart(member)
        assert len(cluster.followers()) == 2
        with zk.Connection(cluster.address(3)) as session:
            assert session.exists("/before")
            session.close()


def alone_what_is_missing_is_named(server):
    _require_quorate(server)
    with harness.Cluster(server, start=False) as cluster:
        status, output = _run_server(cluster, os.path.join(cluster.parent, "not-there.cfg"))
        assert status > 0 and "not-there.cfg" in output, f"status {status}: {output}"
        path, _ = _write_config(cluster, [])
        with open(path, encoding="utf-8") as file:
            lines = [line for line in file.read().splitlines() if not line.startswith("dataDir")]
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        status, output = _run_server(cluster, path)
        assert status > 0 and "dataDir" in output, f"status {status}: {output}"
        base = cluster.ports.base
        peers = [f"server.{i}=127.0.0.1:{base + 200 + i}:{base + 400 + i}" for i in (1, 2, 3)]
        path, _ = _write_config(cluster, peers)
        os.unlink(os.path.join(cluster.member_dir(1), "myid"))
        status, output = _run_server(cluster, path)
        assert status > 0 and "myid" in output, f"status {status}: {output}"
        path, _ = _write_config(cluster, peers)
        with open(os.path.join(cluster.member_dir(1), "myid"), "w", encoding="ascii") as file:
            file.write("7\n")
        status, output = _run_server(cluster, path)
        assert status > 0 and "7" in output and "server." in output, f"status {status}: {output}"


def alone_an_unknown_key_is_a_warning(server):
    _require_quorate(server)
    with harness.Cluster(server, size=1, settings=["someUnknownKey=1"]) as cluster:
        assert "someUnknownKey" in cluster.log(1), f"no warning:\n{cluster.log(1)}"
        with zk.Connection(cluster.address(1)) as connection:
            connection.create("/serves")
            connection.close()


def alone_a_directory_in_use_is_refused(server):
    _require_quorate(server)
    with harness.Cluster(server, size=1) as cluster:
        second = os.path.join(cluster.parent, "second.cfg")
        with open(os.path.join(cluster.member_dir(1), "zoo.cfg"), encoding="utf-8") as file:
            text = file.read()
        # The second server has ports of its own, so that only the directory is in common.
        for offset in (0, 100, 300):
            port = cluster.ports.base + offset + 1
            text = text.replace(f"={port}\n", f"={port + 1}\n")
        with open(second, "w", encoding="utf-8") as file:
            file.write(text)
        status, output = _run_server(cluster, second)
        assert status > 0, f"exit status {status}: {output}"
        assert cluster.member_dir(1) in output, f"the error does not name the directory:\n{output}"
        with zk.Connection(cluster.address(1)) as connection:
            connection.create("/unharmed")
            connection.close()


def alone_a_port_in_use_is_refused(server):
    _require_quorate(server)
    with harness.Cluster(server, size=1) as cluster, harness.Cluster(server, start=False) as other:
        path, _ = _write_config(other, [f"clientPort={cluster.ports.base + 1}"])
        status, output = _run_server(other, path)
        assert status > 0, f"exit status {status}: {output}"
        assert str(cluster.ports.base + 1) in output, f"the error does not name the port:\n{output}"


def alone_a_directory_of_another_member_is_refused(server):
    _require_quorate(server)
    with harness.Cluster(server) as cluster:
        cluster.command("down")
        shutil.rmtree(cluster.member_dir(2))
        shutil.copytree(cluster.member_dir(1), cluster.member_dir(2))
        with open(os.path.join(cluster.member_dir(2), "myid"), "w", encoding="ascii") as file:
            file.write("2\n")
        config = os.path.join(cluster.member_dir(2), "zoo.cfg")
        with open(os.path.join(cluster.member_dir(1), "zoo.cfg"), encoding="utf-8") as file:
            text = file.read().replace(f"dataDir={cluster.member_dir(1)}", f"dataDir={cluster.member_dir(2)}")
        for offset in (0, 100, 300):
            port = cluster.ports.base + offset + 1
            text = text.replace(f"={port}\n", f"={port + 1}\n")
        with open(config, "w", encoding="utf-8") as file:
            file.write(text)
        status, output = _run_server(cluster, config)
        assert status > 0, f"exit status {status}: {output}"
        assert cluster.member_dir(2) in output and re.search(r"member\D{0,20}1", output), (
            f"the error does not name the directory and whose it is:\n{output}")


def alone_a_directory_of_another_cluster_is_refused(server):
    _require_quorate(server)
    with harness.Cluster(server) as ours, harness.Cluster(server) as theirs:
        for cluster in (ours, theirs):
            with zk.Connection(cluster.address(1)) as connection:
                connection.create("/whose", cluster.dir.encode())
                connection.close()
        theirs.command("down")
        ours.command("stop", 3)
        with open(os.path.join(ours.member_dir(3), "zoo.cfg"), encoding="utf-8") as file:
            config = file.read()
        shutil.rmtree(ours.member_dir(3))
        shutil.copytree(theirs.member_dir(3), ours.member_dir(3))
        with open(os.path.join(ours.member_dir(3), "zoo.cfg"), "w", encoding="utf-8") as file:
            file.write(config)
        log_path = os.path.join(ours.member_dir(3), "server.log")
        with open(log_path, "w", encoding="utf-8") as log:
            process = subprocess.Popen([_server(ours), os.path.join(ours.member_dir(3), "zoo.cfg")],
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + REFUSAL_SECONDS
            while process.poll() is None and "another cluster" not in ours.log(3):
                assert time.monotonic() < deadline, f"the member is not refused:\n{ours.log(3)}"
                assert "Mode:" not in _answer(ours.address(3), "srvr"), "the member serves in the wrong cluster"
                time.sleep(0.1)
            assert re.search("another cluster", ours.log(3)), f"the reason is not named:\n{ours.log(3)}"
        finally:
            process.kill()
            process.wait()
        with zk.Connection(ours.address(1)) as connection:
            assert connection.get("/whose")[0] == ours.dir.encode(), "the other cluster's data came in"
            connection.create("/goes-on")
            connection.close()


def alone_a_member_whose_clock_was_ahead_before_its_disk_was_lost_starts_itself_again(server):
    _require_quorate(server)
    with harness.Cluster(server) as cluster:
        directory = cluster.member_dir(3)

        def write_through(member, path):
            with zk.Connection(cluster.address(member)) as connection:
                connection.create(path)
                connection.close()

        cluster.command("stop", 3)
        with open(os.path.join(directory, "incarnation"), encoding="ascii") as file:
            ahead = int(file.read()) + 10**9
        with open(os.path.join(directory, "incarnation"), "w", encoding="ascii") as file:
            file.write(str(ahead))
        cluster.restart(3)
        write_through(3, "/ahead")
        cluster.kill(3)
        for name in os.listdir(directory):
            if name not in ("zoo.cfg", "myid", "server.log"):
                path = os.path.join(directory, name)
                if os.path.isdir(path):
                    shutil.rmtree(path)
                else:
                    os.unlink(path)
        cluster.restart(3)
        deadline = time.monotonic() + REFUSAL_SECONDS
        pid = cluster.pids()[2]
        while "starting again" not in cluster.log(3):
            assert pid and time.monotonic() < deadline, f"the member does not start itself again:\n{cluster.log(3)}"
            time.sleep(0.05)
        write_through(1, "/goes-on")
        while "Mode: follower" not in _answer(cluster.address(3), "srvr"):
            assert time.monotonic() < deadline, f"the member does not serve:\n{cluster.log(3)}"
            time.sleep(0.05)
        write_through(3, "/and-on")
        assert cluster.pids()[2] == pid, "the member has another pid"
        with open(os.path.join(directory, "incarnation"), encoding="ascii") as file:
            assert int(file.read()) > ahead, "the incarnation is not greater"


def _answer(address, word):
    try:
        return zk.four_letter(address, word)
    except zk.Closed:
        return ""


def alone_the_cluster_tool_keeps_its_promises(server):
    with harness.Cluster(server) as cluster, harness.Cluster(server, size=1) as other:
        base = cluster.ports.base
        assert cluster.command("hosts") == ",".join(f"127.0.0.1:{base + i}" for i in (1, 2, 3))
        assert cluster.command("grpc") == ",".join(f"127.0.0.1:{base + 100 + i}" for i in (1, 2, 3))
        assert all(pid > 0 for pid in cluster.pids())
        assert other.leader() == 1 and cluster.leader() in (1, 2, 3)
        again = cluster.command("start", check=False)
        assert again.returncode == 1 and "running already" in again.stderr, again.stderr
        victim = cluster.followers()[0]
        cluster.kill(victim)
        assert cluster.pids()[victim - 1] == 0
        assert len(cluster.command("status").splitlines()) == 4
        cluster.restart(victim)
        for bad in (["kill", "9"], ["kill"], ["nonsense"], ["start", "zero"], ["--set", "novalue"]):
            assert cluster.command(*bad, check=False).returncode == 2, bad
        with zk.Connection(cluster.address(victim)) as connection:
            connection.create("/survives-down")
            connection.close()
        cluster.command("down")
        assert cluster.pids() == [0, 0, 0]
        assert cluster.command("leader", check=False).returncode == 1
        assert other.leader() == 1, "a command for one cluster reached another"
        cluster.command("start")
        with zk.Connection(cluster.address(1)) as connection:
            connection.sync()
            assert connection.exists("/survives-down"), "down and start lost data"
            connection.close()
        cluster.command("wipe")
        assert not os.path.exists(cluster.dir)
