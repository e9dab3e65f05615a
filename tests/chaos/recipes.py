"""Locks, queues and transactions of the C++ client under the nemeses: the workers and the checks of
tests/native, in this network."""

import random
import signal

import native
import recipes_data
import recipes_locks

NAMES = ("lock", "queue", "commit")
LOCKERS = 3
MEMBERS = 3  # of transactions
# What was sent comes after the end of a fault of the network at the latest, and of what follows from it.
LATE_SECONDS = 15


class _Data(recipes_data.Worker):
    """One that is started again in its own place, as the same worker."""

    was_killed = False

    @property
    def label(self):
        return f"{self.recipe} {self.name}"

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

    def signal(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)


class Recipes:
    """The workers of some of NAMES. They have what nemeses need of a worker."""

    def __init__(self, names, cluster, options, network):
        self.names, self.cluster, self.options, self.network = names, cluster, options, network
        self.chance = random.Random(options.seed)
        self.lockers, self.data = [], {}
        self.places = 0

    def _prefix(self):
        if not self.network:
            return []
        self.places += 1
        return self.network.prefix(self.network.workers[self.places % len(self.network.workers)])

    def start(self):
        if "lock" in self.names:
            with native.Tree(self.cluster.command("grpc").split(",")[0]) as tree:
                tree.create("/resource")
                tree.create("/recipe")
            self.lockers = [self._locker() for _ in range(LOCKERS)]
        if "queue" in self.names:
            self._add("produce", 2)
            self._add("consume", 2)
        if "commit" in self.names:
            self._add("coordinate", 1, "--members", MEMBERS)
            self._add("participate", MEMBERS, "--members", MEMBERS)

    def _locker(self):
        arguments = ["mutex", "--servers", self.cluster.command("grpc"), "--path", "/recipe/shared", "--seed",
                     self.chance.randrange(1 << 30), "--session-timeout-ms", self.options.session_timeout_ms,
                     "--resource", "/resource"]
        return _Locker(arguments, self.cluster.parent, self._prefix())

    def _add(self, recipe, count, *more):
        # Names as the participants of a transaction have them.
        self.data[recipe] = [
            _Data(self.cluster, recipe, f"{recipe[0]}{i}", *more, prefix=self._prefix(),
                  session_timeout_ms=self.options.session_timeout_ms) for i in range(count)]

    def running(self):
        return [worker for worker in self.lockers if not worker.is_killed] + [
            worker for workers in self.data.values() for worker in workers]

    def replace(self, worker):
        if isinstance(worker, _Data):
            worker.replace()
        else:
            self.lockers.append(self._locker())

    def finish(self):
        """Lets all end, when all faults are healed; (problems, notes)."""
        problems, notes = [], []
        for worker in self.running():
            worker.signal(signal.SIGCONT)
        problems += recipes_locks.finish(self.lockers)
        for workers in self.data.values():
            for worker in workers:
                self._attempt(problems, worker.finish)
        if self.lockers:
            self._attempt(problems, lambda: notes.append("lock: " + recipes_locks.check_mutex(
                [(worker, worker.lines()) for worker in self.lockers], f"seed {self.options.seed}")))
        if "queue" in self.names:
            self._add("drain", 1)
            self._attempt(problems, self.data["drain"][0].wait)
            self._attempt(problems, lambda: notes.append("queue: " + recipes_data.check_items(
                self._history("produce", "consume", "drain"), LATE_SECONDS)))
        if "commit" in self.names:
            self._attempt(problems, lambda: notes.append("commit: " + recipes_data.check_transactions(
                self._history("coordinate", "participate"), MEMBERS)))
        return problems, notes

    def _history(self, *recipes):
        return sorted((line for recipe in recipes for worker in self.data[recipe] for line in worker.history()),
                      key=lambda line: line.ns)

    @staticmethod
    def _attempt(problems, function):
        try:
            function()
        except (AssertionError, RuntimeError) as error:
            problems.append(str(error))
        except Exception as error:  # subprocess.TimeoutExpired and the like: the others are to be heard too
            problems.append(repr(error))

    def paths(self):
        """Of the histories."""
        return [worker.path for worker in self.lockers] + [
            worker.path for workers in self.data.values() for worker in workers]
