# SPDX-License-Identifier: Apache-2.0
"""The network between members and workers: network namespaces, and the switch (network.cc) between them."""

import itertools
import os
import subprocess

import harness
import sandbox

PROGRAM = os.path.join(os.environ.get("QUORATE_BIN", os.path.join(harness.ROOT, ".bazel/opt-bin")),
                       "tests/chaos/network")
CONTROL = "control"  # the node in which the runner itself runs; no fault affects its packets


class Network:
    """A network of named nodes: member1, member2, ..., worker1, ... and `control`. Every method returns when its
    change is in force."""

    def __init__(self, members, workers, seed, program=PROGRAM):
        self.members = [f"member{i}" for i in range(1, members + 1)]
        self.workers = [f"worker{i}" for i in range(1, workers + 1)]
        self.addresses = {CONTROL: "10.77.0.250"}
        self.addresses.update((name, f"10.77.0.{i}") for i, name in enumerate(self.members, 1))
        self.addresses.update((name, f"10.77.0.{100 + i}") for i, name in enumerate(self.workers, 1))
        nodes = [word for pair in self.addresses.items() for word in ("--node", "=".join(pair))]
        self.process = subprocess.Popen([program, *nodes, "--seed", str(seed)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)
        self.spaces = {}
        while (line := self.process.stdout.readline().split()) and line != ["ready"]:
            self.spaces[line[1]] = line[2]
        if not line:
            raise RuntimeError(self.process.communicate()[1].strip() or "the network ended")

    def prefix(self, name):
        """Returns the prefix of a command that runs the command on a node."""
        return ["nsenter", f"--net={self.spaces[name]}", "--"]

    def enter(self, name=CONTROL):
        sandbox.enter_network(self.spaces[name])

    def command(self, line):
        self.process.stdin.write(line + "\n")
        answer = self.process.stdout.readline().split(" ", 1)
        if answer[0].strip() != "ok":
            raise RuntimeError(f"the network refuses {line}: {' '.join(answer)}")
        return answer[-1].strip()

    def set(self, senders, receivers, rule):
        """Applies `rule` to packets from each sender to each receiver ("drop", "loss=0.1 delay=50"; "": packets
        pass)."""
        for sender, receiver in itertools.product(senders, receivers):
            if sender != receiver:
                self.command(f"set {sender} {receiver} {rule}")

    def cut(self, one, other):
        """Drops all packets between the two groups of nodes, in both directions."""
        self.set(one, other, "drop")
        self.set(other, one, "drop")

    def heal(self):
        self.command("heal")

    def delivered(self, sender, receiver):
        return int(self.command(f"count {sender} {receiver}"))

    def end(self):
        self.process.stdin.close()
        self.process.wait()
