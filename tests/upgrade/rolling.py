# SPDX-License-Identifier: Apache-2.0
"""Upgrades and downgrades a cluster member by member, under writes."""

import contextlib
import json
import os
import re

import administration
import harness
import quorate_cli
import zkwire as zk
from counting import CountingClient

KEY = "clusterVersionMax"
NEWEST_LINE = re.compile(r"^inline constexpr uint32_t kVersionNewest = (\d+);$", re.MULTILINE)
MEMBERSHIP_VERSION = 9  # from which on `quorate member` changes the members


def newest_version():
    """Returns the newest cluster version that the servers of this commit understand."""
    with open(os.path.join(harness.ROOT, "consensus/core/types.h"), encoding="utf-8") as file:
        return int(NEWEST_LINE.search(file.read())[1])


class Program:
    """A server program, and the newest cluster version that it is allowed; 0: the newest that it understands."""

    def __init__(self, path, version_max=0):
        self.path, self.version_max = path, version_max


class Upgrade:
    """A cluster of three, whose members run programs of different versions, with a client of each member that writes all
    the time."""

    def __init__(self, cluster, clients):
        self.cluster, self.clients = cluster, clients
        self.replaced = 0

    def _stop_and_configure(self, member, program):
        """Stops the member if it runs, and configures it for the program, with which tools/cluster starts it from now on."""
        if self.cluster.pids()[self.cluster.numbers().index(member)]:
            self.cluster.command("stop", member)
        path = os.path.join(self.cluster.member_dir(member), "zoo.cfg")
        with open(path, encoding="utf-8") as file:
            lines = [line for line in file if not line.startswith(f"{KEY}=")]
        if program.version_max:
            lines.append(f"{KEY}={program.version_max}\n")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(lines)
        self.cluster.environment["QUORATED"] = program.path

    def replace(self, member, program):
        """Starts another program in place of the member's, and waits until all clients have written more."""
        self._stop_and_configure(member, program)
        self.cluster.command("restart", member)
        self.replaced += 1
        self.wait_for_writes()

    def replace_all(self, program):
        """Replaces the followers, and then the leader."""
        leader = self.cluster.leader()
        for member in [*self.cluster.others(leader), leader]:
            self.replace(member, program)

    def is_refused(self, member, program, message):
        """Starts a program that cannot take part any more in place of the member's. Checks that it ends with the message,
        and that the others go on."""
        self._stop_and_configure(member, program)
        self.cluster.command("launch", member)
        self.cluster.wait_until(f"member {member} says: {message}", lambda: message in self.cluster.log(member))
        index = self.cluster.numbers().index(member)
        self.cluster.wait_until(f"member {member} ends", lambda: not self.cluster.pids()[index])
        self.wait_for_writes()

    def wait_for_writes(self):
        for client in self.clients:
            client.wait_for_more()

    def lead(self, member):
        """Makes a member the leader."""
        def leads():
            leader = self.cluster.leader()
            if leader != member:
                administration.transfer_leadership(self.cluster.grpc(leader), member)
            return leader == member
        self.cluster.wait_until(f"member {member} leads", leads)

    def answers(self):
        """Returns the answers of `quorate status` by member; none if the cluster does not serve at the moment."""
        result = quorate_cli.run("--json", "--server", self.cluster.grpc(), "status")
        if result.returncode != 0:
            return {}
        return {one["member"]: one for one in json.loads(result.stdout)["servers"]}

    def wait_for_line(self, expected, leader=None):
        """Waits until `quorate status` prints a text. If `leader` is given, that member is made the leader again if another
        member was elected meanwhile. The leader learns of a member's version when it hears from it."""
        def is_shown():
            if leader is not None:
                self.lead(leader)
            result = quorate_cli.run("--server", self.cluster.grpc(), "status")
            return expected in result.stdout
        self.cluster.wait_until(f"quorate status prints: {expected}", is_shown)

    def wait_for_answers(self, what, holds, leader=None):
        """Waits until there are answers of `quorate status` for which `holds(answers)` is true, and returns them. `leader` is
        that of wait_for_line."""
        def has():
            nonlocal found
            if leader is not None:
                self.lead(leader)
            found = self.answers()
            return bool(found) and holds(found)
        found = {}
        self.cluster.wait_until(what, has)
        return found

    def change_of_members(self):
        """Takes a member's vote, and gives it back. Returns the error of the command; "" if there was none."""
        member = self.cluster.others(self.cluster.leader())[0]
        for verb in ("demote", "promote"):
            result = quorate_cli.run("--server", self.cluster.grpc(), "member", verb, member, "--timeout", 20)
            if result.returncode != 0:
                return result.stderr
        return ""


@contextlib.contextmanager
def running(program):
    """Yields an Upgrade, whose members all run the program at first."""
    lines = [f"{KEY}={program.version_max}"] if program.version_max else []
    with harness.Cluster(settings=lines, environment={"QUORATED": program.path}) as cluster, contextlib.ExitStack() as stack:
        addresses = [cluster.address(i) for i in cluster.numbers()]
        clients = [stack.enter_context(CountingClient(addresses[i:] + addresses[:i], f"/count{i}"))
                   for i in range(len(addresses))]
        yield Upgrade(cluster, clients)
        # The clients go on meanwhile.
        written = [client.written for client in clients]
        for member in cluster.numbers():
            with zk.Connection(cluster.address(member)) as connection:
                connection.sync()
                for client, count in zip(clients, written):
                    version = connection.get(client.path)[1].version
                    assert version >= count, f"member {member} has {version} of {count} writes of {client.path}"


def upgrade_and_downgrade(old, new_path):
    """Replaces members of the version before by the new program, and back as far as that is possible. Returns a note."""
    newest = newest_version()
    new = Program(new_path)
    with running(old) as upgrade:
        cluster = upgrade.cluster
        first, second = cluster.others(cluster.leader())[:2]
        last = cluster.others(first, second)[0]

        # One new member, which leads.
        upgrade.replace(first, new)
        upgrade.lead(first)
        upgrade.wait_for_writes()
        answers = upgrade.wait_for_answers("all members answer", lambda answers: len(answers) == 3)
        before = answers[first]["cluster_version"]
        assert before < newest, f"the version before has cluster version {before}, too: take an older one"
        assert answers[first]["newest_version"] == newest
        behind = ", ".join(map(str, sorted((second, last))))
        upgrade.wait_for_line(
            f"The cluster version is {before}; version {newest} waits until it is understood by member {behind}.", first)
        upgrade.wait_for_answers("the answers name the members that hold the version back",
                                 lambda answers: answers[first].get("held_back_by") == sorted((second, last)), first)
        if before < MEMBERSHIP_VERSION:
            refusal = upgrade.change_of_members()
            assert f"version {MEMBERSHIP_VERSION} is not in force yet; held back by the members: " in refusal, refusal

        # Two new members, and back.
        upgrade.replace(second, new)
        upgrade.wait_for_line(f"waits until it is understood by member {last}.", first)
        for member in (first, second):
            upgrade.replace(member, old)

        # All are new, but keep the way back open; and back.
        kept = Program(new_path, before)
        upgrade.replace_all(kept)
        upgrade.wait_for_line(f"The cluster version is {before}.\n")
        upgrade.wait_for_answers(f"no member announces more than version {before}",
                                 lambda answers: {one["newest_version"] for one in answers.values()} == {before})
        upgrade.replace_all(old)

        # All are new, and there is no way back.
        upgrade.replace_all(new)
        upgrade.wait_for_answers(f"all members have cluster version {newest}", lambda answers: len(answers) == 3 and all(
            one["cluster_version"] == newest for one in answers.values()))
        upgrade.wait_for_line(f"The cluster version is {newest}.\n")
        assert upgrade.change_of_members() == ""
        upgrade.wait_for_writes()
        for program, way_out in ((old, ""), (kept, f" is kept at {before} by {KEY}")):
            upgrade.is_refused(first, program, f"the cluster uses version {newest} of the log, and this "
                               + (f"server{way_out}" if way_out else ""))
            upgrade.replace(first, new)
        cluster.check_alive()
        written = sum(client.written for client in upgrade.clients)
        unanswered = sum(client.unanswered for client in upgrade.clients)
        return (f"cluster version {before} to {newest}, {upgrade.replaced} members replaced, {written} writes, "
                f"{unanswered} without an answer")
