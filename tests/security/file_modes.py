# SPDX-License-Identifier: Apache-2.0
"""Tests that only their owner can read the files of servers and backups, and that no answer, log or error shows a
password."""

import contextlib
import os
import re
import shutil
import stat
import subprocess
import tempfile

import certificates
import harness
import quorate_cli
import zkwire as zk

WRITES = 300
SECRET = "hunter2"
# "admin:hunter2"; no test authenticates with it.
DIGEST = "admin:9mXE0lSf2ECRm1VHZd0oNtPXzMY="


@contextlib.contextmanager
def no_umask():
    """Lets files be as open as the programs make them."""
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def open_paths(top):
    """Returns {path: mode} of what others than the owner can reach below a directory, and of that directory."""
    paths = [top, *(os.path.join(where, name) for where, directories, files in os.walk(top)
                    for name in (*directories, *files))]
    modes = {path: stat.S_IMODE(os.lstat(path).st_mode) for path in paths}
    return {path: oct(mode) for path, mode in modes.items() if mode & 0o077}


def write(address):
    with zk.Connection(address) as connection:
        connection.create("/a", b"x")
        for _ in range(WRITES):
            connection.set("/a", b"x" * 1000)


def grpc(cluster):
    return cluster.command("grpc")


def test_data_and_backups_are_the_owners_alone():
    with tempfile.TemporaryDirectory(prefix="quorate-modes-") as parent, no_umask():
        data, log = os.path.join(parent, "made/data"), os.path.join(parent, "made/log")
        with harness.Cluster("quorate", 1, ["snapCount=100", "logSegmentBytes=65536", f"dataDir={data}",
                                            f"dataLogDir={log}"]) as cluster:
            write(cluster.address(1))
            cluster.wait_until("there is a checkpoint", lambda: os.path.exists(f"{data}/checkpoints/current"))
            assert os.listdir(f"{log}/log")
            backup = os.path.join(parent, "backup")
            done = quorate_cli.run("backup", "--server", grpc(cluster), backup)
            assert done.returncode == 0, done.stderr
            done = quorate_cli.run("restore", backup, "--data-dir", f"{parent}/restored", "--member", 1, "--members", 1)
            assert done.returncode == 0, done.stderr
            # Log rotation: the log is made again as it was, and not more open.
            server_log = os.path.join(cluster.member_dir(1), "server.log")
            os.chmod(server_log, 0o640)
            os.rename(server_log, server_log + ".1")
            subprocess.run(["kill", "-HUP", str(cluster.pids()[0])], check=True)
            cluster.wait_until("the log is there again", lambda: os.path.exists(server_log))
            cluster.wait_until("its mode is set", lambda: stat.S_IMODE(os.stat(server_log).st_mode) == 0o640)
            cluster.check_alive()
        found = {**open_paths(f"{parent}/made"), **open_paths(backup), **open_paths(f"{parent}/restored")}
        assert not found, found
        done = quorate_cli.run("export", f"{parent}/restored", "--zookeeper-snapshot", f"{parent}/exported")
        assert done.returncode == 0, done.stderr
        assert not open_paths(f"{parent}/exported")


def test_open_directories_and_keys_cause_one_warning_with_the_repair():
    with tempfile.TemporaryDirectory(prefix="quorate-modes-") as parent:
        authority = certificates.Authority(parent)
        key = authority.issue("server", "server", "/CN=server")[2]
        data = os.path.join(parent, "data")
        os.mkdir(data)
        os.chmod(data, 0o755)
        os.chmod(key, 0o644)
        settings = [f"dataDir={data}", f"ssl.keyStore.location={key}", f"ssl.trustStore.location={authority.certificate}",
                    "client.portUnification=true"]
        with harness.Cluster("quorate", 1, settings) as cluster:
            warnings = re.findall(r"other users of this machine can reach (\S+) \(mode (\d+)\).*; run (.*)", cluster.log(1))
            assert warnings == [(data, "755", f"chmod 700 {data}"), (key, "644", f"chmod o-rwx {key}")], warnings
            assert stat.S_IMODE(os.stat(data).st_mode) == 0o755  # it is not changed
            for _, _, repair in warnings:
                subprocess.run(repair.split(), check=True)
            size = len(cluster.log(1))
            cluster.restart(1)
            assert "other users of this machine" not in cluster.log(1)[size:], cluster.log(1)


def test_no_answer_log_or_process_list_shows_a_password():
    if shutil.which("openssl") is None:
        raise harness.Skipped("there is no openssl")
    with tempfile.TemporaryDirectory(prefix="quorate-modes-") as parent:
        authority = certificates.Authority(parent)
        key, certificate, _ = authority.issue("server", "server", "/CN=server")
        store = os.path.join(parent, "server.p12")
        certificates.run("openssl", "pkcs12", "-export", "-inkey", key, "-in", certificate, "-passout", f"pass:{SECRET}",
                         "-out", store)
        settings = ["client.portUnification=true", f"ssl.keyStore.location={store}", f"ssl.keyStore.password={SECRET}",
                    f"ssl.trustStore.location={authority.certificate}", f"ssl.trustStore.password={SECRET}",
                    f"DigestAuthenticationProvider.superDigest={DIGEST}", f"sasl.pasword={SECRET}"]
        environment = {"SERVER_JVMFLAGS": f"-Dzookeeper.ssl.trustStore.password={SECRET}"}
        with harness.Cluster("quorate", 1, settings, environment=environment) as cluster:
            words = ("conf", "cons", "dump", "envi", "mntr", "srvr", "stat", "wchs", "wchc", "wchp", "dirs")
            texts = {word: zk.four_letter(cluster.address(1), word) for word in words}
            assert texts["conf"].startswith("clientPort=") and texts["envi"], texts
            with open(f"/proc/{cluster.pids()[0]}/cmdline", "rb") as file:
                texts["its command line"] = file.read().decode()
            subprocess.run(["kill", "-HUP", str(cluster.pids()[0])], check=True)
            cluster.wait_until("the file is checked", lambda: "its changes take effect" in cluster.log(1))
            texts["the log"] = cluster.log(1)
            assert "sasl.pasword: not a key" in texts["the log"]
        for line in (f"ssl.keyStore.password=\n{SECRET}", f"ssl.keyStore.password={SECRET}\\u0041", SECRET,
                     f"ssl.keyStore.password={SECRET}x", f"ssl.keystore.pasword={SECRET}",
                     f"ssl.quorum.keystore.pasword={SECRET}"):
            config = os.path.join(parent, "zoo.cfg")
            with open(config, "w", encoding="ascii") as file:
                file.write("\n".join([f"dataDir={parent}/data", "clientPort=1", *settings[:-1], line]) + "\n")
            program = os.environ.get("QUORATED") or harness.SERVERS["quorate"]
            done = subprocess.run([program, config], capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 2, done.stdout
            texts[f"the error about {line!r}"] = done.stdout + done.stderr
        for name, text in texts.items():
            for secret in (SECRET, DIGEST.split(":")[1]):
                assert secret not in text, f"{name} shows {secret}:\n{text}"
