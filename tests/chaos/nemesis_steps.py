# SPDX-License-Identifier: Apache-2.0
"""Tests one step of each nemesis: it has the effect that it reports, on the members that it reports, until it is
ended."""

import argparse
import contextlib
import itertools
import os
import signal
import socket
import time
from unittest import mock

import harness
import members
import nemeses
import plan
import runner
import zkwire as zk
from full_disk import MIB, RESERVE_MIB
from links import Links
from network import CONTROL, Network
from network_steps import PORT, socket_on
from workers import Worker

REFUSED = -1  # SystemError: the disk has too little free space
PATIENCE_SECONDS = 30
SECONDS = 60  # the length of a fault, which a test ends earlier
SEEDS = range(6)  # for tests of random choices
LEADER = 2  # the leader in scenes without servers
TRIES = 3  # a try is repeated if the leader changes meanwhile
LEFT_BY_A_WIPE = ("myid", "zoo.cfg", "server.")


def _await(what, condition):
    """Waits until the condition holds, and returns its value."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (said := condition()):
        assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS} s: {what}"
        time.sleep(0.02)
    return said


class _Log:
    """Keeps the members and the text that the last fault reported."""

    def write(self, what, **fields):
        if what == "fault":
            self.members, self.text = fields["members"], fields["text"]


def _leading(scene, leader):
    """Makes nemeses see `leader` as the leader, as the test did, although another member may become leader at any
    time. None: nemeses ask the members."""
    if leader is None:
        return contextlib.nullcontext()
    return mock.patch.object(scene.cluster, "leader_now", return_value=leader)


@contextlib.contextmanager
def _begun(scene, name, seed=0, leader=None):
    """Begins a fault; heals it at the end of the `with`."""
    log = _Log()
    fault = runner.Fault(1, plan.Planned(0, SECONDS, name, seed), log)
    generator = nemeses.function_of(name)(scene, fault)
    with _leading(scene, leader):
        next(generator)
    try:
        yield log
    finally:
        generator.close()


def _done(scene, name, seed=0, at_each_step=lambda: None, leader=None):
    """Runs a fault until it ends by itself, and returns it."""
    log = _Log()
    fault = runner.Fault(1, plan.Planned(0, 0, name, seed), log)
    with _leading(scene, leader):
        for seconds in nemeses.function_of(name)(scene, fault):
            at_each_step()
            time.sleep(seconds)
    return log


# The network: nodes without servers.


class _Nodes:
    """A scene of five members without servers, one of which counts as the leader, and of the workers in `network`."""

    def __init__(self, network):
        self.network = network
        self.cluster = argparse.Namespace(size=5, numbers=lambda: range(1, 6))
        self.nodes = network.members + network.workers

    def some(self, fault, count):
        return fault.chance.sample(list(self.cluster.numbers()), count)

    def leader_or_any(self, _):
        return [LEADER]


class _NetworkScene(_Nodes):
    def __init__(self):
        super().__init__(Network(5, 2, seed=1))
        self.sockets = {node: socket_on(self.network, node) for node in [*self.nodes, CONTROL]}
        self.sockets[CONTROL].settimeout(PATIENCE_SECONDS)

    def _send(self, sender, receiver):
        self.sockets[sender].sendto(b"x", (self.network.addresses[receiver], PORT))

    def passing(self):
        """Returns the pairs of nodes between which a packet passes. The packets of a node stay in their order, and its
        packets to the control node always pass: when one arrives, the switch has handled all packets before it."""
        pairs = list(itertools.permutations(self.nodes, 2))
        before = {pair: self.network.delivered(*pair) for pair in pairs}
        for sender, receiver in pairs:
            self._send(sender, receiver)
        for node in self.nodes:
            self._send(node, CONTROL)
        for _ in self.nodes:
            self.sockets[CONTROL].recv(1)
        return {pair for pair in pairs if self.network.delivered(*pair) > before[pair]}

    def end(self):
        self.network.end()


class _LinksScene(_Nodes):
    """Members that are sockets, and connections between all of them."""

    def __init__(self):
        super().__init__(Links(5, seed=1))
        listening = [socket.create_server((harness.HOST, 0)) for _ in self.nodes]
        self.network.lead_to([each.getsockname()[1] for each in listening])
        self.connections, self.accepted = {}, []
        for sender, receiver in itertools.permutations(self.nodes, 2):
            port = self.network.port(sender, receiver)
            self.connections[sender, receiver] = socket.create_connection((harness.HOST, port), PATIENCE_SECONDS)
            self.accepted.append(listening[self.nodes.index(receiver)].accept()[0])
        for each in listening:
            each.close()

    def passing(self):
        """Returns the pairs of nodes between which data passes; between the others it is held."""
        before = {pair: self.network.delivered(*pair) for pair in self.connections}
        for connection in self.connections.values():
            connection.sendall(b"x")

        def passed(pair):
            return self.network.delivered(*pair) > before[pair]

        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all(passed(pair) or self.network.holds(*pair) for pair in self.connections):
            assert time.monotonic() < deadline, "some data is neither delivered nor held"
            time.sleep(0.001)
        return {pair for pair in self.connections if passed(pair)}

    def end(self):
        for connection in [*self.connections.values(), *self.accepted]:
            connection.close()
        self.network.end()


def _check_network(name, check, make_scene):
    scene = make_scene()
    try:
        everything = set(itertools.permutations(scene.nodes, 2))
        assert scene.passing() == everything, "packets are lost without a fault"
        for seed in SEEDS:
            with _begun(scene, name, seed) as fault:
                cut = everything - scene.passing()
                check(scene, fault, cut)
            assert scene.passing() == everything, f"seed {seed}: the fault is not healed"
    finally:
        scene.end()


def _check_split(scene, fault, cut):
    sides = [side.split() for side in fault.text.split(" | ")]
    assert cut == {pair for one, other in itertools.product(*sides) for pair in ((one, other), (other, one))}, fault.text
    there = [node for side in sides for node in side if node in scene.network.members]
    assert sorted(there) == scene.network.members, fault.text
    assert [f"member{i}" for i in fault.members] == [node for node in sides[0] if node in there], fault.text


def isolate_leader_cuts_it_off(make_scene=_NetworkScene):
    def check(scene, fault, cut):
        assert fault.members == [LEADER], fault.members
        _check_split(scene, fault, cut)
    _check_network("isolate-leader", check, make_scene)


def halves_do_not_hear_each_other(make_scene=_NetworkScene):
    def check(scene, fault, cut):
        assert len(fault.members) == 2, fault.members
        _check_split(scene, fault, cut)
    _check_network("halves", check, make_scene)


def ring_lets_each_see_its_neighbours(make_scene=_NetworkScene):
    def check(scene, fault, cut):
        order = fault.text.split()
        assert sorted(order) == scene.network.members
        neighbours = set()
        for one, other in zip(order, order[1:] + order[:1]):
            neighbours |= {(one, other), (other, one)}
        assert cut == set(itertools.permutations(scene.network.members, 2)) - neighbours, f"{order}: {sorted(cut)}"
    _check_network("ring", check, make_scene)


def one_way_lets_a_member_hear_or_be_heard(make_scene=_NetworkScene):
    seen = set()

    def check(scene, fault, cut):
        (node,) = (f"member{i}" for i in fault.members)
        hears = fault.text == "receives packets and sends none"
        others = {receiver if hears else sender for sender, receiver in cut}
        assert cut == {(node, other) if hears else (other, node) for other in others}, f"{fault.text}: {sorted(cut)}"
        assert others in (set(scene.network.members) - {node}, set(scene.nodes) - {node}), others
        seen.add(hears)
    _check_network("one-way", check, make_scene)
    assert seen == {True, False}, "other seeds are needed: this was one of the two ways only"


def proxies_cut_what_they_are_told_to():
    """Nemeses have the same effect where members have no network of their own."""
    for test in (isolate_leader_cuts_it_off, halves_do_not_hear_each_other, ring_lets_each_see_its_neighbours,
                 one_way_lets_a_member_hear_or_be_heard):
        test(_LinksScene)
    scene = _LinksScene()
    try:
        with _begun(scene, "delay", 1):
            assert scene.passing() == set(scene.connections), "delayed data does not arrive"
        scene.network.set(["member1"], ["member2"], "drop")
        first, second = scene.connections["member1", "member2"], scene.connections["member2", "member1"]
        # Uses a connection from before and one that is made meanwhile; no data is lost.
        late = socket.create_connection((harness.HOST, scene.network.port("member1", "member2")), PATIENCE_SECONDS)
        before = scene.network.delivered("member1", "member2")
        for connection in (first, second, late):
            connection.sendall(b"y")
        _await("what is held", lambda: scene.network.holds("member1", "member2"))
        assert scene.network.delivered("member1", "member2") == before
        scene.network.heal()
        _await("what was held", lambda: scene.network.delivered("member1", "member2") > before)
        late.close()
        try:
            scene.network.set(["member1"], ["member2"], "loss=0.5")
        except ValueError as error:
            assert "a proxy does not do that" in str(error), error
        else:
            raise AssertionError("the proxy accepts the rule loss, which it cannot apply")
    finally:
        scene.end()


def delay_loss_duplicate_reorder_and_rate_are_in_force_at_whom_they_say():
    """Checks which nodes have the rules; network_steps.py tests the effect of the rules."""
    scene = _NetworkScene()
    try:
        for name, seed in itertools.product(("delay", "loss", "duplicate", "reorder", "rate"), SEEDS):
            rules = {}
            set_all = scene.network.set

            def note(senders, receivers, rule):
                set_all(senders, receivers, rule)
                rules.update({(a, b): rule for a, b in itertools.product(senders, receivers) if a != b})

            with mock.patch.object(scene.network, "set", note), _begun(scene, name, seed) as fault:
                nodes = {f"member{i}" for i in fault.members}
                assert fault.text.startswith(f"{name}="), fault.text
                assert rules == {pair: fault.text for pair in itertools.permutations(scene.nodes, 2)
                                 if nodes & set(pair)}, f"{name}, seed {seed}"
            with mock.patch.object(scene.network, "heal") as heal:
                with _begun(scene, name, seed):
                    heal.assert_not_called()
                heal.assert_called_once_with()
            scene.network.heal()
    finally:
        scene.network.end()


# Workers


def worker_pause_and_worker_kill_are_for_one_worker(options):
    worker = Worker(1, 0, ["cat"], os.path.join(options.directory, "worker.jsonl"), [])
    replaced = []
    scene = argparse.Namespace(a_worker=lambda fault: worker, replace_worker=replaced.append)
    try:
        with _begun(scene, "worker-pause") as fault:
            _await("a worker that is stopped", lambda: _state(worker.process.pid) == "T")
            assert fault.text == "worker 1 stopped" and not fault.members
        _await("a worker that goes on", lambda: _state(worker.process.pid) != "T")
        assert not replaced, "there is another one in its place"
        with _begun(scene, "worker-kill") as fault:
            assert worker.process.returncode == -signal.SIGKILL and fault.text == "worker 1 killed"
            assert not replaced, "there is another one already"
        assert replaced == [worker], "there is no other one in its place"
    finally:
        worker.kill()


def _state(pid):
    """Returns the state as ps shows it; T is stopped."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


# Members of a cluster


class _Steps:
    """The tests on one cluster, one method for each nemesis."""

    def __init__(self, options):
        self.server = options.server
        log = runner.Log(os.path.join(options.output, "nemesis-steps.jsonl"))
        names = [name for name in nemeses.NAMES if self.applies(name)]
        self.scene = runner.Scene(argparse.Namespace(
            server=options.server, size=3, seed=1, frontends=["zookeeper"], workloads=[], recipes=[], nemeses=names,
            why_no_network=options.why_no_network, environment={}, output=options.output, directory=options.directory,
            session_timeout_ms=4000, tls=False), options.directory, log)
        self.cluster = self.scene.cluster

    def applies(self, name):
        return self.server == "quorate" or name not in nemeses.ONLY_QUORATE

    def pids(self):
        """Waits until all members serve, and returns their pids."""
        self.cluster.wait_until_all_serve(PATIENCE_SECONDS)
        return {i: self.cluster.pid(i) for i in self.cluster.numbers()}

    def leader(self):
        return _await("a leader", self.cluster.leader_now)

    def another_leader(self, leader):
        """Waits for another leader than that one, and returns it."""
        return _await("another leader", lambda: {self.cluster.leader_now()} - {None, leader}).pop()

    def _check_kill(self, name, count, leader=None):
        """Checks that `count` members are killed by SIGKILL, the others go on, and all come back. Returns the killed
        members."""
        before = self.pids()
        with _begun(self.scene, name, leader=leader) as fault:
            assert fault.text == "killed" and len(set(fault.members)) == count, fault.members
            alive = {i: pid for i, pid in before.items() if i not in fault.members}
            assert {i: self.cluster.pid(i) for i in self.cluster.running()} == alive, f"{fault.members}: {before}"
            for i in fault.members:
                _await("its end", lambda i=i: self.cluster.end_of(i) != members.UNKNOWN)
                assert self.cluster.end_of(i) == "signal 9", f"member {i}: {self.cluster.end_of(i)}"
        after = self.pids()
        assert all((after[i] == pid) == (i not in fault.members) for i, pid in before.items()), f"{before}, {after}"
        return fault.members

    def kill(self):
        self._check_kill("kill", 1)

    def kill_leader(self):
        leader = self.leader()
        assert self._check_kill("kill-leader", 1, leader) == [leader]

    def kill_majority(self):
        self._check_kill("kill-majority", 2)

    def kill_all(self):
        """Checks that no member has time to notice that another one has ended."""
        calls = []
        send, wait = signal.pidfd_send_signal, members.select.select

        def noting(what, function):
            def noted(*arguments):
                calls.append(what)
                return function(*arguments)
            return noted

        with mock.patch.object(members.signal, "pidfd_send_signal", noting("signal", send)), \
                mock.patch.object(members.select, "select", noting("wait", wait)):
            self._check_kill("kill-all", 3)
        assert calls[:6] == ["signal"] * 3 + ["wait"] * 3, calls

    def pause(self):
        before, leader = self.pids(), self.leader()
        with _begun(self.scene, "pause", leader=leader) as fault:
            (member,) = fault.members
            assert member != leader, f"member {member} leads"
            _await(f"member {member} stopped", lambda: _state(before[member]) == "T")
            assert all(_state(before[i]) != "T" for i in before if i != member), "others are stopped too"
        assert self.pids() == before

    def pause_leader(self):
        before, leader = self.pids(), self.leader()
        with _begun(self.scene, "pause-leader", leader=leader) as fault:
            assert fault.members == [leader], f"{fault.members}, leader {leader}"
            _await(f"member {leader} stopped", lambda: _state(before[leader]) == "T")
            self.another_leader(leader)
        assert self.pids() == before

    def rolling_restart(self):
        before, running = self.pids(), []
        fault = _done(self.scene, "rolling-restart", at_each_step=lambda: running.append(self.cluster.running()))
        after = self.pids()
        assert list(fault.members) == [1, 2, 3] and min(map(len, running)) >= 2, f"{fault.members}, {running}"
        assert not set(before.values()) & set(after.values()), f"{before}, {after}"
        assert not self.cluster.strange_ends(), self.cluster.strange_ends()

    def transfer(self):
        for _ in range(TRIES):
            before, leader = self.pids(), self.leader()
            fault = _done(self.scene, "transfer", leader=leader)
            assert fault.members == [leader], fault.members
            leads_now = self.another_leader(leader)
            assert self.pids() == before
            if fault.text == f"leadership to member {leads_now}":
                return
        raise AssertionError(f"{fault.text}, and member {leads_now} leads, {TRIES} times")

    def wipe(self):
        self.pids()
        with zk.Connection(self.cluster.address(self.leader())) as connection:
            connection.create("/before-the-wipe")
            connection.close()
        log = _Log()
        generator = nemeses.wipe(self.scene, runner.Fault(1, plan.Planned(0, 0, "wipe", 0), log))
        next(generator)
        (member,) = log.members
        left = os.listdir(self.cluster.member_dir(member))
        assert not self.cluster.pid(member) and all(name.startswith(LEFT_BY_A_WIPE) for name in left), left
        assert self.scene.not_counting() == [member]
        for seconds in generator:
            time.sleep(seconds)
        self.pids()
        _await("a member that counts", lambda: not self.scene.not_counting())
        with zk.Connection(self.cluster.address(member)) as connection:
            connection.sync()
            assert connection.exists("/before-the-wipe"), "the wiped member did not get its data back"
            connection.close()

    def full_disk(self):
        self.pids()
        for seed in SEEDS:
            with _begun(self.scene, "full-disk", seed) as fault:
                assert set(self._members_without_free_space()) == set(fault.members), f"{fault.members}: {fault.text}"
            assert not self._members_without_free_space(), "it is not healed"

    def _members_without_free_space(self):
        """Returns the members with less free space than servers reserve."""
        return [member for member, disk in self.cluster.disks.items() if disk.free() < RESERVE_MIB * MIB]

    def _controls(self):
        """Returns the settings of the disks: {member: (ms of a sync, ms of a write, whether it is stalled)}."""
        found = {}
        for member in self.cluster.numbers():
            with open(self.cluster.controls[member].path, "rb") as file:
                data = file.read()
            found[member] = tuple(int.from_bytes(data[i:i + 4], "little") for i in (0, 4, 8))
        return found

    def _check_disk(self, name, expected):
        pids = self.pids()
        for member, pid in pids.items():
            with open(f"/proc/{pid}/maps", encoding="ascii") as file:
                assert self.cluster.controls[member].path in file.read(), f"member {member} does not look at its control"
        for seed in SEEDS:
            with _begun(self.scene, name, seed) as fault:
                assert self._controls() == {i: expected(fault.text) if i in fault.members else (0, 0, 0)
                                            for i in self.cluster.numbers()}, f"{fault.members}: {fault.text}"
            assert set(self._controls().values()) == {(0, 0, 0)}, "it is not healed"

    def slow_disk(self):
        def expected(text):
            sync_ms = int(text.split()[-2])
            return sync_ms, sync_ms // 10, 0
        self._check_disk("slow-disk", expected)

    def stalled_disk(self):
        self._check_disk("stalled-disk", lambda _: (0, 0, 1))

    def _clocks(self):
        """Returns by how many seconds each member's clock is off."""
        found = {}
        for member in self.cluster.numbers():
            with open(self.cluster.clock_file(member), encoding="ascii") as file:
                found[member] = float(file.read())
        return found

    def clock(self):
        """Checks the time of the leader's writes. Time in the tree never goes back, so a jump back has no visible
        effect."""
        self.pids()
        right = dict.fromkeys(self.cluster.numbers(), 0)
        with zk.Connection(self.cluster.address(self.leader()), timeout=PATIENCE_SECONDS) as connection:
            # Members whose disks were full a moment ago may still refuse data.
            def is_made():
                try:
                    connection.create("/clock")
                except zk.ZkError as error:
                    if error.code != REFUSED:
                        raise
                    return False
                return True

            def has_come_to(seconds):
                before = time.time()
                try:
                    wall = connection.set("/clock", b"", -1).mtime / 1000
                except zk.ZkError as error:
                    if error.code != REFUSED:
                        raise
                    return False
                return before - 2 < wall - seconds < time.time() + 2

            _await("a node is created", is_made)
            _await("the time is right", lambda: has_come_to(0))
            was_seen = False
            for seed in itertools.count():
                with _begun(self.scene, "clock", seed) as fault:
                    jump = float(fault.text.split()[0])
                    assert self._clocks() == {**right, **dict.fromkeys(fault.members, jump)}, fault.text
                    if not was_seen and jump >= 5 and len(fault.members) == 3:
                        _await(f"the time is {fault.text} ahead", lambda jump=jump: has_come_to(jump))
                        was_seen = True
                assert self._clocks() == right, "it is not healed"
                if was_seen and seed >= max(SEEDS):
                    break
            connection.close()


NETWORK = (isolate_leader_cuts_it_off, halves_do_not_hear_each_other, ring_lets_each_see_its_neighbours,
           one_way_lets_a_member_hear_or_be_heard,
           delay_loss_duplicate_reorder_and_rate_are_in_force_at_whom_they_say)
# The first two take little time. Nemeses that need a stable leader come before those that make leaders change.
MEMBERS = ("slow-disk", "stalled-disk", "full-disk", "clock", "pause", "kill", "kill-leader", "kill-majority", "kill-all",
           "pause-leader", "rolling-restart", "transfer", "wipe")


def run(tests, options):
    tests.run("chaos nemesis: proxies cut what they are told to", proxies_cut_what_they_are_told_to)
    if not options.why_no_network:
        for test in NETWORK:
            tests.run(f"chaos nemesis: {test.__name__.replace('_', ' ')}", test)
    tests.run("chaos nemesis: worker-pause and worker-kill", worker_pause_and_worker_kill_are_for_one_worker, options)
    names = [f"chaos nemesis: {name}" for name in MEMBERS]
    if not options.is_sandboxed or not any(map(tests.wants, names)):
        return
    try:
        steps = _Steps(options)
    except (AssertionError, RuntimeError) as error:
        tests.abort(filter(tests.wants, names), error)
        return
    try:
        for name, title in zip(MEMBERS, names):
            if steps.applies(name):
                tests.run(title, getattr(steps, name.replace("-", "_")))
    finally:
        steps.scene.close()
