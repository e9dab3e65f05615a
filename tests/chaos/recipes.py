# SPDX-License-Identifier: Apache-2.0
"""Runs locks, queues and transactions of the C++ client under the nemeses, with the workers and the checks of
tests/native in the network of the run."""

import collections
import os
import random
import signal
import time

import native
import recipe_operations
import recipes_data
import recipes_locks

# The invariant that is checked for each workload.
INVARIANTS = {"lock": "a lock has one holder at a time, and tokens grow",
              "queue": "each item is taken once, in its order",
              "commit": "all participants decide alike, and commit only if all vote for it"}
NAMES = tuple(INVARIANTS)
LOCKERS = 3
MEMBERS = 3  # the participants of a transaction
# How late a request may arrive: after the end of a fault of the network and of its consequences.
LATE_SECONDS = 15


class _Data(recipes_data.Worker):
    """A worker that is started again under its own name after it was killed."""

    was_killed = False

    @property
    def label(self):
        return f"{self.recipe} {self.name}"

    def killed(self):
        """Returns [(pid, ns)] of the worker's processes that were killed."""
        return list(self.ended.items())

    def signal(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def replace(self):
        self.start()


class _Locker(recipes_locks.Worker):
    was_killed = False

    @property
    def label(self):
        return f"lock {self.process.pid}"

    def killed(self):
        return [(self.process.pid, self.killed_ns)] if self.is_killed else []

    def signal(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)


class Recipes:
    """The workers of some of NAMES, with the functions that nemeses need of a worker."""

    def __init__(self, names, cluster, options, network):
        self.names, self.cluster, self.options, self.network = names, cluster, options, network
        self.chance = random.Random(options.seed)
        self.lockers, self.data = [], {}
        self.operations = {}  # by the path of the history
        self.places = 0

    def _prefix(self):
        if not self.network:
            return []
        self.places += 1
        return self.network.prefix(self.network.workers[self.places % len(self.network.workers)])

    def start(self):
        if "lock" in self.names:
            with native.Tree(self.cluster.command("grpc").split(",")[0], self.cluster.ca_file()) as tree:
                tree.create("/resource")
                tree.create("/recipe")
            self.lockers = [self._locker() for _ in range(LOCKERS)]
        if "queue" in self.names:
            self._add("produce", 2)
            self._add("consume", 2)
        if "commit" in self.names:
            self._add("coordinate", 1, "--members", MEMBERS)
            self._add("participate", MEMBERS, "--members", MEMBERS)

    def _tls(self):
        return ["--ca", self.cluster.ca_file()] if self.cluster.ca_file() else []

    def _locker(self):
        arguments = ["mutex", "--servers", self.cluster.command("grpc"), "--path", "/recipe/shared", "--seed",
                     self.chance.randrange(1 << 30), "--session-timeout-ms", self.options.session_timeout_ms,
                     "--resource", "/resource", *self._tls()]
        return _Locker(arguments, self.cluster.parent, self._prefix())

    def _add(self, recipe, count, *more):
        # The names must be those that a transaction expects of its participants.
        self.data[recipe] = [
            _Data(self.cluster, recipe, f"{recipe[0]}{i}", *more, *self._tls(), prefix=self._prefix(),
                  session_timeout_ms=self.options.session_timeout_ms) for i in range(count)]

    def running(self):
        return [worker for worker in self.lockers if not worker.is_killed] + [
            worker for workers in self.data.values() for worker in workers]

    def replace(self, worker):
        if isinstance(worker, _Data):
            worker.replace()
        else:
            self.lockers.append(self._locker())

    def _all(self):
        return self.lockers + [worker for workers in self.data.values() for worker in workers]

    def read(self):
        """Returns the operations until now."""
        for worker in self._all():
            killed = worker.killed()  # called before the histories are read: those of killed processes are then complete
            operations = self.operations.setdefault(worker.path, recipe_operations.Operations(worker.path))
            operations.read()
            for pid, ns in killed:
                operations.end_killed(pid, ns)
        return list(self.operations.values())

    def totals(self):
        """Returns the same as Workers.totals()."""
        all_operations = self.read()
        totals = sum((operations.totals for operations in all_operations), collections.Counter())
        last_ok = max((operations.last_ok_ns for operations in all_operations if operations.last_ok_ns), default=None)
        age = None if last_ok is None else (time.monotonic_ns() - last_ok) / 1e9
        return {key: totals[key] for key in ("ok", "refused", "unknown")}, age

    def save(self, directory):
        """Writes the operations to recipes.jsonl, which the page reads."""
        if self.names:
            recipe_operations.save([operation for operations in self.read() for operation in operations.all],
                                   os.path.join(directory, "recipes.jsonl"))

    def finish(self):
        """Lets all workers end, after all faults are healed. Returns (problems, checks). A check has the form of the history
        checker's checks, with a text of what it saw: {"name": "lock", "ok": False, "saw": "", "violations": [...]}."""
        problems, checks = [], []
        for worker in self.running():
            worker.signal(signal.SIGCONT)
        problems += recipes_locks.finish(self.lockers)
        for workers in self.data.values():
            for worker in workers:
                self._attempt(problems, worker.finish)
        if self.lockers:
            self._check(problems, checks, "lock", lambda: recipes_locks.check_mutex(
                [(worker, worker.lines()) for worker in self.lockers], f"seed {self.options.seed}"))
        if "queue" in self.names:
            self._add("drain", 1)
            self._attempt(problems, lambda: self.data["drain"][0].wait(gets_on=True))
            self._check(problems, checks, "queue", lambda: recipes_data.check_items(
                self._history("produce", "consume", "drain"), LATE_SECONDS))
        if "commit" in self.names:
            self._check(problems, checks, "commit", lambda: recipes_data.check_transactions(
                self._history("coordinate", "participate"), MEMBERS))
        return problems, checks

    def _history(self, *recipes):
        return sorted((line for recipe in recipes for worker in self.data[recipe] for line in worker.history()),
                      key=lambda line: line.ns)

    def _check(self, problems, checks, name, function):
        saw, wrong = [], []
        self._attempt(wrong, lambda: saw.append(function()))
        violations = []
        for text in wrong:
            details, *window = text.splitlines()
            violations.append({"invariant": INVARIANTS[name], "details": details, "window": window})
        checks.append({"name": name, "ok": not wrong, "saw": "".join(saw), "violations": violations})
        problems += [f"{name}: {INVARIANTS[name]}: {text}" for text in wrong]

    @staticmethod
    def _attempt(problems, function):
        try:
            function()
        except (AssertionError, RuntimeError) as error:
            problems.append(str(error))
        except Exception as error:  # such as subprocess.TimeoutExpired; the other checks are made nevertheless
            problems.append(repr(error))

    def paths(self):
        """Returns the paths of the histories."""
        return [worker.path for worker in self._all()]
