# SPDX-License-Identifier: Apache-2.0
"""Cuts the connections of watching clients again and again while the watched tree changes (curator/Reconnects.java).
Each client has a recursive watch, and has to be notified of every change, in order; notifications that it got before
may come again after a reconnect. Curator's caches have to be right at the end. ZooKeeper loses events here: it
sends persistent and recursive watches nothing of what happened while their client was not connected."""

import asyncio
import os
import random
import subprocess
import threading
import time

from kazoo.client import KazooClient

import harness
import jvm

HERE = os.path.dirname(os.path.realpath(__file__))
TREE = "/reconnects"
CLIENTS, CACHES = 20, 2
PIECE_BYTES = 1 << 16
# A connection lives for so long before it is cut. Java's client waits up to a second before it connects again.
LIFE_SECONDS = (0.05, 0.5)
PAUSE_SECONDS = 0.004  # between two changes
KEPT = 20  # znodes that are there at a time
PATIENCE_SECONDS = 120


class CuttingProxies:
    """Proxies before the members, which cut each connection after a short time. Thread-safety: methods from one
    thread; `cuts` may be read from any."""

    def __init__(self, addresses, seed):
        self.chance = random.Random(seed)
        self.cuts = 0
        self.cutting = True
        self.loop = asyncio.new_event_loop()
        self.tasks = set()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.hosts = ",".join(asyncio.run_coroutine_threadsafe(self._begin(address), self.loop).result()
                              for address in addresses)

    async def _begin(self, address):
        async def serve(reader, writer):
            self.tasks.add(asyncio.current_task())
            asyncio.current_task().add_done_callback(self.tasks.discard)
            await self._serve(address, reader, writer)
        server = await asyncio.start_server(serve, harness.HOST, 0)
        return f"{harness.HOST}:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, address, reader, writer):
        host, port = address.rsplit(":", 1)
        try:
            onward = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return

        def cut():
            if not self.cutting:
                return
            self.cuts += 1
            writer.transport.abort()
            onward[1].transport.abort()

        timer = self.loop.call_later(self.chance.uniform(*LIFE_SECONDS), cut)
        await asyncio.gather(self._pump(reader, onward[1]), self._pump(onward[0], writer))
        timer.cancel()

    @staticmethod
    async def _pump(reader, writer):
        try:
            while data := await reader.read(PIECE_BYTES):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    def stop_cutting(self):
        self.loop.call_soon_threadsafe(setattr, self, "cutting", False)

    def close(self):
        async def end_all():
            tasks = list(self.tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        asyncio.run_coroutine_threadsafe(end_all(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


class Client(KazooClient):
    """A client for the length of a `with`."""

    def __enter__(self):
        self.start(timeout=PATIENCE_SECONDS)
        return self

    def __exit__(self, *_):
        self.stop()
        self.close()


def make_changes(client, goes_on):
    """Changes the tree until `goes_on()` returns false. Returns the events that it caused: [(type, path)], each of them
    once."""
    events = []
    number = 0
    while goes_on():
        path = f"{TREE}/{number:06}"
        client.create(path)
        client.set(path, b"x")
        events += [("NodeCreated", path), ("NodeDataChanged", path)]
        if number >= KEPT:
            old = f"{TREE}/{number - KEPT:06}"
            client.delete(old)
            events.append(("NodeDeleted", old))
        number += 1
        time.sleep(PAUSE_SECONDS)
    return events


def announce_end(client, program):
    """Creates and changes the node "end" until the program has ended, because a client may miss any one event."""
    client.create(f"{TREE}/end")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not harness.wait_for_exit(program, 0.1):
        if time.monotonic() > deadline:
            raise AssertionError("the clients do not end")
        client.set(f"{TREE}/end", b"")


def gaps(expected, got):
    """Returns how many of the expected events are missing from `got`, in which runs of earlier events may come again.
    Raises if an event is not expected or out of order."""
    place = {event: i for i, event in enumerate(expected)}
    missing, newest = 0, -1
    for event in got:
        if event not in place:
            raise AssertionError(f"nothing caused the event {event}")
        at = place[event]
        if at > newest:  # else it comes again
            missing += at - newest - 1
            newest = at
    return missing + len(expected) - 1 - newest


def out_of_order(expected, got):
    """Returns how often an event is followed by itself or an earlier one: at most once for each reconnect."""
    place = {event: i for i, event in enumerate(expected)}
    places = [place[event] for event in got]
    return sum(now <= before for before, now in zip(places, places[1:]))


def read_events(path):
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    return [tuple(line.split(" ", 1)) for line in lines]


def run(cluster, classes, reconnects, may_miss):
    """Runs the clients until their connections were cut `reconnects` times. Returns a line of facts."""
    if not os.path.exists(classes):
        jvm.compile_sources(os.path.join(HERE, "curator"), jvm.CURATOR, classes)
    directory = os.path.join(cluster.parent, "reconnects")
    os.makedirs(directory, exist_ok=True)
    proxies = CuttingProxies(cluster.hosts().split(","), seed=1)
    command = [*jvm.command("Reconnects", jvm.CURATOR, classes), proxies.hosts, TREE, str(CLIENTS), str(CACHES), directory]
    try:
        with Client(cluster.hosts()) as client:
            client.delete(TREE, recursive=True)
            client.create(TREE)
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True) as program:
                try:
                    return _check(client, program, proxies, directory, reconnects, may_miss)
                finally:
                    program.kill()
    finally:
        proxies.close()


def run_one_shot(cluster, make_command, cuts):
    """Runs a program that uses one-shot watches, called by `make_command(hosts)`, while its connections are cut. It
    checks by itself that its watches show it every change in the end. Returns a line of facts."""
    proxies = CuttingProxies(cluster.hosts().split(","), seed=2)
    try:
        status, output = harness.run_in_group(make_command(proxies.hosts), PATIENCE_SECONDS, cluster.parent)
    finally:
        proxies.close()
    if status != 0:
        raise AssertionError(f"{status} after {proxies.cuts} cuts:\n{output}")
    if proxies.cuts < cuts:
        raise AssertionError(f"only {proxies.cuts} connections were cut while it ran: this proves nothing")
    return f"{output.strip().splitlines()[-1]}; {proxies.cuts} connections cut"


def _check(client, program, proxies, directory, reconnects, may_miss):
    line = program.stdout.readline()
    if line.strip() != "ready":
        raise AssertionError(f"the clients did not start:\n{line}{program.stdout.read()}")
    begin = proxies.cuts
    deadline = time.monotonic() + PATIENCE_SECONDS
    expected = make_changes(client, lambda: proxies.cuts - begin < reconnects and time.monotonic() < deadline)
    proxies.stop_cutting()
    announce_end(client, program)
    output = program.stdout.read()
    if program.returncode != 0:
        raise AssertionError(f"exit status {program.returncode}:\n{harness.end_of(output, 25)}")
    cuts = proxies.cuts - begin
    if cuts < reconnects:
        raise AssertionError(f"only {cuts} connections were cut in {PATIENCE_SECONDS} s")
    missing, received, again = 0, 0, 0
    for number in range(CLIENTS):
        got = read_events(os.path.join(directory, f"events-{number}"))
        missing += gaps(expected, got)
        received += len(got)
        again += out_of_order(expected, got)
    if again > proxies.cuts:
        raise AssertionError(f"{again} events came out of order, with only {proxies.cuts} reconnects")
    there = {f"{TREE}/end", TREE}
    for kind, path in expected:
        (there.discard if kind == "NodeDeleted" else there.add)(path)
    for number in range(CACHES):
        with open(os.path.join(directory, f"cache-{number}"), encoding="utf-8") as file:
            cached = set(file.read().splitlines())
        if cached != there:
            raise AssertionError(f"a cache differs at the end: {sorted(cached ^ there)[:5]}")
    facts = (f"{cuts} connections cut, {len(expected)} changes; {CLIENTS} watches got {received} events, "
             f"{missing} are missing")
    if missing and not may_miss:
        raise AssertionError(facts)
    if may_miss and not missing:
        raise AssertionError(f"{facts}: the test does not show what it has to")
    return facts
