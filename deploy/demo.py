#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Shows what a running cluster (tools/cluster) does, step by step, with an ordinary ZooKeeper
client. Exits with status 1 at the first step that fails.

  deploy/demo.py [--dir D]     D: the cluster's directory, as for tools/cluster
"""

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

try:
    from kazoo.client import KazooClient
    from kazoo.protocol.states import KazooState
except ImportError:
    sys.exit("Kazoo is missing: run deploy/install_packages")

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
BASE = "/quickstart"
LOCK_SESSION_SECONDS = 4
WRITING_SECONDS = 3
PATIENCE_SECONDS = 30


class StepFailed(Exception):
    """A step did not have the expected result."""


def check(condition, message):
    if not condition:
        raise StepFailed(message)


class Demo:
    """Runs the steps, in order. `cluster_arguments` are passed to tools/cluster."""

    def __init__(self, cluster_arguments):
        self.cluster_arguments = cluster_arguments
        self.hosts = self.cluster("hosts").split(",")
        self.step_number = 0

    def cluster(self, *words):
        result = subprocess.run([os.path.join(ROOT, "tools/cluster"), *self.cluster_arguments, *words],
                                capture_output=True, text=True, check=False)
        check(result.returncode == 0, f"tools/cluster {' '.join(words)}: {result.stderr.strip()}")
        return result.stdout.strip()

    def connect(self, member, session_seconds=20):
        client = KazooClient(self.hosts[member - 1], timeout=session_seconds)
        client.start(timeout=PATIENCE_SECONDS)
        return client

    def step(self, title, explanation):
        self.step_number += 1
        if self.step_number > 1:
            print()
        print(f"{self.step_number}. {title}")
        print(textwrap.indent(textwrap.fill(explanation, 92), "   "))
        print(flush=True)

    def run(self):
        check(len(self.hosts) == 3, "this shows a cluster of three members")
        with_client = self.connect(1)
        with_client.delete(BASE, recursive=True)
        with_client.create(BASE)
        close(with_client)
        self.write_and_read()
        self.watch()
        self.lock()
        self.kill_leader()

    def write_and_read(self):
        self.step("Write through one member, read through another",
                  "Every member serves every client. A write is answered when a majority has it on disk.")
        writer, reader = self.connect(1), self.connect(2)
        path = f"{BASE}/config"
        value = b"replicas=3"
        writer.create(path, value)
        show("member 1", f"create {path} {value.decode()!r}")
        reader.sync(path)
        data, stat = reader.get(path)
        show("member 2", f"get    {path} -> {data.decode()!r}  (version {stat.version}, zxid {stat.czxid})")
        check(data == value, f"member 2 says {data!r}")
        close(writer, reader)

    def watch(self):
        self.step("A watch that fires",
                  "A client watches a znode. When the znode changes, the client's own member sends it the "
                  "event, whichever member received the change.")
        watcher, writer = self.connect(3), self.connect(1)
        path = f"{BASE}/config"
        fired = threading.Event()
        seen = []

        def on_change(event):
            seen.append((event, time.monotonic()))
            fired.set()
        watcher.sync(path)
        watcher.get(path, watch=on_change)
        show("member 3", f"get    {path}, with a watch")
        started = time.monotonic()
        writer.set(path, b"replicas=5")
        show("member 1", f"set    {path} 'replicas=5'")
        check(fired.wait(PATIENCE_SECONDS), "the watch never fired")
        event, when = seen[0]
        show("member 3", f"event  {event.type} {event.path}, {(when - started) * 1000:.1f} ms after the set began")
        check(event.path == path and event.type == "CHANGED", f"another event came: {event}")
        check(watcher.get(path)[0] == b"replicas=5", "the event came before the change can be read")
        close(watcher, writer)

    def lock(self):
        self.step("A lock whose holder dies",
                  f"Two processes want one lock. The first gets it and is killed with SIGKILL. Its session "
                  f"(timeout {LOCK_SESSION_SECONDS} s) ends, its ephemeral znode is deleted, and the second "
                  "process gets the lock.")
        messages = multiprocessing.Queue()
        holder = multiprocessing.Process(target=hold_lock, args=(self.hosts[0], messages), daemon=True)
        holder.start()
        check(messages.get(timeout=PATIENCE_SECONDS) == "locked", "no process got the lock")
        show("process A", f"has the lock (pid {holder.pid})")
        second = self.connect(2)
        lock = second.Lock(f"{BASE}/lock", "process B")
        second.sync(BASE)
        check(not lock.acquire(blocking=False), "two processes have the lock at once")
        show("process B", "waits for the lock")
        os.kill(holder.pid, signal.SIGKILL)
        holder.join()
        killed = time.monotonic()
        show("process A", "is killed")
        check(lock.acquire(timeout=PATIENCE_SECONDS), "the lock of the killed process was never released")
        show("process B", f"has the lock, {time.monotonic() - killed:.1f} s after the death of A")
        lock.release()
        close(second)

    def kill_leader(self):
        leader = int(self.cluster("leader"))
        home = leader % 3 + 1
        self.step("The leader dies while a client writes",
                  f"Member {leader} leads. A client of member {home} writes as fast as it is answered. "
                  f"Meanwhile member {leader} is killed with SIGKILL. The other two elect a leader and go on. "
                  "The client sees a short pause and no error.")
        client = self.connect(home)
        losses = []
        client.add_listener(lambda state: losses.append(state) if state != KazooState.CONNECTED else None)
        client.create(f"{BASE}/log")
        writer = Writer(client, f"{BASE}/log/entry-")
        writer.start()
        time.sleep(WRITING_SECONDS / 3)
        show(f"member {leader}", "SIGKILL")
        killed = time.monotonic()
        self.cluster("kill", str(leader))
        time.sleep(WRITING_SECONDS)
        writer.stop()
        before, after = writer.around(killed)
        show(f"member {home}", f"{len(before)} writes answered before the kill, {len(after)} after it")
        show("", f"longest pause between two answers: {writer.longest_pause() * 1000:.0f} ms")
        show("", f"connections lost: {len(losses)}")
        check(writer.error is None, f"the client got {writer.error!r}")
        check(not losses, "the client of a member that lived lost its connection")
        check(after, "no write was answered after the kill")
        stored = set(client.get_children(f"{BASE}/log"))
        missing = [path for path in writer.paths if path.rpartition("/")[2] not in stored]
        check(not missing, f"writes that were answered are gone: {missing[:3]}")
        show("", f"all {len(writer.paths)} answered writes are there; member {self.cluster('leader')} leads now")
        self.restart(leader, client)
        close(client)

    def restart(self, member, client):
        self.step("The dead member comes back",
                  f"Member {member} starts again on its own data and fetches what it missed.")
        expected = client.get_children(f"{BASE}/log")
        started = time.monotonic()
        self.cluster("restart", str(member))
        back = self.connect(member)
        back.sync(BASE)
        found = back.get_children(f"{BASE}/log")
        show(f"member {member}", f"has {len(found)} of {len(expected)} log entries, "
                                 f"{time.monotonic() - started:.1f} s after it was started")
        check(sorted(found) == sorted(expected), "it has not caught up")
        close(back)


class Writer(threading.Thread):
    """Creates one znode after the other and records when each creation was answered."""

    def __init__(self, client, prefix):
        super().__init__(daemon=True)
        self.client, self.prefix = client, prefix
        self.paths, self.times = [], []
        self.error = None
        self.stopping = threading.Event()

    def run(self):
        try:
            while not self.stopping.is_set():
                self.paths.append(self.client.create(self.prefix, b"written", sequence=True))
                self.times.append(time.monotonic())
        except Exception as error:  # shown by the step
            self.error = error

    def stop(self):
        self.stopping.set()
        self.join(PATIENCE_SECONDS)
        check(not self.is_alive(), "a write was never answered")

    def around(self, moment):
        return [t for t in self.times if t < moment], [t for t in self.times if t >= moment]

    def longest_pause(self):
        return max((after - before for before, after in zip(self.times, self.times[1:])), default=0.0)


def hold_lock(host, messages):
    """Takes the lock and keeps it until this process dies."""
    client = KazooClient(host, timeout=LOCK_SESSION_SECONDS)
    client.start(timeout=PATIENCE_SECONDS)
    client.Lock(f"{BASE}/lock", "process A").acquire()
    messages.put("locked")
    while True:
        time.sleep(1)


def show(who, what):
    print(f"     {who:<10} {what}", flush=True)


def close(*clients):
    for client in clients:
        client.stop()
        client.close()


def main():
    logging.basicConfig(level=logging.CRITICAL)
    arguments = sys.argv[1:]
    if arguments and (len(arguments) != 2 or arguments[0] != "--dir"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        Demo(arguments).run()
    except StepFailed as error:
        print(f"\nFAILED: {error}", file=sys.stderr)
        return 1
    except Exception as error:  # so that the last line says that the demo failed, and why
        print(f"\nFAILED: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
