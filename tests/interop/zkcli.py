# SPDX-License-Identifier: Apache-2.0
"""Runs Debian's zkCli.sh against a server and against Debian's ZooKeeper: its outputs must be equal."""

import difflib
import os
import re
import subprocess

import harness
import jvm

HERE = os.path.dirname(os.path.realpath(__file__))
JARS = ("zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop")
TIMEOUT_SECONDS = 60
# Settings of both sides; ZooKeeper takes them as system properties.
SETTINGS = ("extendedTypesEnabled=true", "enforceQuota=true")


def sections():
    """Returns the sections of zkcli.txt: pairs of a name and the lines to type."""
    found = []
    with open(os.path.join(HERE, "zkcli.txt"), encoding="utf-8") as file:
        for line in file.read().splitlines():
            if line.startswith("["):
                found.append((line.strip("[]"), []))
            elif line and not line.startswith("#"):
                found[-1][1].append(line)
    return found


def run_cli(cluster, address, lines):
    """Types `lines` into the program. Returns its output."""
    command = [*jvm.command("org.apache.zookeeper.ZooKeeperMain", JARS), "-waitforconnection",
               "-server", address]
    result = subprocess.run(command, input="\n".join(lines) + "\n", stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_SECONDS,
                            check=False, cwd=cluster.parent)
    return result.stdout


def sorted_list(line):
    """Sorts a list of names, because servers promise no order and the program sorts only some lists."""
    names = re.fullmatch(r"\[(.*)\]", line)
    return f"[{', '.join(sorted(names[1].split(', ')))}]" if names else line


def sorted_identities(lines):
    """Sorts the identities that whoami prints."""
    result = []
    for line in lines:
        if result and result[-1][0] == "Auth scheme: User" and re.fullmatch(r"\w+: \S+", line):
            result[-1].append(line)
        else:
            result.append([line])
    return [line for first, *others in result for line in (first, *sorted(others))]


def normalised(output, cluster, address):
    """Returns the output of a client of `address` with values that differ from run to run replaced. Puts the watch events
    last, because they come from another thread."""
    zxids = sorted({int(zxid, 16) for zxid in re.findall(r"Zxid = (0x[0-9a-f]+)", output)})

    def port(match):
        return f"port+{int(match[1]) - cluster.ports.base}"

    output = output.replace(address, "the server")
    output = re.sub(r"Zxid = (0x[0-9a-f]+)",
                    lambda match: f"Zxid = number {zxids.index(int(match[1], 16))}", output)
    output = re.sub(r"(ctime|mtime) = .*", r"\1 = a time", output)
    output = re.sub(r"ephemeralOwner = 0x[0-9a-f]{2,}", "ephemeralOwner = a session", output)
    output = re.sub(r"(?<=127\.0\.0\.1:)(\d+)", port, output)
    output = re.sub(r"(?<=:)(\d{5})(?=:participant)", port, output)
    output = re.sub(r"version=[0-9a-f]+", "version=V", output)
    lines = [sorted_list(line) for line in output.splitlines() if line and line != "WATCHER::"]
    # The last event of a session may arrive while the program ends.
    lines = [line for line in lines if "state:Closed" not in line]
    lines = sorted_identities(lines)
    events = [line for line in lines if line.startswith("WatchedEvent")]
    return [line for line in lines if not line.startswith("WatchedEvent")] + events


def compare(name, lines, cluster, reference):
    """Types `lines` on both sides; fails with the difference between the outputs."""
    # ZooKeeper's leader checks quotas against the tree that it has applied itself, and its followers may be ahead of
    # it. So only clients of the leader get answers that do not depend on timing.
    leader, member = reference.address(reference.leader()), cluster.address(1)
    wanted = normalised(run_cli(reference, leader, lines), reference, leader)
    found = normalised(run_cli(cluster, member, lines), cluster, member)
    if found != wanted:
        difference = "\n".join(difflib.unified_diff(wanted, found, "ZooKeeper", "here", n=2,
                                                    lineterm=""))
        raise AssertionError(f"zkCli.sh prints something else in [{name}]:\n{difference}")
    return f"{len(lines)} commands, {len(wanted)} lines"


def run(runner, server):
    wanted = [(f"interop zkCli {name}", name, lines) for name, lines in sections()]
    if not any(runner.wants(label) for label, _, _ in wanted):
        return
    with harness.Cluster(server, settings=SETTINGS) as cluster, \
            harness.Cluster("zookeeper", settings=SETTINGS) as reference:
        for label, name, lines in wanted:
            runner.run(label, compare, name, lines, cluster, reference)
