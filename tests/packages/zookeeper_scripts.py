# SPDX-License-Identifier: Apache-2.0
"""The package quorate-zookeeper-compat: ZooKeeper's scripts with their output and exit status, and the replacement of
ZooKeeper's own packages. The tests depend on each other, in their order."""

import glob
import os
import shutil
import signal
import subprocess
import time

from kazoo.client import KazooClient

import guide
import harness
import root as roots

BIN = "/usr/share/zookeeper/bin/"
BANNER = "ZooKeeper JMX enabled by default\nUsing config: "
OWN = "/srv/own"  # a server that zkServer.sh starts


def _script(machine, name, *words, **options):
    """Runs a script. Returns (exit status, standard output, standard error)."""
    result = machine.root.run(BIN + name, *words, check=False, **options)
    return result.returncode, result.stdout, result.stderr


def _write(machine, path, text):
    os.makedirs(os.path.dirname(machine.root.file(path)), exist_ok=True)
    with open(machine.root.file(path), "w", encoding="utf-8") as file:
        file.write(text)


def _await_status(machine, *words):
    """Waits until a server that was started serves. Returns the output of zkServer.sh status."""
    deadline = time.monotonic() + harness.WAIT_SECONDS
    while True:
        status, output, errors = _script(machine, "zkServer.sh", *words)
        if status == 0:
            return output
        assert time.monotonic() < deadline, output + errors
        time.sleep(0.2)


def the_scripts_work_on_the_service(machine):
    machine.install("quorate-server", "quorate-tools", "quorate-zookeeper-compat")
    root = machine.root
    assert root.output("readlink", "-f", "/etc/zookeeper/conf") == "/etc/quorate"
    assert root.output("readlink", "-f", "/lib/systemd/system/zookeeper.service").endswith("/system/quorate.service")
    with roots.Service(root) as service:
        service.await_report("STATUS=serving alone")
        status, output, errors = _script(machine, "zkServer.sh", "status")
        assert errors == BANNER + "/etc/zookeeper/conf/zoo.cfg\n", errors
        assert output == "Client port found: 2181. Client address: 127.0.0.1. Client SSL: false.\nMode: standalone\n", output
        assert status == 0
        for words in (("status",), ("stop",), ("print-cmd",)):
            status, output, errors = _script(machine, "zkServer.sh", *words, user="nobody")
            assert (status, output) == (1, ""), f"{words}: {output}"
            assert errors.endswith("zkServer.sh: cannot read /etc/zookeeper/conf/zoo.cfg; run as root or as a member of group "
                                   "quorate\n"), errors
        assert _script(machine, "zkServer.sh", "version", user="nobody")[0] == 0
        status, output, errors = _script(machine, "zkCli.sh", "-server", "localhost:2181", "ls", "/", user="nobody")
        assert status == 0 and "zkCli.sh: cannot read /etc/zookeeper/conf/zoo.cfg" in errors, output + errors
        assert _script(machine, "zkCli.sh", "-server", "localhost:2181", "create", "/typed", "x")[:2] == (
            0, "Connecting to localhost:2181\nCreated /typed\n")
        assert _script(machine, "zkCli.sh", "-timeout", "5000", "get", "/typed")[:2] == (0, "Connecting to localhost:2181\nx\n")
        assert _script(machine, "zkCli.sh", "-server", "localhost:2181/typed", "create", "/below")[0] == 0
        assert _script(machine, "zkCli.sh", "get", "/typed/below")[0] == 0
        assert _script(machine, "zkCli.sh", "get", "/missing")[0] == 1
        assert _script(machine, "zkCli.sh", text="ls /typed\n")[1].endswith("[below]\n")
    status, output, _ = _script(machine, "zkServer.sh", "status")
    assert (status, output.splitlines()[-1]) == (1, "Error contacting service. It is probably not running."), output


def tools_of_files_and_cron_jobs_have_zookeepers_exit_status(machine):
    for words, wanted in ((("zkCleanup.sh", "-n", "3"), 0), (("zkCleanup.sh", "-n", "2"), 1), (("zkCleanup.sh",), 1),
                          (("zkSnapShotToolkit.sh",), 2), (("zkSnapShotToolkit.sh", "-x", "file"), 2),
                          (("zkSnapShotToolkit.sh", "/none"), 1), (("zkTxnLogToolkit.sh",), 1), (("zkTxnLogToolkit.sh", "-h"), 0),
                          (("zkTxnLogToolkit.sh", "/none"), 2), (("zkTxnLogToolkit.sh", "-r", "/none"), 1)):
        status, output, errors = _script(machine, *words)
        assert status == wanted, f"{words}: {status}\n{output}{errors}"
    status, output, errors = _script(machine, "zkTxnLogToolkit.sh", "/var/lib/quorate")
    assert status == 0 and "/typed" in output, output + errors
    machine.root.run("mkdir", "/srv/backup")
    with roots.Service(machine.root):
        machine.root.run("quorate", "--server", "localhost:2281", "backup", "/srv/backup/tree")
    status, output, errors = _script(machine, "zkSnapShotToolkit.sh", "/srv/backup/tree")
    assert status == 0 and "/typed/below" in output, output + errors


def zkserver_starts_and_stops_servers(machine):
    _write(machine, OWN + "/conf/zoo.cfg", f"tickTime=2000\ndataDir={OWN}/data\nclientPort=2191\n")
    config = ("--config", OWN + "/conf")
    machine.root.run("install", "-d", "-o", "quorate", "-g", "quorate", OWN + "/data", OWN + "/logs")
    environment = ("env", f"ZOO_LOG_DIR={OWN}/logs", BIN + "zkServer.sh", *config)
    started = machine.root.run(*environment, "start")
    assert started.stdout == "Starting zookeeper ... STARTED\n", started.stdout
    assert started.stderr == BANNER + OWN + "/conf/zoo.cfg\n", started.stderr
    assert _await_status(machine, *config, "status").endswith("\nMode: standalone\n")
    assert machine.mode(OWN + "/data/checkpoints") == "700 quorate:quorate", "the server runs as another user"
    pid = machine.root.output("cat", OWN + "/data/zookeeper_server.pid")
    again = machine.root.run(*environment, "start", check=False)
    assert (again.returncode, again.stdout) == (1, f"Starting zookeeper ... already running as process {pid}.\n"), again.stdout
    restarted = machine.root.run(*environment, "restart")
    assert restarted.stdout == "Stopping zookeeper ... STOPPED\nStarting zookeeper ... STARTED\n", restarted.stdout
    _await_status(machine, *config, "status")
    assert _script(machine, "zkServer.sh", *config, "stop")[:2] == (0, "Stopping zookeeper ... STOPPED\n")
    assert _script(machine, "zkServer.sh", *config, "stop")[:2] == (
        0, f"Stopping zookeeper ... no zookeeper to stop (could not find file {OWN}/data/zookeeper_server.pid)\n")
    _write(machine, OWN + "/conf/wrong.cfg", f"dataDir={OWN}/data\nclientPort=many\n")
    failed = machine.root.run(*environment, "start", "wrong.cfg", check=False)
    assert (failed.returncode, failed.stdout) == (1, "Starting zookeeper ... FAILED TO START\n"), failed.stdout
    status, output, _ = _script(machine, "zkServer.sh", "version")
    assert status == 0 and output.startswith("Apache ZooKeeper, version 3.8.0-quorate\nquorated "), output
    status, output, errors = _script(machine, "zkServer.sh", "nonsense")
    assert status == 0 and not output and "Usage: " in errors, errors


def zkserver_of_root_follows_no_links_of_the_servers_user(machine):
    config = ("--config", OWN + "/conf")
    pid_file = OWN + "/data/zookeeper_server.pid"
    environment = ("env", f"ZOO_LOG_DIR={OWN}/logs", "HOSTNAME=here", "USER=root", BIN + "zkServer.sh", *config)
    _write(machine, OWN + "/of_root", "kept")
    root = machine.root
    output = OWN + "/logs/zookeeper-root-server-here.out"
    root.run("ln", "-sf", OWN + "/of_root", output)
    refused = root.run(*environment, "start", check=False)
    assert (refused.returncode, refused.stdout) == (1, "Starting zookeeper ... FAILED TO START\n"), refused.stdout
    assert f"user quorate cannot write {output}" in refused.stderr, refused.stderr
    assert root.output("cat", OWN + "/of_root") == "kept"
    root.run("rm", output)
    with subprocess.Popen(["sleep", "600"]) as of_root:
        try:
            for text in (str(of_root.pid), f"-{of_root.pid}", "many"):
                _write(machine, pid_file, text)
                stopped = root.run(*environment, "stop")
                assert "names no running process of user quorate" in stopped.stderr, stopped.stderr
                assert of_root.poll() is None, f"zkServer.sh has killed a process of root's for {text}"
        finally:
            of_root.kill()


def zkserver_finds_the_port_in_the_servers_line(machine):
    _write(machine, OWN + "/conf/member.cfg", f"dataDir={OWN}/member\nserver.1=localhost:2889:3889;localhost:2192\n"
           "server.2=localhost:2890:3890;2193\nserver.3=localhost:2891:3891;2194\n")
    _write(machine, OWN + "/member/myid", "1\n")
    status, output, _ = _script(machine, "zkServer.sh", "--config", OWN + "/conf", "status", "member.cfg")
    assert status == 1 and output.startswith("Client port found: 2192. Client address: localhost. Client SSL: false.\n"), output
    _write(machine, OWN + "/conf/tls.cfg", f"dataDir={OWN}/none\nsecureClientPort=2195\n")
    status, output, _ = _script(machine, "zkServer.sh", "--config", OWN + "/conf", "status", "tls.cfg")
    assert status == 1 and "Client port found: 2195. Client address: localhost. Client SSL: true.\n" in output, output
    _write(machine, OWN + "/conf/none.cfg", f"dataDir={OWN}/none\n")
    status, output, _ = _script(machine, "zkServer.sh", "--config", OWN + "/conf", "status", "none.cfg")
    assert status == 1 and output.endswith("Terminating.\n"), output


def start_foreground_is_the_server_itself(machine):
    command = machine.root.in_network(BIN + "zkServer.sh", "--config", OWN + "/conf", "start-foreground")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            _await_status(machine, "--config", OWN + "/conf", "status")
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=roots.READY_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 0 and "stopped" in output, output


def _make_zookeeper_data(directory):
    """Lets a ZooKeeper server create /from-zookeeper, and copies its data to `directory`."""
    with harness.Cluster("zookeeper", size=1) as cluster:
        client = KazooClient(cluster.hosts(), timeout=20)
        client.start(timeout=60)
        client.create("/from-zookeeper", b"kept")
        client.stop()
        cluster.kill_all()
        shutil.copytree(os.path.join(cluster.member_dir(1), "version-2"), os.path.join(directory, "version-2"))


def the_package_replaces_those_of_zookeeper_and_takes_their_data(machine):
    """Does what docs/guides/install.md says, with ZooKeeper's packages but without the Java machine that they need, which
    takes no part in this."""
    root = machine.root
    root.run("dpkg", "--purge", "quorate-zookeeper-compat")
    assert not os.path.lexists(root.file("/etc/zookeeper/conf")), "the link of the alternatives is left"
    root.run("sh", "-c", "cd /tmp && apt-get download zookeeper zookeeperd", outside=True)
    names = [os.path.basename(path) for path in glob.glob(root.file("/tmp/zookeeper*.deb"))]
    root.run("sh", "-c", f"cd /tmp && dpkg --force-depends --install {' '.join(names)}")
    _make_zookeeper_data(root.file("/var/lib/zookeeper"))
    root.run("dpkg", "--force-depends", "--auto-deconfigure", "--install",
             root.add(machine.package("quorate-zookeeper-compat")))
    assert machine.state("quorate-zookeeper-compat") == "ii"
    for name in ("zookeeper", "zookeeperd"):
        assert machine.state(name)[1] == "c", f"{name} is not removed: {machine.state(name)}"
    assert root.output("readlink", "-f", "/etc/zookeeper/conf") == "/etc/quorate"
    commands = guide.block("## How do I replace ZooKeeper's package?")
    begin, end = commands.index("systemctl stop quorate"), commands.index("systemctl start zookeeper")
    root.run("sh", "-e", "-c", "\n".join(commands[begin + 1:end]))
    # ZooKeeper's package removes its data with its purge. The data of Quorate is elsewhere.
    root.run("dpkg", "--purge", "zookeeper", "zookeeperd")
    assert not os.path.exists(root.file("/var/lib/zookeeper"))
    with roots.Service(root):
        assert machine.shell("get", "/from-zookeeper").stdout == "kept\n"
        assert _script(machine, "zkServer.sh", "status")[0] == 0


TESTS = (the_scripts_work_on_the_service, tools_of_files_and_cron_jobs_have_zookeepers_exit_status,
         zkserver_starts_and_stops_servers, zkserver_of_root_follows_no_links_of_the_servers_user,
         zkserver_finds_the_port_in_the_servers_line, start_foreground_is_the_server_itself,
         the_package_replaces_those_of_zookeeper_and_takes_their_data)
