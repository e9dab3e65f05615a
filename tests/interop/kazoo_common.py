# SPDX-License-Identifier: Apache-2.0
"""Shared by the Kazoo programs: clients, worker processes, and a history to which all processes write.

Each program is called with HOSTS SECONDS, runs its recipe in several processes for that time, and
exits with status 0 if every invariant held, also while members are killed and restarted."""

import json
import logging
import multiprocessing
import os
import random
import sys
import tempfile
import time

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

# A session must outlive the restart of any member.
SESSION_SECONDS = 15
# How long after the end of the work a program may need to finish.
PATIENCE_SECONDS = 40


class Client(KazooClient):
    """A Kazoo client that reconnects quickly and counts what happens to its connection."""

    def __init__(self, hosts, session_seconds=SESSION_SECONDS):
        retry = {"max_tries": -1, "delay": 0.05, "backoff": 1.5, "max_delay": 0.5}
        super().__init__(hosts, timeout=session_seconds, connection_retry=KazooRetry(**retry),
                         command_retry=KazooRetry(**retry))
        self.connection_losses = 0
        self.sessions_lost = 0
        self.add_listener(self._count)

    def _count(self, state):
        if state == KazooState.SUSPENDED:
            self.connection_losses += 1
        elif state == KazooState.LOST:
            self.sessions_lost += 1

    def __enter__(self):
        self.start(timeout=PATIENCE_SECONDS)
        return self

    def __exit__(self, *_):
        if self.sessions_lost:
            raise AssertionError(f"the session was lost {self.sessions_lost} times")
        self.stop()
        self.close()


class History:
    """A file with the events of all processes on this machine in their order: each event is appended as one line
    by one write."""

    def __init__(self):
        handle, self.path = tempfile.mkstemp(prefix="quorate-history-")
        os.close(handle)

    def add(self, **event):
        event["time"] = time.monotonic()
        event["pid"] = os.getpid()
        line = json.dumps(event) + "\n"
        with open(self.path, "ab", buffering=0) as file:
            file.write(line.encode())

    def read(self):
        with open(self.path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def remove(self):
        os.unlink(self.path)


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def some(items):
    """Returns a text with the first few of many items, for a message."""
    items = sorted(items)
    return f"{len(items)}: {', '.join(map(str, items[:8]))}" + (", ..." if len(items) > 8 else "")


def check_exclusive(history, enter="enter", leave="leave"):
    """Checks that no process entered before the previous one had left. Returns how often each pid entered."""
    holder, entries = None, {}
    for event in history:
        if event["what"] == enter:
            check(holder is None, f"process {event['pid']} entered while {holder} was inside")
            holder = event["pid"]
            entries[holder] = entries.get(holder, 0) + 1
        elif event["what"] == leave:
            check(holder == event["pid"], f"process {event['pid']} left while {holder} was inside")
            holder = None
    return entries


def _worker(function, arguments, queue):
    logging.basicConfig(level=logging.ERROR)
    random.seed(os.getpid())
    try:
        queue.put((True, function(*arguments)))
    except Exception as error:
        logging.exception("worker failed")
        queue.put((False, f"{type(error).__name__}: {error}"))


class Workers:
    """Runs functions in processes of their own, and collects their results."""

    def __init__(self):
        self.processes = []

    def start(self, function, *arguments):
        queue = multiprocessing.Queue()
        process = multiprocessing.Process(target=_worker, args=(function, arguments, queue), daemon=True)
        process.start()
        self.processes.append((process, queue))

    def results(self, seconds):
        """Returns the results of the functions, in the order of their start. The result of a worker that ends without
        returning (os._exit) is None."""
        deadline = time.monotonic() + seconds
        results = []
        for process, queue in self.processes:
            while queue.empty() and process.is_alive():
                check(time.monotonic() < deadline, f"a worker is stuck ({process.name})")
                time.sleep(0.02)
            # The process may have put its result just before it ended.
            process.join(0.2)
            done, result = queue.get(timeout=1) if not queue.empty() else (True, None)
            check(done, f"worker {process.name}: {result}")
            results.append(result)
        return results


def main(program):
    """Runs program(hosts, seconds), which returns a line of facts."""
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} HOSTS SECONDS")
    logging.basicConfig(level=logging.ERROR)
    try:
        print(program(sys.argv[1], float(sys.argv[2])))
    except AssertionError as error:
        sys.exit(f"FAILED: {error}")
