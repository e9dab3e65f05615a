# SPDX-License-Identifier: Apache-2.0
"""The life of a StatefulSet under writes: each pod runs the scripts of the image in a network namespace, as on a node of its
own, and a client that writes all the time loses nothing. Needs root and the command ip."""

import contextlib
import os
import shutil
import subprocess
import threading

import harness
import pods as plain
import zkwire as zk


class Nodes(plain.Pods):
    """Pods on nodes that a bridge connects. Use as a context manager."""

    def __init__(self, count):
        if os.geteuid() != 0 or shutil.which("ip") is None:
            raise harness.Skipped("network namespaces need root and the command ip")
        super().__init__()
        number = os.getpid() % 16000
        network = f"10.{224 + number // 250 % 16}.{number % 250}"
        self.bridge = f"qpods{os.getpid() % 1000000}"
        self.names = [f"quorate-pod-{os.getpid()}-{ordinal}" for ordinal in range(count)]
        self.hosts = f"{network}.10%d"
        # As the chart's secret has it: the token passes between pods with TLS only.
        names = ",".join(["quorate", *(self.hosts % ordinal for ordinal in range(count))])
        subprocess.run([plain.QUORATE, "certs", "create", f"{self.path}/certs", names], capture_output=True, check=True)
        for source, target in (("quorate.pem", "server.pem"), ("ca.pem", "ca.crt")):
            shutil.copy(f"{self.path}/certs/{source}", f"{self.path}/secrets/{target}")
            os.chmod(f"{self.path}/secrets/{target}", 0o440)
        try:
            self._ip("link", "add", self.bridge, "type", "bridge")
            self._ip("address", "add", f"{network}.1/24", "dev", self.bridge)
            self._ip("link", "set", self.bridge, "up")
            for ordinal, name in enumerate(self.names):
                self._add(ordinal, name)
        except BaseException:
            self.__exit__()
            raise

    @staticmethod
    def _ip(*words, check=True):
        result = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30, check=False)
        if check and result.returncode != 0:
            raise harness.Skipped(f"ip {' '.join(words)}: {result.stderr.strip()}")

    def _port(self, ordinal):
        return f"{self.bridge}p{ordinal}"

    def _add(self, ordinal, name):
        self._ip("netns", "add", name)
        self._ip("link", "add", self._port(ordinal), "type", "veth", "peer", "name", "eth0", "netns", name)
        self._ip("link", "set", self._port(ordinal), "master", self.bridge, "up")
        self._ip("-n", name, "address", "add", f"{self.hosts % ordinal}/24", "dev", "eth0")
        for link in ("eth0", "lo"):
            self._ip("-n", name, "link", "set", link, "up")
        self.prefix[ordinal] = ("ip", "netns", "exec", name)

    def cut(self, ordinal):
        """Takes a node from the network, with its pod, which runs on."""
        self._ip("link", "set", self._port(ordinal), "down")

    def mend(self, ordinal):
        self._ip("link", "set", self._port(ordinal), "up")

    def __exit__(self, *_):
        super().__exit__()
        for ordinal, name in enumerate(self.names):
            self._ip("link", "delete", self._port(ordinal), check=False)
            self._ip("netns", "delete", name, check=False)
        self._ip("link", "delete", self.bridge, check=False)

    def replace(self, ordinal):
        """Stops a pod as Kubernetes does in a rolling update, and starts it again. Waits until it is ready."""
        self.script("prestop.sh", ordinal=ordinal)
        assert self.stop(ordinal) == 0, harness.end_of(self.log(ordinal))
        self.start(ordinal)
        self.await_ready(ordinal)


class Writer(threading.Thread):
    """Creates znodes one after the other through whichever pod answers, and keeps those that were acknowledged. Use as a
    context manager: at the end all of them have to be there."""

    def __init__(self, nodes, count):
        super().__init__(daemon=True)
        self.nodes, self.count = nodes, count
        self.acknowledged, self.ending, self.changed = [], threading.Event(), threading.Condition()

    def run(self):
        tries = 0
        while not self.ending.is_set():
            with contextlib.suppress(OSError, zk.Closed, zk.ZkError):
                address = f"{self.nodes.hosts % (tries % self.count)}:{self.nodes.ports.base + 1}"
                with zk.Connection(address, timeout=3) as connection:
                    while not self.ending.is_set():
                        tries += 1
                        connection.create(f"/w{tries}")
                        with self.changed:
                            self.acknowledged.append(f"w{tries}")
                            self.changed.notify_all()
            tries += 1

    def more(self, what):
        """Waits until further writes were acknowledged."""
        with self.changed:
            wanted = len(self.acknowledged) + 20
            assert self.changed.wait_for(lambda: len(self.acknowledged) >= wanted, plain.SECONDS), f"no write succeeds {what}"

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *_):
        self.ending.set()
        self.join()
        if kind is None:
            for ordinal in sorted(self.nodes.processes):
                with self.nodes.connect(ordinal) as connection:
                    connection.sync("/")
                    there = set(connection.children("/"))
                lost = [name for name in self.acknowledged if name not in there]
                assert not lost, f"pod {ordinal} has lost {len(lost)} of {len(self.acknowledged)} writes: {lost[:5]}"


def the_life_of_a_cluster_under_writes_loses_none():
    with Nodes(5) as nodes:
        for ordinal in range(3):
            nodes.start(ordinal)
        nodes.await_ready(0, 1, 2)
        with Writer(nodes, 3) as writer:
            writer.more("with three pods")
            for ordinal in (3, 4):
                nodes.start(ordinal)
            assert (members := nodes.members(5)) == "members: 1 2 3 4 5", members
            nodes.await_ready(3, 4)
            writer.more("after the growth to five")
            for ordinal in (4, 3, 2, 1, 0):  # the order of a StatefulSet
                nodes.replace(ordinal)
            writer.more("after the rolling update")
            # A node is cut off with the leader on it. The others go on; what returns catches up.
            lost = nodes.leader()
            nodes.cut(lost)
            writer.more("with one node lost")
            nodes.mend(lost)
            nodes.await_ready(lost)
            # Another one is lost with its volume, and its pod moves.
            nodes.lose_volume(1)
            nodes.start(1)
            writer.more("with one volume lost")
            nodes.await_ready(1)
            assert (members := nodes.members(3, "--remove")) == "members: 1 2 3", members
            for ordinal in (4, 3):
                nodes.script("prestop.sh", ordinal=ordinal)
                nodes.stop(ordinal)
            writer.more("after the return to three")
            nodes.await_ready(0, 1, 2)
        return f"{len(writer.acknowledged)} writes"


def pods_that_are_killed_in_any_order_keep_the_members():
    """An orchestrator that tears pods down without asking does no harm, also if it takes all of them."""
    with Nodes(3) as nodes:
        for ordinal in range(3):
            nodes.start(ordinal)
        nodes.await_ready(0, 1, 2)
        with Writer(nodes, 3) as writer:
            writer.more("at first")
            for order in ((0, 1, 2), (2, 0), (1,)):
                for ordinal in order:
                    process = nodes.processes.pop(ordinal)
                    process.kill()
                    process.wait()
                for ordinal in reversed(order):
                    nodes.start(ordinal)
                nodes.await_ready(0, 1, 2)
                writer.more(f"after {order} were killed")
            assert (members := nodes.members(3)) == "members: 1 2 3", members
        # zkCli.sh in a pod knows the authority.
        base = nodes.ports.base
        environment = dict(nodes.environment(1), ZOOCFGDIR=f"{nodes.path}/1/conf", ZK_GRPC_PORT=str(base + 2))
        typed = subprocess.run([*nodes.prefix[1], os.path.join(harness.ROOT, "deploy/zookeeper/zkCli.sh"), "-server",
                                f"{nodes.hosts % 1}:{base + 1}", "get", f"/{writer.acknowledged[0]}"], env=environment,
                               capture_output=True, text=True, timeout=60, check=False)
        assert typed.returncode == 0, typed.stdout + typed.stderr


def without_tls_the_token_does_not_leave_the_pod():
    with Nodes(3) as nodes:
        for name in ("server.pem", "ca.crt"):
            os.unlink(f"{nodes.path}/secrets/{name}")
        for ordinal in range(3):
            nodes.start(ordinal)
        nodes.await_ready(0, 1, 2)
        refused = nodes.script("members.sh", 3, status=1)
        assert "the token would be sent unencrypted" in refused and "server.pem" in refused, refused


TESTS = (without_tls_the_token_does_not_leave_the_pod,
         the_life_of_a_cluster_under_writes_loses_none, pods_that_are_killed_in_any_order_keep_the_members)


def run(runner):
    for test in TESTS:
        runner.run(f"deploy nodes: {test.__name__.replace('_', ' ')}", test)
