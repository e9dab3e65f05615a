# SPDX-License-Identifier: Apache-2.0
"""The container image of deploy/image, whose entry point takes the variables of ZooKeeper's official image, and those of
Bitnami's. Its programs run in a chroot, with the environment that the image has. tests/deploy has what needs no image."""

import contextlib
import filecmp
import os
import shutil
import signal
import subprocess
import time

import harness
import oci
import root as roots

SIZE_MAX = 80 << 20  # compressed, as a registry sends it
IMAGE = os.path.join(harness.ROOT, "deploy/image")
PORT = "Client port found: 2181. Client address: localhost. Client SSL: false."
# What compose files and charts for ZooKeeper's images have as health checks.
HEALTH_CHECKS = ("echo ruok | nc localhost 2181 | grep imok", "echo ruok | timeout 2 nc -w 2 localhost 2181 | grep imok",
                 "nc -z localhost 2181", "[ $(echo ruok | nc 127.0.0.1 2181) == imok ]",
                 "exec 3<>/dev/tcp/127.0.0.1/2181 && echo srvr >&3 && grep '^Mode: ' <&3", "zkServer.sh status | grep Mode")
HTTP_HEALTH_CHECKS = ("wget -q --spider http://localhost:8080/commands/ruok",
                      "wget -q -O - http://localhost:8080/commands/ruok | grep error | grep null")
# As Bitnami's chart for ZooKeeper mounts it in the pod, and starts it.
SETUP = """#!/bin/bash
if [[ -f "/bitnami/zookeeper/data/myid" ]]; then
  export ZOO_SERVER_ID="$(cat /bitnami/zookeeper/data/myid)"
else
  HOSTNAME="$(hostname -s)"
  [[ $HOSTNAME =~ (.*)-([0-9]+)$ ]] || exit 1
  export ZOO_SERVER_ID="$((BASH_REMATCH[2] + 1))"
fi
exec /entrypoint.sh /run.sh
"""
POD = ("BITNAMI_DEBUG=false", "ZOO_DATA_LOG_DIR=", "ZOO_PORT_NUMBER=2181", "ZOO_TICK_TIME=2000", "ZOO_INIT_LIMIT=10",
       "ZOO_SYNC_LIMIT=5", "ZOO_PRE_ALLOC_SIZE=65536", "ZOO_SNAPCOUNT=100000", "ZOO_MAX_CLIENT_CNXNS=60",
       "ZOO_4LW_COMMANDS_WHITELIST=srvr, mntr, ruok", "ZOO_LISTEN_ALLIPS_ENABLED=no", "ZOO_AUTOPURGE_INTERVAL=1",
       "ZOO_AUTOPURGE_RETAIN_COUNT=10", "ZOO_MAX_SESSION_TIMEOUT=40000", "ZOO_ENABLE_AUTH=no", "ZOO_ENABLE_QUORUM_AUTH=no",
       "ZOO_SERVERS=zk-zookeeper-0.zk-zookeeper-headless.default.svc.cluster.local:2888:3888::1 ", "ZOO_HEAP_SIZE=1024",
       "ZOO_LOG_LEVEL=ERROR", "ALLOW_ANONYMOUS_LOGIN=yes", "ZOO_ENABLE_PROMETHEUS_METRICS=yes",
       "ZOO_PROMETHEUS_METRICS_PORT_NUMBER=9141")


def _make(machine, elsewhere=False):
    """Makes the image. Returns the path of its file. elsewhere: on another machine."""
    command, environment = [IMAGE, "--packages", os.path.dirname(machine.packages[0]), "--root", machine.archive], os.environ
    if elsewhere:
        command, environment = machine.elsewhere(command)
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.strip()


class Container:
    """The unpacked image."""

    def __init__(self, machine):
        self.machine = machine
        self.file = os.path.join(machine.directory, "image.tar")
        os.rename(_make(machine), self.file)
        self.image = oci.Image(self.file)
        self.config = self.image.config
        with open(self.file + ".layer", "wb") as file:
            file.write(*self.image.layers)
        self.path = os.path.join(machine.directory, "container")
        os.mkdir(self.path)
        machine.root.check_call(["tar", "--extract", "--directory", self.path, "--file", self.file + ".layer"])
        with open(self.path + "/etc/hosts", "w", encoding="utf-8") as file:  # as a container engine does
            file.write("127.0.0.1 localhost\n")
        machine.root.check_call(["mount", "-t", "proc", "proc", self.path + "/proc"])
        machine.root.check_call(["mount", "--bind", "/dev", self.path + "/dev"])

    def command(self, *words, environment=(), user="0:0"):
        return ["nsenter", f"--net=/proc/{self.machine.root.network.pid}/ns/net", "chroot", f"--userspec={user}", self.path,
                "env", "-i", *self.config["Env"], *environment, *words]

    def run(self, *words):
        return subprocess.run(self.command(*words), capture_output=True, text=True, timeout=60, check=False)


def _container(machine):
    """Returns the image, which is made once for a machine."""
    if not hasattr(machine, "container"):
        machine.require_root()
        machine.container = Container(machine)
    return machine.container


def the_image_runs_as_bitnamis_one(machine):
    container = _container(machine)
    scripts = "/opt/bitnami/scripts/zookeeper"
    with subprocess.Popen(container.command(f"{scripts}/entrypoint.sh", f"{scripts}/run.sh", user="1001:0",
                                            environment=("ALLOW_ANONYMOUS_LOGIN=yes", "ZOO_SERVER_ID=3")),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            deadline = time.monotonic() + harness.WAIT_SECONDS
            while (status := container.run(f"{scripts}/healthcheck.sh")).returncode != 0:
                assert time.monotonic() < deadline and server.poll() is None, status.stdout + status.stderr
                time.sleep(0.2)
            assert status.stdout == PORT + "\nMode: standalone\n", status.stdout
            owner = container.run("stat", "-c", "%u:%g", "/bitnami/zookeeper/data/myid").stdout
            assert owner == "1001:0\n", owner
            assert container.run(*container.config["Healthcheck"]["Test"][1:]).returncode == 0
            server.send_signal(signal.SIGTERM)
            output, _ = server.communicate(timeout=roots.READY_SECONDS)
        finally:
            server.kill()
    assert server.returncode == 0, output
    with open(container.path + "/opt/bitnami/zookeeper/conf/zoo.cfg", encoding="utf-8") as file:
        lines = file.read().splitlines()
    assert "dataDir=/bitnami/zookeeper/data" in lines and "clientPort=2181" in lines, lines
    assert not [line for line in lines if line.startswith(("dataLogDir=", "server."))], lines


def the_image_runs_as_the_official_one(machine):
    container = _container(machine)
    settings = ("ZOO_TICK_TIME=1500", "ZOO_4LW_COMMANDS_WHITELIST=srvr,ruok",
                "ZOO_CFG_EXTRA=snapCount=5000 maxSessionTimeout=30000")
    start = [*container.config["Entrypoint"], *container.config["Cmd"]]
    with subprocess.Popen(container.command(*start, environment=settings), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as server:
        try:
            deadline = time.monotonic() + harness.WAIT_SECONDS
            while (status := container.run("zkServer.sh", "status")).returncode != 0:
                assert time.monotonic() < deadline and server.poll() is None, status.stdout + status.stderr
                time.sleep(0.2)
            assert status.stdout == PORT + "\nMode: standalone\n", status.stdout
            assert container.run("sh", "-c", "echo ruok | nc -N localhost 2181").stdout == "imok"
            for check in (*HEALTH_CHECKS, *HTTP_HEALTH_CHECKS):
                result = container.run("bash", "-o", "pipefail", "-c", check)
                assert result.returncode == 0, f"{check}: {result.stdout}{result.stderr}"
            # The plug-ins of SASL, which the server's package brings.
            for package in ("libsasl2-modules", "libsasl2-modules-gssapi-mit"):
                assert container.run("dpkg-query", "--show", "--showformat=${Status}", package).stdout == "install ok installed"
            # For checks of the TLS port.
            assert container.run("openssl", "version").returncode == 0
            assert container.run(*container.config["Healthcheck"]["Test"][1:]).returncode == 0
            created = container.run("zkCli.sh", "-server", "localhost:2181", "create", "/contained", "x")
            assert created.stdout.endswith("Created /contained\n"), created.stdout + created.stderr
            owner = container.run("stat", "-c", "%u:%g", "/data/checkpoints").stdout
            assert owner == "1000:1000\n", owner
            server.send_signal(signal.SIGTERM)
            output, _ = server.communicate(timeout=roots.READY_SECONDS)
        finally:
            server.kill()
    assert server.returncode == 0, output
    with open(container.path + "/conf/zoo.cfg", encoding="utf-8") as file:
        lines = file.read().splitlines()
    assert lines == ["dataDir=/data", "dataLogDir=/datalog", "tickTime=1500", "initLimit=5", "syncLimit=2",
                     "autopurge.snapRetainCount=3", "autopurge.purgeInterval=0", "maxClientCnxns=60", "standaloneEnabled=true",
                     "admin.enableServer=true", "grpcPort=2281", "server.1=localhost:2888:3888;2181",
                     "4lw.commands.whitelist=srvr,ruok", "snapCount=5000", "maxSessionTimeout=30000"], lines
    with open(container.path + "/data/myid", encoding="utf-8") as file:
        assert file.read() == "1\n"
    # Other commands run as they are.
    assert container.run("/docker-entrypoint.sh", "echo", "hello").stdout == "hello\n"


def the_same_packages_give_the_same_image(machine):
    container = _container(machine)
    again = _make(machine, elsewhere=True)
    assert filecmp.cmp(container.file, again, shallow=False), "the image differs: " + " ".join(_differences(machine, again))
    os.unlink(again)
    said = oci.read_by_other_programs(container.file, container.image.entry["annotations"]["org.opencontainers.image.ref.name"],
                                      os.path.join(machine.directory))
    shutil.rmtree(os.path.join(machine.directory, "layout"), ignore_errors=True)
    shutil.rmtree(os.path.join(machine.directory, "unpacked"), ignore_errors=True)
    size = os.path.getsize(container.file + ".layer")
    assert size < SIZE_MAX, f"the layer has {size >> 20} MiB"
    return f"{size / (1 << 20):.1f} MiB compressed" + ("" if said else "; skopeo is not installed")


def _differences(machine, other):
    """Returns the names of files that differ between the layers of two images, some of them."""
    folders = []
    for number, path in enumerate((_container(machine).file, other)):
        folders.append(os.path.join(machine.directory, f"layer-{number}"))
        os.mkdir(folders[-1])
        subprocess.run(["tar", "--extract", "--gzip", "--directory", folders[-1]], input=oci.Image(path).layers[0], check=True)
    found = subprocess.run(["diff", "--recursive", "--brief", "--no-dereference", *folders], capture_output=True, text=True,
                           check=False).stdout
    return found.splitlines()[:20]


@contextlib.contextmanager
def _restricted(container, user, folders, words, host="pod", environment=()):
    """Runs a command in the container, with a root file system that it can only read, and an empty directory that belongs to
    the user in place of each of the folders. Gives the process, and a function that runs commands beside it."""
    number, group = user.split(":")
    script = ("hostname $2; for d in $3; do mount -t tmpfs -o uid=$4,gid=$5,mode=755 tmpfs $1$d; done; "
              "mount --rbind $1 $1 && mount -o remount,bind,ro $1 && shift 5 && exec \"$@\"")
    command = ["unshare", "--mount", "--uts", "sh", "-c", script, "sh", container.path, host, " ".join(folders), number, group,
               *container.command(*words, user=user, environment=environment)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        def beside(*words):
            return subprocess.run(["nsenter", f"--mount=/proc/{server.pid}/ns/mnt", *container.command(*words, user=user)],
                                  capture_output=True, text=True, timeout=60, check=False)

        try:
            yield server, beside
            server.send_signal(signal.SIGTERM)
            output, _ = server.communicate(timeout=roots.READY_SECONDS)
        finally:
            server.kill()
    assert server.returncode == 0, output


def _await(server, check):
    """Waits until a command that `check` runs succeeds."""
    deadline = time.monotonic() + harness.WAIT_SECONDS
    while (result := check()).returncode != 0:
        assert time.monotonic() < deadline and server.poll() is None, (
            f"{result.stdout}{result.stderr}" + (server.stdout.read() if server.poll() is not None else ""))
        time.sleep(0.2)


def the_image_runs_with_a_root_that_it_can_only_read(machine):
    """As `docker run --read-only --tmpfs /conf --tmpfs /tmp --user 1000:1000` does."""
    container = _container(machine)
    start = [*container.config["Entrypoint"], *container.config["Cmd"]]
    with _restricted(container, "1000:1000", ("/data", "/datalog", "/logs", "/conf", "/tmp"), start) as (server, beside):
        _await(server, lambda: beside("/healthcheck.sh"))
        written = beside("touch", "/etc/written")
        assert "Read-only file system" in written.stderr, written


def the_image_runs_in_a_pod_of_bitnamis_chart(machine):
    """With another name of the image and nothing else changed."""
    container = _container(machine)
    os.makedirs(f"{container.path}/scripts", exist_ok=True)
    with open(f"{container.path}/scripts/setup.sh", "w", encoding="utf-8") as file:
        file.write(SETUP)
    os.chmod(f"{container.path}/scripts/setup.sh", 0o755)
    folders = ("/bitnami/zookeeper", "/opt/bitnami/zookeeper/conf", "/opt/bitnami/zookeeper/logs", "/tmp")
    with _restricted(container, "1001:1001", folders, ["/scripts/setup.sh"], "zk-zookeeper-0", POD) as (server, beside):
        _await(server, lambda: beside("/bin/bash", "-ec", "ZOO_HC_TIMEOUT=2 /opt/bitnami/scripts/zookeeper/healthcheck.sh"))
        for check in ("echo ruok | timeout 2 nc -w 2 localhost 2181 | grep imok", "[ $(cat /bitnami/zookeeper/data/myid) = 1 ]",
                      "wget -q -O - http://localhost:9141/metrics | grep '^znode_count '",
                      "[ $(stat -c %u:%g /bitnami/zookeeper/data/checkpoints) = 1001:1001 ]"):
            result = beside("bash", "-o", "pipefail", "-c", check)
            assert result.returncode == 0, f"{check}: {result.stdout}{result.stderr}"


TESTS = (the_image_runs_as_the_official_one, the_image_runs_as_bitnamis_one, the_image_runs_with_a_root_that_it_can_only_read,
         the_image_runs_in_a_pod_of_bitnamis_chart, the_same_packages_give_the_same_image)
