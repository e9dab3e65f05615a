#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Kills servers with SIGKILL again and again, alone, in pairs and all at once, while clients
write and checkpoints, compactions and snapshots happen all the time. Afterwards, every acknowledged write
has been applied once, and the members' trees are equal, including the Stats.

  tests/storage/kills.py --kills 1000 [--seed N]     prints a line now and then, and figures at the end

Without --kills it is a module of tests/storage/run."""

import argparse
import collections
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), HERE]
import harness  # noqa: E402
import seed as suite_seed  # noqa: E402
import zkwire as zk  # noqa: E402

SETTINGS = ["snapCount=500", "logSegmentBytes=65536", "diskReserveMb=0", "ioThreads=1"]
SIZE = 3
CLIENTS = 4
NODES = 60  # the nodes of a client
WINDOW = 12  # how many writes of a client are under way
QUEUE_MAX = 80  # the most sequential nodes of a client
SESSION_MS = 40000
PROGRESS_SECONDS = 30
CHECK_EVERY = 100  # kills
KILLS_IN_SUITE = 40
# Files of a member's directory that are not its data.
NOT_DATA = ("myid", "zoo.cfg", "server.log", "server.pid")
RECOVERED = "counts as a member again"


class Wrong(AssertionError):
    """A violation of what must always hold."""


class Client(threading.Thread):
    """A session that moves from member to member, writes, and records the expected tree."""

    def __init__(self, number, addresses, seed):
        super().__init__(daemon=True)
        self.number, self.addresses = number, addresses
        self.random = random.Random(seed * 100 + number)
        self.home = f"/client-{number}"
        self.queue = f"{self.home}/queue"
        self.owned = f"{self.home}/owned"
        self.nodes = {}  # path -> (version, data)
        self.queued = {}  # path -> data
        self.tokens = 0
        self.acknowledged = self.unknown = self.reconnects = 0
        self.error = None
        self.stopping = threading.Event()
        self.pause = threading.Event()
        self.paused = threading.Event()
        self.connection = zk.Connection(addresses[number % len(addresses)], SESSION_MS)
        self.connection.create(self.home)
        self.connection.create(self.queue)
        self.connection.create(self.owned, b"", zk.EPHEMERAL)
        for i in range(NODES):
            path = f"{self.home}/{i}"
            self.connection.create(path, b"new")
            self.nodes[path] = (0, b"new")

    def run(self):
        try:
            while not self.stopping.is_set():
                if self.pause.is_set():
                    self.paused.set()
                    time.sleep(0.02)
                    continue
                self.paused.clear()
                self._round()
        except Exception as error:  # checked by the killer
            self.error = error
        finally:
            self.paused.set()

    def _token(self):
        self.tokens += 1
        size = self.random.choice((10, 100, 100, 1000, 3000))
        return b"%d-%d " % (self.number, self.tokens) + b"x" * size

    def _round(self):
        """Writes to some nodes at once, and records the outcomes."""
        writes = []
        for path in self.random.sample(sorted(self.nodes), WINDOW):
            version = self.nodes[path][0]
            data = self._token()
            given = version if self.random.random() < 0.5 else -1
            writes.append((zk.SET_DATA, path, data, zk.request_set(path, data, given)))
        data = self._token()
        writes.append((zk.CREATE, self.queue, data,
                       zk.request_create(self.queue + "/i-", data, zk.SEQUENTIAL)))
        if len(self.queued) > QUEUE_MAX:
            for path in self.random.sample(sorted(self.queued), 2):
                writes.append((zk.DELETE, path, None, zk.request_delete(path, -1)))
        answered = 0
        try:
            for operation, _, _, body in writes:
                self.connection.submit(operation, body)
            for operation, path, data, _ in writes:
                reply = self.connection.receive()
                if reply.err != zk.OK:
                    raise Wrong(f"operation {operation} on {path} fails with {reply.err}")
                self._done(operation, path, data, reply)
                answered += 1
        except zk.Closed:
            self.unknown += len(writes) - answered
            self._find_out(writes[answered:])

    def _done(self, operation, path, data, reply):
        self.acknowledged += 1
        if operation == zk.SET_DATA:
            version = zk.Reader(reply.body).stat().version
            if version != self.nodes[path][0] + 1:
                raise Wrong(f"{path} has version {version} after {self.nodes[path][0]}")
            self.nodes[path] = (version, data)
        elif operation == zk.CREATE:
            name = zk.Reader(reply.body).ustring()
            if name in self.queued:
                raise Wrong(f"{name} was given twice")
            self.queued[name] = data
        else:
            del self.queued[path]

    def _find_out(self, writes):
        """Finds out which of the unanswered writes were applied. The session has moved, so none of
        them can be applied any more."""
        while not self.stopping.is_set():
            try:
                self._reconnect()
                for operation, path, data, _ in writes:
                    self._look(operation, path, data)
                return
            except zk.SessionRefused:
                raise
            except zk.Closed:
                time.sleep(0.02)

    def _look(self, operation, path, data):
        if operation == zk.SET_DATA:
            there, stat = self.connection.get(path)
            version, known = self.nodes[path]
            if (stat.version, there) == (version + 1, data):
                self.nodes[path] = (stat.version, there)
            elif (stat.version, there) != (version, known):
                raise Wrong(f"{path} has version {stat.version} and {there[:20]}; last acknowledged: "
                            f"{version} and {known[:20]}, and {data[:20]} was under way")
        elif operation == zk.CREATE:
            there = {f"{path}/{name}" for name in self.connection.children(path)}
            new = there - self.queued.keys()
            if len(new) > 1:
                raise Wrong(f"one create made {sorted(new)}")
            for name in new:
                found = self.connection.get(name)[0]
                if found != data:
                    raise Wrong(f"{name} holds {found[:20]}, not {data[:20]}")
                self.queued[name] = data
        elif not self.connection.exists(path):
            self.queued.pop(path, None)

    def _reconnect(self):
        session, zxid = self.connection.session, self.connection.last_zxid
        self.connection.abandon()
        self.connection = zk.Connection(self.random.choice(self.addresses), SESSION_MS,
                                        session=session, last_zxid=zxid, timeout=5)
        self.reconnects += 1

    def check(self, tree, member):
        """Checks that `tree`, of a member, has exactly the nodes of this client that it expects."""
        wanted = {path: (version, data) for path, (version, data) in self.nodes.items()}
        wanted |= {path: (0, data) for path, data in self.queued.items()}
        wanted |= {path: (0, b"") for path in (self.home, self.queue, self.owned)}
        there = {path: (stat.version, data) for path, (data, stat) in tree.items()
                 if path == self.home or path.startswith(self.home + "/")}
        for path in wanted.keys() | there.keys():
            if wanted.get(path) != there.get(path):
                raise Wrong(f"member {member}: {path} is {there.get(path)}, but {wanted.get(path)} "
                            "was acknowledged")


class Servers:
    """The processes of a cluster, started and killed directly, because tools/cluster takes too long."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.binary = os.environ.get("QUORATED", harness.SERVERS["quorate"])
        self.processes = {}

    def start(self, member, environment=None):
        directory = self.cluster.member_dir(member)
        with open(os.path.join(directory, "server.log"), "ab") as log:
            process = subprocess.Popen(
                [os.path.realpath(self.binary), os.path.join(directory, "zoo.cfg")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory, env=environment)
        self.processes[member] = process

    def kill(self, member):
        process = self.processes.pop(member)
        process.send_signal(signal.SIGKILL)
        if process.wait() != -signal.SIGKILL:
            self._died(member, process)

    def lose_disk(self, member):
        """Deletes all data of a member. REQUIRES: it was killed."""
        directory = self.cluster.member_dir(member)
        for name in set(os.listdir(directory)) - set(NOT_DATA):
            path = os.path.join(directory, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)

    def check(self):
        for member, process in self.processes.items():
            if process.poll() is not None:
                self._died(member, process)

    def _died(self, member, process):
        raise Wrong(f"member {member} ended by itself with {process.returncode}:\n" +
                    harness.end_of(self.cluster.log(member)))

    def remove(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.processes.clear()


def walk(address):
    """Returns {path: (data, stat)} of the whole tree, after a sync."""
    nodes = {}
    with zk.Connection(address, timeout=PROGRESS_SECONDS) as reader:
        reader.sync()
        level = ["/"]
        while level:
            for path in level:
                reader.submit(zk.GET_DATA, zk.request_path_watch(path, False))
                reader.submit(zk.GET_CHILDREN, zk.request_path_watch(path, False))
            below = []
            for path in level:
                got = reader.receive()
                children = reader.receive()
                assert (got.err, children.err) == (zk.OK, zk.OK), path
                fields = zk.Reader(got.body)
                nodes[path] = (fields.buffer(), fields.stat())
                below += [f"{path.rstrip('/')}/{name}" for name in zk.Reader(children.body).strings()]
            level = below
        reader.close()
    return nodes


class UnderLoad:
    """Running members, writing clients, and the checks of both."""

    def __init__(self, cluster, clients):
        """Ends the servers of `cluster`, in order to start them directly."""
        self.cluster, self.clients = cluster, clients
        self.servers = Servers(cluster)
        cluster.command("down")

    def start(self, member):
        self.servers.start(member)

    def begin(self):
        for member in self.cluster.numbers():
            self.start(member)
        for client in self.clients:
            client.start()
        self.await_progress()

    def end(self):
        for client in self.clients:
            client.stopping.set()
        self.servers.remove()
        for client in self.clients:
            client.join(20)

    def await_progress(self, clients=None, writes=1):
        """Waits until each of `clients` has so many more acknowledged writes; None: all clients."""
        clients = self.clients if clients is None else clients
        deadline = time.monotonic() + PROGRESS_SECONDS
        wanted = [client.acknowledged + writes for client in clients]
        while any(client.acknowledged < count for client, count in zip(clients, wanted)):
            self.check_clients()
            self.servers.check()
            if time.monotonic() > deadline:
                raise Wrong(f"no progress within {PROGRESS_SECONDS} s\n{self.cluster.diagnosis()}")
            time.sleep(0.01)

    def check_clients(self):
        for client in self.clients:
            if client.error:
                raise Wrong(f"client {client.number}: {client.error}") from client.error

    def pause(self):
        """Pauses the clients, and waits until none of them waits for an answer. REQUIRES: all servers that they need
        run."""
        for client in self.clients:
            client.pause.set()
        for client in self.clients:
            if not client.paused.wait(PROGRESS_SECONDS):
                raise Wrong(f"client {client.number} is stuck")
        self.check_clients()

    def go_on(self):
        for client in self.clients:
            client.pause.clear()

    def check_all(self):
        """Checks that all members have all acknowledged writes, and that their trees are equal."""
        self.await_progress()
        self.pause()
        trees = {member: self._walk(member) for member in self.cluster.numbers()}
        for member, tree in trees.items():
            for client in self.clients:
                client.check(tree, member)
            different = [path for path in tree.keys() | trees[1].keys()
                         if tree.get(path) != trees[1].get(path)]
            if different:
                path = min(different)
                raise Wrong(f"members 1 and {member} differ in {len(different)} nodes; {path}: "
                            f"{trees[1].get(path)} and {tree.get(path)}")
        self.go_on()

    def _walk(self, member):
        deadline = time.monotonic() + PROGRESS_SECONDS
        while True:
            self.servers.check()
            try:
                return walk(self.cluster.address(member))
            except zk.Closed:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


class Killing(UnderLoad):
    def __init__(self, cluster, kills, seed, report=None):
        addresses = [cluster.address(i) for i in cluster.numbers()]
        super().__init__(cluster, [Client(i, addresses, seed) for i in range(CLIENTS)])
        self.kills, self.report = kills, report
        self.random = random.Random(seed)
        self.done = 0
        self.groups = collections.Counter()
        self.lost = None  # the last member whose disk was lost, and how often it had recovered
        self.disks_lost = 0

    def run(self):
        try:
            self.begin()
            while self.done < self.kills:
                before = self.done
                self._kill_some()
                if before // CHECK_EVERY != self.done // CHECK_EVERY:
                    self._check()
            self._check()
        finally:
            self.end()
        return self._summary()

    def _check(self):
        self.check_all()
        if self.report:
            self.report(self._summary())

    def _kill_some(self):
        """Kills a group of members, one after the other or at once, and starts them again; at times one of them
        with an empty disk."""
        self.servers.check()
        size = self.random.choices((1, 2, 3), (6, 3, 2))[0]
        group = self.random.sample(list(self.servers.processes),
                                   min(size, len(self.servers.processes)))
        self.groups[len(group)] += 1
        for member in group:
            self.servers.kill(member)
            self.done += 1
            if self.random.random() < 0.3:
                time.sleep(self.random.random() * 0.05)
        time.sleep(self.random.choice((0, 0, 0.02, 0.1)))
        if len(group) == 1 and self.random.random() < 0.2:
            self._lose_disk(group[0])
        for member in group:
            self.servers.start(member)
        # Usually waits until writes are acknowledged again; sometimes kills again in the middle of the start.
        if self.random.random() < 0.7:
            self.await_progress()
            time.sleep(self.random.random() * 0.2)
        else:
            time.sleep(self.random.random() * 0.3)

    def _lose_disk(self, member):
        """At times deletes the member's data, so that it catches up by a snapshot. Never while another member has not
        recovered."""
        if self.lost is not None:
            loser, recoveries = self.lost
            if self.cluster.log(loser).count(RECOVERED) == recoveries:
                return
        self.lost = member, self.cluster.log(member).count(RECOVERED)
        self.disks_lost += 1
        self.servers.lose_disk(member)

    def _summary(self):
        def count(text):
            return sum(self.cluster.log(i).count(text) for i in self.cluster.numbers())
        total = sum(client.acknowledged for client in self.clients)
        unknown = sum(client.unknown for client in self.clients)
        groups = ", ".join(f"{n} x {size}" for size, n in sorted(self.groups.items()))
        return (f"{self.done} kills ({groups}), {self.disks_lost} disks lost, {total} writes acknowledged and {unknown} unknown, "
                f"{sum(client.reconnects for client in self.clients)} reconnects, "
                f"{count('written in')} checkpoints, {count('snapshot of zxid')} snapshots installed")


def alone_members_are_killed_all_the_time(server):
    if server != "quorate":
        raise harness.Skipped("about our own checkpoints")
    with harness.Cluster(server, size=SIZE, settings=SETTINGS) as cluster:
        return Killing(cluster, KILLS_IN_SUITE, suite_seed.number).run()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    harness.prepare("quorate")
    started = time.monotonic()

    def report(text):
        print(f"{time.monotonic() - started:6.0f} s  {text}", flush=True)
    with harness.Cluster("quorate", size=SIZE, settings=SETTINGS) as cluster:
        report("all well: " + Killing(cluster, options.kills, options.seed, report).run())


if __name__ == "__main__":
    main()
