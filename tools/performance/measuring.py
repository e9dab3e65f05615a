# SPDX-License-Identifier: Apache-2.0
"""The means of a measurement: clusters of Quorate and ZooKeeper on one disk, runs of `quorate bench`
with one or two clusters, and facts about the machine and the programs."""

import contextlib
import datetime
import importlib.machinery
import importlib.util
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from unittest import mock

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../tests/lib"))
import harness  # noqa: E402

SYSTEMS = ("quorate", "zookeeper")
# No limit of connections, because many clients have the same address.
SETTINGS = ("maxClientCnxns=0",)
BENCH_SECONDS = 3600
RESTART_SECONDS = 180
RESTART_POLL_SECONDS = 0.005
MEMORY_DIRECTORY = "/dev/shm"
LIMIT = os.path.join(harness.ROOT, ".bazel/opt-bin/tools/performance/limit/limit")


class Failure(Exception):
    """The reason why a row could not be measured."""


def java_options(heap_gb):
    return {"ZOOKEEPER_JAVA_OPTIONS": f"-Xmx{heap_gb}g"}


def load_cluster_tool():
    loader = importlib.machinery.SourceFileLoader("cluster_tool", harness.TOOL)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("cluster_tool", loader))
    loader.exec_module(module)
    return module


CLUSTER_TOOL = load_cluster_tool()


class Scale:
    """Durations and sizes: all values that --quick changes."""

    def __init__(self, quick, tail_minutes=None):
        self.quick = quick
        self.seconds = 1 if quick else 5
        self.slice_seconds = 0.25 if quick else 1
        self.warm_up_seconds = 0.2 if quick else 1
        self.limit_turns = 2 if quick else 5
        self.limit_seconds = 0.5 if quick else 2
        self.herd = 1_000 if quick else 20_000
        self.herd_rounds = 1 if quick else 3
        self.kill_rounds = 1 if quick else 5
        self.freeze_rounds = 1 if quick else 2
        self.populate = 20_000 if quick else 100_000
        self.idle_seconds = 4 if quick else 20
        self.growth_seconds = 1 if quick else 2
        self.growth_slice_seconds = 0.25 if quick else 0.5
        self.nodes_base = 1_000 if quick else 10_000
        self.nodes = (20_000,) if quick else (1_000_000, 5_000_000)
        self.zookeeper_nodes = 1_000_000
        self.sessions_base = 10
        self.sessions = (1_000,) if quick else (1_000, 10_000)
        self.watches = (20_000,) if quick else (1_000_000,)
        self.growth_watchers = 100
        self.profile_seconds = 0.5 if quick else 2
        self.tail_minutes = tail_minutes or (0.5 if quick else 10)
        self.tail_nodes = 10_000 if quick else 100_000
        self.tail_snap_count = 5_000 if quick else 20_000
        self.checkpoint_nodes = 20_000 if quick else 1_000_000
        self.checkpoint_rate = 500 if quick else 2_000
        self.checkpoint_seconds = 4 if quick else 60
        self.memory_nodes = (50_000,) if quick else (500_000, 1_000_000)
        self.restarts = 1 if quick else 3
        self.java_warm_up_seconds = 0.5 if quick else 4

    @property
    def time_options(self):
        return ["--seconds", self.seconds, "--slice-seconds", self.slice_seconds,
                "--warm-up-seconds", self.warm_up_seconds]

    @property
    def growth_time_options(self):
        return ["--seconds", self.growth_seconds, "--slice-seconds", self.growth_slice_seconds,
                "--warm-up-seconds", self.warm_up_seconds / 2]


class Bench:
    """`quorate bench`, and the clusters that it measures.

    `data` is the directory in which all clusters keep their files, so that they share a disk. `say`
    is called with a line before a step that takes long."""

    def __init__(self, quorate, data, scale, say):
        self.quorate, self.data, self.scale, self.say = quorate, data, scale, say
        self._pair = None

    @contextlib.contextmanager
    def cluster(self, system, size=3, settings=(), heap_gb=1, warm_ups=1, directory=None, tls=False, certificates_of=None):
        """Returns a running cluster. ZooKeeper has Java's default collector and compilers, and a heap of
        `heap_gb` for each member. It has been under load for `warm_ups` times the usual time, because
        Java compiles only code that has run often. `directory` is the place of its files, if it is not
        that of the other clusters. With `tls`, all its connections have TLS, with the certificates of the
        cluster `certificates_of` if that is given."""
        if tls and system == "zookeeper":
            settings = [*settings, "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"]
        with harness.Cluster(system, size, [*SETTINGS, *settings], start=False, directory=directory or self.data,
                             environment=dict(java_options(heap_gb), QUORATE=self.quorate), tls=tls) as cluster:
            if certificates_of is not None:
                shutil.copytree(os.path.join(certificates_of.dir, "certs"), os.path.join(cluster.dir, "certs"))
            cluster.start()
            if system == "zookeeper":
                self.alone(["mix"], cluster, [
                    "--connections", 30, "--depth", 8, "--read-share", 0.5, "--warm-up-seconds", 0,
                    "--seconds", warm_ups * self.scale.java_warm_up_seconds])
            yield cluster

    def pair(self):
        """Returns clusters of three members of both systems, which run until close_pair()."""
        if self._pair is None:
            self.say("starting three members of each")
            stack = contextlib.ExitStack()
            with contextlib.ExitStack() as starting:
                clusters = [starting.enter_context(self.cluster(system)) for system in SYSTEMS]
                stack = starting.pop_all()
            self._pair = (stack, clusters)
        return self._pair[1]

    def close_pair(self):
        if self._pair is not None:
            stack, self._pair = self._pair[0], None
            stack.close()

    def compare(self, workloads, servers, compared, options, labels=SYSTEMS):
        """Measures both clusters in turns. Returns {"command": the command line, "document": the JSON
        document of `quorate bench`}."""
        return self._run(workloads, [*options, *(["--tls"] * servers.tls), *(["--compare-tls"] * compared.tls)], (
            ("--servers", servers.hosts(), labels[0].upper()),
            ("--compare", compared.hosts(), labels[1].upper()),
            ("--label", labels[0], labels[0]), ("--compare-label", labels[1], labels[1]),
            *certificates(servers, compared)))

    def alone(self, workloads, servers, options):
        return self._run(workloads, [*options, *(["--tls"] * servers.tls)],
                         (("--servers", servers.hosts(), "SERVERS"), *certificates(servers)))

    def fail_over(self, verbs, rounds, options, ours, theirs, labels=SYSTEMS):
        """Measures the failover of two clusters. `verbs` are the commands of tools/cluster that end and restart
        a leader."""
        clusters = []
        for prefix, cluster, name in zip(("--", "--compare-"), (ours, theirs), labels):
            tool = f"{shlex.quote(harness.TOOL)} --dir {shlex.quote(cluster.dir)}"
            for option, verb in zip(("kill-command", "restart-command"), verbs):
                clusters.append((prefix + option, f"{tool} {verb} {{member}}",
                                 f"tools/cluster --dir {name.upper()} {verb} {{member}}"))
        options = ["--rounds", rounds, *options, *(["--tls"] * ours.tls), *(["--compare-tls"] * theirs.tls)]
        return self._run(["failover"], options, (
            ("--servers", ours.hosts(), labels[0].upper()), ("--compare", theirs.hosts(), labels[1].upper()),
            ("--label", labels[0], labels[0]), ("--compare-label", labels[1], labels[1]),
            *certificates(ours, theirs), *clusters))

    def _run(self, workloads, options, clusters):
        words = ["bench", *workloads, *map(str, options)]
        shown = ["quorate", *words]
        for option, value, name in clusters:
            words += [option, value]
            shown += [option, name]
        command = " ".join(map(shlex.quote, shown))
        # Removes QUORATED, so that tools/cluster restarts a member with the server of its cluster.
        environment = dict(os.environ, **java_options(1))
        environment.pop("QUORATED", None)
        with subprocess.Popen([self.quorate, *words, "--json"], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=environment) as process:
            try:
                output, said = process.communicate(timeout=BENCH_SECONDS)
            except BaseException:
                process.kill()
                raise
        if process.returncode != 0:
            raise Failure(f"{command}: {said.strip() or process.returncode}")
        return {"command": command, "document": json.loads(output)}

    def limit(self, workload, clients, seconds):
        """Returns the output of the program `limit`, whose files are on the disk of the clusters."""
        command = [LIMIT, workload, self.data, "--clients", str(clients), "--seconds", str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60 + seconds)
        if done.returncode != 0:
            raise Failure(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
        return json.loads(done.stdout)

    def populate(self, cluster, count, root, options=()):
        """Creates znodes with 100 bytes of data each, which stay."""
        self.alone(["populate"], cluster, [
            "--count", count, "--root", root, "--keep", "--connections", 30, "--depth", 32,
            "--warm-up-seconds", 0, *options])


def certificates(*clusters):
    """Returns the options of `quorate bench` for the first of the clusters that has TLS."""
    for cluster in clusters:
        if cluster.tls:
            paths = CLUSTER_TOOL.Cluster(cluster.dir)
            return (("--ca", paths.certificate("ca"), "CA.PEM"),
                    ("--cert", paths.certificate(f"client-{CLUSTER_TOOL.ADMINISTRATOR}"), "CLIENT.PEM"))
    return ()


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"^VmRSS:\s*(\d+) kB", file.read(), re.MULTILINE)[1]) * 1024


def java_heap_bytes(pid):
    """Returns the used bytes of the heap after garbage collections."""
    try:
        for _ in range(2):
            subprocess.run(["jcmd", str(pid), "GC.run"], capture_output=True, check=True, timeout=120)
        info = subprocess.run(["jcmd", str(pid), "GC.heap_info"], capture_output=True, text=True,
                              check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    used = re.search(r"heap\s+total \d+K, used (\d+)K", info)
    return int(used[1]) * 1024 if used else None


def metric(address, name):
    """Returns a value of the four-letter word mntr; None if there is no such value."""
    host, _, port = address.rpartition(":")
    answer = CLUSTER_TOOL.four_letter(host, int(port), "mntr")
    found = re.search(rf"^zk_{name}\t([0-9.]+)$", answer, re.MULTILINE)
    return float(found[1]) if found else None


def restart_seconds(cluster):
    """Stops the only member of a cluster with SIGTERM, and starts it again. Returns the seconds from its
    start until it serves."""
    tool = CLUSTER_TOOL.Cluster(cluster.dir)
    tool.load()
    [member] = tool.members()
    member.stop()
    server = tool.server or os.path.realpath(CLUSTER_TOOL.SERVER)
    begin = time.monotonic()
    with mock.patch.dict(os.environ, cluster.environment):
        process = member.spawn(server)
    while not member.serves():
        if process.poll() is not None:
            raise Failure(f"the server ended with {process.returncode}\n{member.log_tail()}")
        if time.monotonic() - begin > RESTART_SECONDS:
            raise Failure(f"the server does not serve\n{member.log_tail()}")
        time.sleep(RESTART_POLL_SECONDS)
    return time.monotonic() - begin


def output_of(*command):
    """Returns the first line that a program prints; "" if it cannot be run."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60,
                                cwd=harness.ROOT)
    except OSError:
        return ""
    lines = (result.stdout or result.stderr).strip().splitlines()
    return lines[0] if lines and result.returncode == 0 else ""


def file_system_of(path):
    """Returns (type, device) of the mounted file system of a path."""
    best = ("", "unknown", "unknown")
    real = os.path.realpath(path)
    with open("/proc/mounts", encoding="utf-8") as file:
        for line in file:
            device, where, kind = line.split()[:3]
            inside = real == where or real.startswith(where.rstrip("/") + "/")
            if inside and len(where) >= len(best[0]):
                best = (where, kind, device)
    return best[1], best[2]


def is_memory(path):
    return file_system_of(path)[0] == "tmpfs"


def memory_gb():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        found = re.search(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
    return found[1] if found else platform.machine()


def environment(data):
    """Returns the facts on which the figures depend. Rows of different environments are not comparable."""
    kind, device = file_system_of(data)
    # The sources of the measured programs.
    sources = ("--", ".", ":!*.md", ":!tests", ":!tools/performance")
    commit = output_of("git", "log", "-1", "--format=%h", *sources)
    if commit and output_of("git", "status", "--porcelain", "--untracked-files=no", *sources):
        commit += " with changes"
    return {
        "machine": f"{os.cpu_count()} x {processor()}, {memory_gb():.0f} GB",
        "kernel": f"{platform.system()} {platform.release()}",
        "disk": f"{kind} on {device}",
        "quorate": commit or "of an unknown commit",
        "zookeeper": output_of("dpkg-query", "-W", "-f", "${Version}", "zookeeper"),
        "java": output_of("java", "-version"),
    }


def now_text():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
