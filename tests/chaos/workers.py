# SPDX-License-Identifier: Apache-2.0
"""The processes of the clients (worker.cc). There is one process for each place, which is a node of the network and
a front end. When a process is killed, another one with client numbers of its own takes its place."""

import json
import os
import signal
import subprocess
import threading
import time

import harness
from progress import Source

PROGRAM = os.path.join(os.environ.get("QUORATE_BIN", os.path.join(harness.ROOT, ".bazel/opt-bin")),
                       "tests/chaos/worker")
READY_SECONDS = 60
CLIENTS_EACH = 1000  # how many numbers a process has for its clients
FINISH_SECONDS = 100  # the worker takes at most 60 s of this for its last reads


class Worker:
    """One process. `node`: the node of the network on which it runs."""

    def __init__(self, process_number, node, command, history, prefix):
        self.process_number, self.node, self.history = process_number, node, history
        self.label = f"worker {process_number}"
        self.log_path = history.removesuffix(".jsonl") + ".log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([*prefix, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=log, text=True, bufsize=1)
        self.is_ready = threading.Event()
        self.said, self.said_at = {}, time.monotonic()
        self.was_killed = self.is_stopped = False
        self.began_ns, self.ready_ns, self.killed_ns = time.monotonic_ns(), None, None
        self.pauses = []  # [from, to] in ns; the last pause has no `to` while it lasts
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                self.said, self.said_at = json.loads(line), time.monotonic()
            elif line.strip() == "worker ready":
                self.ready_ns = time.monotonic_ns()
                self.is_ready.set()
        self.is_ready.set()

    def signal(self, number):
        is_stopped = number == signal.SIGSTOP
        if is_stopped and not self.is_stopped:
            self.pauses.append([time.monotonic_ns()])
        elif self.is_stopped and not is_stopped:
            self.pauses[-1].append(time.monotonic_ns())
        self.is_stopped = is_stopped
        if self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self):
        self.was_killed = True
        self.killed_ns = self.killed_ns or time.monotonic_ns()
        self.process.kill()
        self.process.wait()

    def source(self, clients, begin, end):
        """Returns the Source for the worker's operations from `begin` to `end` (ns); None if it did not run then."""
        begin, end = max(begin, self.ready_ns or self.began_ns), min(end, self.killed_ns or end)
        if begin >= end or not os.path.exists(self.history):
            return None
        pauses = [(pause[0], pause[1] if len(pause) > 1 else end) for pause in self.pauses]
        return Source(self.label, self.history, clients, begin, end, pauses)

    def tell_to_finish(self):
        if self.process.poll() is None:
            try:
                self.process.stdin.write("finish\n")
            except BrokenPipeError:
                pass

    def problem(self, deadline):
        """Returns what is wrong with the worker's end; "" if nothing is. REQUIRES: it was told to finish."""
        if self.was_killed:
            return ""
        if not harness.wait_for_exit(self.process, max(0, deadline - time.monotonic())):
            self.kill()
            return f"worker {self.process_number} does not end: {self.log()}"
        status = self.process.returncode
        return f"worker {self.process_number} ended with status {status}: {self.log()}" if status else ""

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return harness.end_of(file.read(), 8)


class Workers:
    """All workers. `frontends`: the front end of each place. `servers`: {front end: host:port,...}. `tls_directory`: the
    certificates with which the clients use TLS (Members); "" without TLS."""

    def __init__(self, frontends, servers, options, directory, network=None, tls_directory=""):
        self.frontends, self.servers, self.options, self.tls_directory = frontends, servers, options, tls_directory
        self.directory, self.network = directory, network
        self.all = []
        self.places = range(len(frontends))

    def start(self):
        workers = [self._start(place) for place in self.places]
        deadline = time.monotonic() + READY_SECONDS
        for worker in workers:
            ready = worker.is_ready.wait(max(0, deadline - time.monotonic()))
            if not ready or worker.process.poll() is not None:
                raise AssertionError(f"worker {worker.process_number} is not ready: {worker.log()}")

    def _start(self, place):
        number = len(self.all) + 1
        frontend = self.frontends[place]
        history = os.path.join(self.directory, f"history-{number}.jsonl")
        command = [PROGRAM, "--process", number, "--frontend", frontend, "--servers", self.servers[frontend],
                   "--clients", self.options.clients, "--first-client", number * CLIENTS_EACH,
                   "--workloads", ",".join(self.options.workloads), "--seed", self.options.seed + number,
                   "--session-timeout-ms", self.options.session_timeout_ms, "--rate", self.options.rate,
                   "--history", history, *(["--weak-sync"] if self.options.server == "zookeeper" else []),
                   *(["--tls-directory", self.tls_directory] if self.tls_directory else [])]
        prefix = self.network.prefix(self.network.workers[place]) if self.network else []
        worker = Worker(number, place, list(map(str, command)), history, prefix)
        self.all.append(worker)
        return worker

    def replace(self, worker):
        return self._start(worker.node)

    def running(self):
        return [worker for worker in self.all if not worker.was_killed]

    def histories(self):
        return [worker.history for worker in self.all if os.path.exists(worker.history)]

    def sources(self, begin, end):
        """Returns the Sources of the workers' operations from `begin` to `end`, for progress.py."""
        found = [worker.source(range(worker.process_number * CLIENTS_EACH,
                                     worker.process_number * CLIENTS_EACH + self.options.clients), begin, end)
                 for worker in self.all]
        return [source for source in found if source is not None]

    def totals(self):
        """Returns ({"ok": ..., "refused": ..., "unknown": ...} of all workers, the time since the last acknowledged
        write)."""
        totals = {key: sum(worker.said.get(key, 0) for worker in self.all) for key in ("ok", "refused", "unknown")}
        ages = [worker.said["last_write_ok_ms_ago"] / 1000 + time.monotonic() - worker.said_at
                for worker in self.running() if worker.said.get("last_write_ok_ms_ago") is not None]
        return totals, min(ages, default=None)

    def check_alive(self):
        for worker in self.running():
            if worker.process.poll() is not None:
                raise AssertionError(f"worker {worker.process_number} has ended by itself with status "
                                     f"{worker.process.returncode}: {worker.log()}")

    def finish(self):
        """Lets all workers end by themselves. Returns the problems of any of them."""
        for worker in self.running():
            worker.tell_to_finish()
        deadline = time.monotonic() + FINISH_SECONDS
        return [problem for worker in self.all if (problem := worker.problem(deadline))]
