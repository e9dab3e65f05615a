#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Tests Kazoo's Queue and LockingQueue with several producers and consumers.

Queue: an item is given out at most once. An item is lost only if a consumer lost its connection while it took
the item, as Kazoo documents.
LockingQueue: every item that was put is consumed exactly once, whatever happens to connections."""

import collections
import multiprocessing
import time

from kazoo.exceptions import ConnectionLoss, NoNodeError, OperationTimeoutError

import kazoo_common as common

PRODUCERS, CONSUMERS = 2, 3
UNKNOWN = (ConnectionLoss, OperationTimeoutError)
DRAINED_SECONDS = 1.0
PAUSE_SECONDS = 0.005


def producer(hosts, recipe, path, end, number, is_done):
    """Returns the items that were put, and those whose put was not answered. `is_done`: set at the end."""
    put, unknown = [], []
    with common.Client(hosts) as client:
        queue = getattr(client, recipe)(path)
        count = 0
        # At least one, even if this producer begins late on a busy machine.
        while time.monotonic() < end or not put:
            item = f"{number}-{count}"
            count += 1
            try:
                queue.put(item.encode())
                put.append(item)
            except UNKNOWN:
                unknown.append(item)
            time.sleep(PAUSE_SECONDS)
    is_done.set()
    return put, unknown


class Supply:
    """Tells whether there may be more items: the producers are not done, or the last item was found recently."""

    def __init__(self, producers_done):
        self.producers_done = producers_done
        self.are_done, self.last = False, 0.0

    def found(self):
        self.last = time.monotonic()

    def may_have_more(self):
        if not self.are_done:
            self.are_done = all(is_done.is_set() for is_done in self.producers_done)
            self.found()  # so that consumers look for items once more after the producers were done
        return time.monotonic() < self.last + DRAINED_SECONDS


def consumer(hosts, path, producers_done):
    """Takes items until the producers are done and there is none left for a while."""
    taken = []
    with common.Client(hosts) as client:
        queue = client.Queue(path)
        supply = Supply(producers_done)
        while supply.may_have_more():
            item = queue.get()
            if item is None:
                time.sleep(PAUSE_SECONDS)
            else:
                taken.append(item.decode())
                supply.found()
    return taken, client.connection_losses


def locking_consumer(hosts, path, producers_done):
    taken = []
    with common.Client(hosts) as client:
        queue = client.LockingQueue(path)
        supply = Supply(producers_done)
        while supply.may_have_more():
            try:
                item = queue.get(timeout=0.5)
            except UNKNOWN:
                item = None
            if item is None:
                # There is no item; or an item is locked for us by a call whose answer was lost.
                release_unknown_locks(client, queue, path)
                continue
            consume(client, queue, path)
            taken.append(item.decode())
            supply.found()
        release_unknown_locks(client, queue, path)
    return taken, client.connection_losses


def consume(client, queue, path):
    """Consumes the item that this queue has locked; repeats the call if its answer was lost."""
    name = queue.processing_element[0]
    unknown = False
    while True:
        try:
            if queue.consume():
                return
            # The lock belongs to another consumer. A consumer that listed the items before this one was consumed may
            # lock it afterwards, until it finds that the item is deleted. So this proves nothing if our transaction
            # may have been applied and has deleted the item.
            done = unknown and client.retry(client.exists, f"{path}/entries/{name}") is None
            common.check(done, "a lock on an item was lost with no session lost")
            break
        except UNKNOWN:
            unknown = True
        except NoNodeError:
            # The lock is deleted, so the transaction that deletes item and lock was applied.
            break
    queue.processing_element = None


def release_unknown_locks(client, queue, path):
    """Releases items that are locked for us without Kazoo's knowledge, so that they can be taken again. (Kazoo forgets
    a lock when the answer to its create is lost.)"""
    for name in client.retry(client.get_children, f"{path}/taken"):
        lock = f"{path}/taken/{name}"
        while True:
            try:
                # Reads the lock before each attempt: if a delete was applied and its answer lost, the next lock of
                # that name belongs to another consumer.
                if client.retry(client.get, lock)[0] == queue.id:
                    client.delete(lock)
                break
            except NoNodeError:
                break
            except UNKNOWN:
                continue


def items_left(hosts, path):
    with common.Client(hosts) as client:
        client.sync(path)
        return [client.get(f"{path}/{name}")[0].decode() for name in client.get_children(path)
                if name.startswith("entry")]


def check_items(produced, consumed, left, may_lose):
    put = [item for items, _ in produced for item in items]
    unknown = {item for _, items in produced for item in items}
    taken = [item for items, _ in consumed for item in items]
    losses = sum(count for _, count in consumed)
    twice = [item for item, times in collections.Counter(taken).items() if times > 1]
    common.check(not twice, f"given out more than once: {common.some(twice)}")
    strangers = set(taken) - set(put) - unknown
    common.check(not strangers, f"given out, but never put: {common.some(strangers)}")
    missing = set(put) - set(taken) - set(left)
    allowed = losses if may_lose else 0
    common.check(len(missing) <= allowed, f"items lost, of which {allowed} may be: {common.some(missing)}")
    common.check(len(taken) > len(left), f"{len(left)} items were left in the queue, {len(taken)} taken")
    doubly = set(taken) & set(left)
    common.check(not doubly, f"given out, and still in the queue: {common.some(doubly)}")
    return f"{len(put)} put, {len(unknown)} unknown, {len(missing)} lost, {losses} connection losses"


def run(hosts, seconds, recipe, path, consume_function):
    workers = common.Workers()
    end = time.monotonic() + seconds
    done = [multiprocessing.Event() for _ in range(PRODUCERS)]
    for number, is_done in enumerate(done):
        workers.start(producer, hosts, recipe, path, end, number, is_done)
    for _ in range(CONSUMERS):
        workers.start(consume_function, hosts, path, done)
    results = workers.results(seconds + common.PATIENCE_SECONDS)
    left = items_left(hosts, path if recipe == "Queue" else f"{path}/entries")
    return check_items(results[:PRODUCERS], results[PRODUCERS:], left, recipe == "Queue")


def program(hosts, seconds):
    with common.Client(hosts) as client:
        client.delete("/interop", recursive=True)
        client.ensure_path("/interop/queue")
        for part in ("entries", "taken"):
            client.ensure_path(f"/interop/locking/{part}")
    plain = run(hosts, seconds / 2, "Queue", "/interop/queue", consumer)
    locking = run(hosts, seconds / 2, "LockingQueue", "/interop/locking", locking_consumer)
    return f"Queue: {plain}; LockingQueue: {locking}"


if __name__ == "__main__":
    common.main(program)
