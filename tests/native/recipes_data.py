# SPDX-License-Identifier: Apache-2.0
"""Tests the client's recipes for data. Worker processes use them, and workers and members of the cluster are
killed and stopped at random. Then the workers' histories (recipes/history.h) are checked. A failure prints the
seed; QUORATE_SEED repeats its choices."""

import bisect
import collections
import contextlib
import math
import os
import random
import signal
import subprocess
import sys
import time

import harness
import native
import recipes_history

sys.path.append(os.path.join(harness.ROOT, "tests/interop"))
import jvm  # noqa: E402  pylint: disable=wrong-import-position

PROGRAMS = os.environ.get("RECIPES_BIN", os.path.join(
    os.environ.get("QUORATE_BIN", os.path.join(harness.ROOT, ".bazel/opt-bin")), "tests/native/recipes"))
WORKER = os.environ.get("DATA_WORKER", os.path.join(PROGRAMS, "data_worker"))
# The jars that Curator needs.
JARS = (*jvm.CURATOR, "curator-x-discovery", "jackson-core", "jackson-databind", "jackson-annotations")
SESSION_TIMEOUT_MS = 1500
STOPPED_SECONDS = SESSION_TIMEOUT_MS / 1000 + 1.2
SECONDS = float(os.environ.get("RECIPES_SECONDS", "4"))  # the length of the faults in each test
PATIENCE_SECONDS = 30
KILLS_MIN = 2  # the least number of killed workers, and of killed members
# How long a member is down.
DOWN_SECONDS = 0.3
# How long a member is stopped: shorter than clients wait before they leave it, and than an election timeout.
HANGING_SECONDS = 0.15


class Line(collections.namedtuple("Line", "ns pid thread event words worker")):
    def __repr__(self):
        return f"{self.ns} {self.pid} {self.thread} {self.event} {' '.join(self.words)}"


class Worker:
    """A worker with one process at a time, which is started again after it was killed. All its processes write the
    same history file."""

    def __init__(self, cluster, recipe, name, *options, session_timeout_ms=SESSION_TIMEOUT_MS, prefix=(),
                 program=WORKER):
        """`prefix`: the prefix of its command, if it is to run on a node of a network."""
        self.recipe, self.name = recipe, name
        self.path = os.path.join(cluster.parent, f"{recipe}-{name}.history")
        self.command = [*prefix, program, "--servers", cluster.command("grpc"), "--name", name,
                        "--session-timeout-ms", str(session_timeout_ms), *map(str, options), recipe]
        self.kills = self.stops = 0
        self.ended = {}  # the time at which each process was killed, by pid
        self.process = None
        self.start()

    def start(self):
        recipes_history.remove_cut_line(self.path)
        with open(self.path, "a", encoding="ascii") as output:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=output)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.ended[self.process.pid] = time.monotonic_ns()
        self.kills += 1

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        self.stops += 1

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def finish(self):
        """Lets the worker end by itself."""
        self.process.terminate()
        self.wait()

    def wait(self, gets_on=False):
        """Waits until the worker has ended. With `gets_on`, the wait has no limit as long as the worker prints something
        new in each PATIENCE_SECONDS."""
        try:
            size = os.path.getsize(self.path)
            while (status := self._status_in_time()) is None:
                before, size = size, os.path.getsize(self.path)
                assert gets_on and size > before, f"{self.recipe} {self.name} does not end: {self.history()[-3:]}"
            # It may not have installed its signal handler yet.
            assert status in (0, -signal.SIGTERM), f"{self.recipe} {self.name}: exit status {status}: {self.history()[-3:]}"
        finally:
            self.abandon()

    def _status_in_time(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(PATIENCE_SECONDS)
        return None

    def abandon(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def history(self):
        return [Line(*line, self) for line in recipes_history.lines(self.path)]

    def wait_for_process(self, event):
        """Waits until the current process has printed the event."""
        self.wait_for(event, pid=self.process.pid)

    def wait_for(self, event, count=1, pid=None):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while sum(line.event == event and pid in (None, line.pid) for line in self.history()) < count:
            assert time.monotonic() < deadline, f"{self.recipe} {self.name} never {event}"
            assert self.process.poll() is None, f"{self.recipe} {self.name} ended: {self.history()[-3:]}"
            time.sleep(0.02)


class Scene:
    """A cluster and workers, and their faults."""

    program = WORKER
    settings = ("minSessionTimeout=1000", "znode.container.checkIntervalMs=500")

    def __init__(self, server):
        if server != "quorate":
            raise harness.Skipped("ZooKeeper has no native front end")
        if not os.access(self.program, os.X_OK):
            raise AssertionError(f"{self.program} is missing: bazel build --config=opt //tests/native/recipes:all")
        self.seed = int(os.environ.get("QUORATE_SEED", random.randrange(1 << 32)))
        self.random = random.Random(self.seed)
        self.cluster = harness.Cluster(server, settings=list(self.settings))
        self.workers = []
        self.member_kills = 0

    def __enter__(self):
        self.cluster.__enter__()
        return self

    def __exit__(self, kind, *rest):
        for worker in self.workers:
            with contextlib.suppress(ProcessLookupError):
                worker.abandon()
        if kind is not None and issubclass(kind, Exception):
            print(f"     seed {self.seed} (QUORATE_SEED)")
        self.cluster.__exit__(kind, *rest)

    def add(self, recipe, name, *options):
        worker = Worker(self.cluster, recipe, name, *options, program=self.program)
        self.workers.append(worker)
        return worker

    def hang_a_member(self):
        """Stops a member for a moment. The first answers after that can be out of date."""
        pid = self.random.choice(self.cluster.pids())
        os.kill(pid, signal.SIGSTOP)
        time.sleep(HANGING_SECONDS)
        os.kill(pid, signal.SIGCONT)

    def kills(self):
        return sum(worker.kills for worker in self.workers)

    def do_mischief(self, victims, hangs_members=False, is_enough=lambda: True):
        """Kills workers and starts them again, kills members and starts them again, and stops a worker
        until its session has ended. Goes on, for PATIENCE_SECONDS at most, until each of these was done and
        `is_enough` returns true."""
        begin = time.monotonic()
        stopped = self.random.choice(victims)
        stop_at = begin + self.random.uniform(0.1, SECONDS - STOPPED_SECONDS)
        go_on_at = None
        down, restart_at = None, 0

        def goes_on():
            lasted = time.monotonic() - begin
            if lasted < SECONDS or go_on_at:
                return True
            is_done = (stop_at is None and min(self.kills(), self.member_kills) >= KILLS_MIN and is_enough())
            return not is_done and lasted < PATIENCE_SECONDS

        while goes_on():
            time.sleep(self.random.uniform(0.05, 0.2))
            if hangs_members and down is None:
                self.hang_a_member()
            now = time.monotonic()
            if stop_at and now > stop_at:
                stopped.stop()
                stop_at, go_on_at = None, now + STOPPED_SECONDS
            if go_on_at and now > go_on_at:
                stopped.go_on()
                go_on_at = None
            if self.random.random() < 0.6:
                victim = self.random.choice([each for each in victims if not (go_on_at and each is stopped)])
                victim.kill()
                victim.start()
            elif down is None:
                down = self.random.choice(list(self.cluster.numbers()))
                self.cluster.kill(down)
                self.member_kills += 1
                restart_at = time.monotonic() + DOWN_SECONDS
            elif now > restart_at:
                self.cluster.restart(down)
                down = None
        if down is not None:
            self.cluster.restart(down)

    def finish(self, workers=None):
        for worker in workers or self.workers:
            worker.finish()

    def history(self, workers=None):
        return sorted((line for worker in workers or self.workers for line in worker.history()),
                      key=lambda line: line.ns)

    def note(self):
        kills = self.kills()
        stops = sum(worker.stops for worker in self.workers)
        assert min(kills, self.member_kills) >= KILLS_MIN and stops >= 1, (
            f"{kills} workers and {self.member_kills} members killed, {stops} stops")
        return f"{kills} workers and {self.member_kills} members killed, {stops} workers stopped"


def of_event(history, *events):
    return [line for line in history if line.event in events]


def in_doubt(history, begins, ends):
    """Returns how often `begins` was not followed by `ends` of the same thread, because the process was killed or lost
    its session."""
    count, pending = 0, set()
    for line in history:
        key = (line.pid, line.thread)
        if line.event == begins:
            pending.add(key)
        elif line.event == ends:
            pending.discard(key)
        elif line.event == "lost":
            count += len({other for other in pending if other[0] == line.pid})
            pending = {other for other in pending if other[0] != line.pid}
    return count + len(pending)


def check_additions(history):
    """Checks that each addition counts once, and that one which began after another had ended has the higher sum.
    Returns the number of additions, by their ways, and of those in doubt."""
    sums = [int(line.words[0]) for line in of_event(history, "added")]
    assert len(sums) == len(set(sums)), "two additions returned the same sum"
    doubt = in_doubt(history, "adding", "added")
    assert len(sums) <= max(sums) <= len(sums) + doubt, (
        f"{len(sums)} additions were acknowledged, {doubt} are in doubt, and the counter is {max(sums)}")
    began, highest_ended = {}, []
    for line in history:
        key = (line.pid, line.thread)
        if line.event == "adding":
            began[key] = highest_ended[-1] if highest_ended else 0
        elif line.event == "added":
            total = int(line.words[0])
            assert total > began[key], f"an addition returned {total} after another one had returned {began[key]}"
            highest_ended.append(max(total, highest_ended[-1] if highest_ended else 0))
    return collections.Counter(line.words[1] for line in of_event(history, "added")), doubt


def alone_a_counter_has_each_addition_once(server):
    with Scene(server) as scene:
        workers = [scene.add("count", f"c{i}") for i in range(3)]
        for worker in workers:
            worker.wait_for("added")
        scene.do_mischief(workers)
        scene.finish()
        last = scene.add("count", "last")
        last.wait_for("added")
        last.finish()
        ways, doubt = check_additions(scene.history())
        count = sum(ways.values())
        assert min(ways["add"], ways["compare-and-set"]) > count / 10, ways
        return (f"{count} additions, {ways['compare-and-set']} of them by comparing and setting, "
                f"{doubt} in doubt, {scene.note()}")


def alone_a_shared_value_is_followed_by_all(server):
    with Scene(server) as scene:
        workers = [scene.add("share", f"s{i}") for i in range(3)]
        for worker in workers:
            worker.wait_for("added")
        scene.do_mischief(workers)
        scene.finish()
        last = scene.add("share", "last")
        last.wait_for("added")
        last.finish()
        history = scene.history()
        ways, doubt = check_additions([line for line in history if line.event != "beaten"])
        # A copy that was made current has every sum that was added before that began.
        looking, highest, seen = {}, 0, {}
        for line in history:
            if line.event == "looking":
                looking[line.pid] = highest
            elif line.event == "added":
                highest = max(highest, int(line.words[0]))
            elif line.event == "saw":
                value = int(line.words[0])
                assert value >= looking[line.pid], f"{line}, and {looking[line.pid]} had been added before"
                assert value >= seen.get(line.pid, 0), f"{line} goes back from {seen[line.pid]}"
                seen[line.pid] = value
        beaten = len(of_event(history, "beaten"))
        return f"{sum(ways.values())} additions, {beaten} times another one was first, {doubt} in doubt, {scene.note()}"


class Queues:
    """The items that were offered to queues and taken from them, according to the histories."""

    def __init__(self, history):
        self.offered = {line.words[0]: line.ns for line in of_event(history, "offered")}
        self.offering, self.ranks, self.queues = {}, {}, {}
        for line in of_event(history, "offering"):
            item, queue, rank = line.words
            self.offering[item], self.ranks[item], self.queues[item] = line.ns, int(rank), queue
        self.takes = collections.defaultdict(list)  # (began, ended, item), by queue
        self.in_doubt = []  # (queue, began, until) of takes by consumers that were killed or lost their sessions
        self._read_takes(history)

    def _read_takes(self, history):
        taking = collections.defaultdict(dict)  # (began, queue), by process and thread
        for line in history:
            if line.event == "taking":
                taking[line.pid, line.worker][line.thread] = (line.ns, line.words[0])
            elif line.event == "took":
                item, queue, now_ms = line.words
                began, _ = taking[line.pid, line.worker].pop(line.thread)
                self.takes[queue].append((began, line.ns, item))
                if queue == "/delayed-queue" and item in self.ranks:
                    early_ms = self.ranks[item] - int(now_ms)
                    assert early_ms <= 0, f"{item} was taken {early_ms} ms too early"
            elif line.event == "lost":
                pending = taking.pop((line.pid, line.worker), {})
                self.in_doubt += [(queue, began, line.ns) for began, queue in pending.values()]
        for (pid, worker), pending in taking.items():
            if pid in worker.ended:  # processes that ended by themselves have reported all items that they took
                self.in_doubt += [(queue, began, worker.ended[pid]) for began, queue in pending.values()]

    def comes_before(self, item, other):
        """Returns whether `item` has to be taken before `other` while both are in the queue. REQUIRES: `item` was
        offered successfully."""
        if self.queues[item] == "/queue":
            return self.offered[item] < self.offering[other]
        return self.ranks[item] < self.ranks[other]

    def gone_by(self, item):
        """Returns the time (ns) by which the item was surely gone, because an item behind it was taken."""
        return min((ended for began, ended, other in self.takes[self.queues[item]]
                    if began >= self.offered[item] and self.comes_before(item, other)), default=1 << 63)


class Latest:
    """Finds the greatest value that was added at any place before a given place (a Fenwick tree)."""

    def __init__(self, places):
        self.places = sorted(set(places))
        self.greatest = [(0, "")] * (len(self.places) + 1)

    def add(self, place, value):
        i = bisect.bisect_left(self.places, place) + 1
        while i < len(self.greatest):
            self.greatest[i] = max(self.greatest[i], value)
            i += i & -i

    def before(self, place):
        i, found = bisect.bisect_left(self.places, place), (0, "")
        while i:
            found = max(found, self.greatest[i])
            i -= i & -i
        return found


def check_order(queues):
    """Checks that no item is taken while an item that comes before it was surely in the queue: that item was added
    before the take began, and was taken by a take that began after the end of this one."""
    for queue, takes in queues.takes.items():
        is_plain = queue == "/queue"
        others = sorted((queues.offered[item], began, item) for began, _, item in takes if item in queues.offered)
        latest, i = Latest(queues.ranks[item] for _, _, item in others), 0

        def sure_since(take):
            began, _, item = take
            return min(began, queues.offering[item] - 1) if is_plain else began

        for take in sorted(takes, key=sure_since):
            _, ended, item = take
            while i < len(others) and others[i][0] <= sure_since(take):
                latest.add(queues.ranks[others[i][2]], others[i][1:])
                i += 1
            began, other = latest.before(math.inf if is_plain else queues.ranks[item])
            assert began < ended, f"{queue}: {item} was taken before {other}"


def check_lost(queues, missing, late_seconds):
    """Checks that each lost item can have been taken by a consumer that was killed, or lost its session, during a take:
    one item for each such take, which must have been in the queue at that time. A request may arrive `late_seconds`
    late."""
    late_ns = int(late_seconds * 1e9)
    takers = {}
    for item in missing:
        gone_by = queues.gone_by(item)
        takers[item] = [i for i, (queue, began, until) in enumerate(queues.in_doubt)
                        if queue == queues.queues[item] and began < gone_by and until + late_ns > queues.offering[item]]
    item_of = {}

    def find(item, seen):
        for i in takers[item]:
            if i in seen:
                continue
            seen.add(i)
            if i not in item_of or find(item_of[i], seen):
                item_of[i] = item
                return True
        return False

    for item in sorted(missing, key=queues.offered.get):
        assert find(item, set()), (
            f"{item} of {queues.queues[item]} was offered at {queues.offered[item]} and no consumer took it: "
            f"{len(missing)} items are lost, {len(queues.in_doubt)} removals are in doubt, at other times")


def check_items(history, late_seconds=2):
    """Checks that each item is taken once, and in its order. `history`: the lines of all workers that use the queues.
    `late_seconds`: how long after the end of a consumer its removal may take effect."""
    took = collections.Counter(line.words[0] for line in of_event(history, "took"))
    twice = [item for item, count in took.items() if count > 1]
    assert not twice, f"taken twice: {twice[:5]}"
    queues = Queues(history)
    unknown = set(took) - set(queues.offering)
    assert not unknown, f"taken and never offered: {list(unknown)[:5]}"
    check_order(queues)
    missing = set(queues.offered) - set(took)
    check_lost(queues, missing, late_seconds)
    return f"{len(took)} items, {len(missing)} lost with their consumers"


def alone_queues_give_each_item_once(server):
    with Scene(server) as scene:
        producers = [scene.add("produce", f"p{i}") for i in range(2)]
        consumers = [scene.add("consume", f"c{i}") for i in range(3)]
        for worker in producers:
            worker.wait_for("offered")
        for worker in consumers:
            worker.wait_for("took")
        scene.do_mischief(producers + consumers)
        scene.finish(producers)
        scene.finish(consumers)
        drain = scene.add("drain", "d0")
        drain.wait(gets_on=True)
        return f"{check_items(scene.history())}, {scene.note()}"


class Inside:
    """The times that members may have spent inside a double barrier, according to their histories."""

    def __init__(self, workers, history):
        self.stays = []  # (entering, entered or None, leaving or None, left or None, worker)
        current = {}
        for line in history:
            stay = current.get(line.pid)
            if line.event == "entering":
                stay = current[line.pid] = {"worker": line.worker, "pid": line.pid, "entering": line.ns}
                self.stays.append(stay)
            elif stay is not None and line.event in ("gave-up", "entered", "leaving", "left", "lost"):
                stay[line.event] = line.ns
        ended = {pid: ns for worker in workers for pid, ns in worker.ended.items()}
        for stay in self.stays:
            # The member's znode exists until its session has ended.
            if stay["pid"] in ended and "left" not in stay and "gave-up" not in stay:
                stay["gone"] = ended[stay["pid"]] + int((SESSION_TIMEOUT_MS + 3000) * 1e6)
            stay["end"] = min([stay[key] for key in ("gave-up", "left", "gone") if key in stay]
                              + ([stay["lost"] + int(3e9)] if "lost" in stay else []), default=1 << 63)


def open_is_closed(scene, workers):
    """Kills all members, wherever they are: the next member must not find the barrier open."""
    for worker in workers:
        worker.kill()
    with native.Tree(scene.cluster.command("grpc").split(",")[0]) as tree:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while set(tree.list("/double-barrier").result.children) - {"ready"}:
            assert time.monotonic() < deadline, "the sessions do not end"
            time.sleep(0.05)
    first, *others = workers
    first.start()
    pid, before = first.process.pid, len(first.history())
    first.wait_for("gave-up", sum(line.event == "gave-up" for line in first.history()[:before]) + 1)
    events = [line.event for line in first.history() if line.pid == pid]
    assert "entered" not in events, f"a member entered alone: {events}"
    for worker in others:
        worker.start()
    for worker in workers:
        worker.wait_for("left", sum(line.event == "left" for line in worker.history()) + 1)


def alone_nobody_enters_or_leaves_a_double_barrier_early(server):
    members = 3
    with Scene(server) as scene:
        workers = [scene.add("meet", f"m{i}", "--members", members) for i in range(members + 1)]
        for worker in workers:
            worker.wait_for("left", 2)
        scene.do_mischief(workers)
        open_is_closed(scene, workers)
        scene.finish()
        history = scene.history()
        stays = Inside(workers, history).stays
        rounds = 0
        for stay in stays:
            if "entered" in stay:
                now = stay["entered"]
                there = [s for s in stays if s["entering"] < now and s["end"] > stay["entering"]]
                assert len({s["pid"] for s in there}) >= members, f"entered alone: {stay}"
            if "left" in stay:
                rounds += 1
                for other in stays:
                    still = min([other[key] for key in ("leaving", "gone") if key in other], default=1 << 63)
                    if "lost" in other:
                        # A worker that was stopped learns only when it continues that its session has ended.
                        still = min(still, other["lost"] - int(STOPPED_SECONDS * 1e9))
                    killed = other["worker"].ended.get(other["pid"], 1 << 63)
                    assert not (other["pid"] != stay["pid"] and other.get("entered", 1 << 63) < stay["leaving"]
                                and min(still, killed) > stay["left"]), (
                        f"left while another was inside: {stay} {other}")
        assert rounds > 5, f"{rounds} rounds"
        return f"{rounds} rounds, {scene.note()}"


def alone_a_latch_opens_when_all_jobs_were_counted(server):
    jobs = 400
    with Scene(server) as scene:
        waiters = [scene.add("await", f"w{i}", "--jobs", jobs) for i in range(2)]
        workers = [scene.add("count-down", f"c{i}", "--jobs", jobs) for i in range(2)]
        for worker in waiters + workers:
            worker.wait_for("connected")
        scene.do_mischief(workers + waiters)
        for worker in waiters:
            worker.wait_for("open")
        scene.finish()
        history = scene.history()
        first_open = of_event(history, "open")[0]
        counted = {line.words[0] for line in of_event(history, "counting") if line.ns < first_open.ns}
        assert len(counted) == jobs, f"the latch opened when {len(counted)} of {jobs} jobs had been counted"
        left = [int(line.words[0]) for line in of_event(history, "left")]
        assert min(left) == 0 and left[-1] == 0
        return f"{len(left)} times counted, {scene.note()}"


def surely_closed(keeper):
    """Returns the times, (begin, end), at which the gate was closed whatever the outcome of unknown writes."""
    closed, in_doubt_until, opening, process = [], 0, False, None
    begin = None
    for line in keeper.history():
        if line.pid != process or line.event in ("lost", "connected"):
            # A write of the previous session may still take effect.
            if opening:
                in_doubt_until = line.ns + int((SESSION_TIMEOUT_MS / 1000 + 3) * 1e9)
            # A closed gate stays closed until the next process opens it.
            opening, process = False, line.pid
        if line.event == "closed":
            begin = begin or line.ns
        elif line.event == "opening":
            if begin is not None and begin > in_doubt_until:
                closed.append((begin, line.ns))
            begin, opening = None, True
        elif line.event == "opened":
            opening = False
    return closed


PASSED_MIN, CLOSED_MIN = 50, 15


def alone_nobody_passes_a_closed_gate(server):
    with Scene(server) as scene:
        keeper = scene.add("gate", "k0")
        visitors = [scene.add("pass", f"v{i}") for i in range(3)]
        for worker in visitors:
            worker.wait_for("passed", 20)
        scene.do_mischief([keeper] + visitors, hangs_members=True, is_enough=lambda: (
            len(of_event(scene.history(visitors), "passed")) > PASSED_MIN
            and len(surely_closed(keeper)) > CLOSED_MIN))
        # The gate stays open, and all visitors have to pass. Waits, because a keeper that has only just begun might
        # end before it opens the gate that the keeper before it has closed.
        keeper.wait_for_process("opened")
        scene.finish([keeper])
        assert keeper.history()[-1].event == "opened", keeper.history()[-3:]
        scene.finish(visitors)
        closed = surely_closed(keeper)
        passed = 0
        for visitor in visitors:
            coming = {}
            for line in visitor.history():
                if line.event == "coming":
                    coming[line.pid] = line.ns
                elif line.event == "passed":
                    passed += 1
                    at = bisect.bisect(closed, (coming[line.pid], 0)) - 1
                    assert at < 0 or closed[at][1] < line.ns, (
                        f"{visitor.name} came at {coming[line.pid]} and passed at {line.ns}: closed {closed[at]}")
        assert passed > PASSED_MIN and len(closed) > CLOSED_MIN, f"{passed} passed, {len(closed)} times closed"
        return f"{passed} passed, {len(closed)} times surely closed, {scene.note()}"


def check_transactions(history, members):
    """Checks that all processes report the same decision for each transaction, and that it was committed only if all
    `members` voted for it."""
    decisions = collections.defaultdict(set)
    for line in of_event(history, "decided", "coordinated"):
        decisions[line.words[0]].add(line.words[1])
    for name, said in decisions.items():
        assert len(said) == 1, f"{name}: {said}"
    against = {line.words[0] for line in of_event(history, "voting") if line.words[1] == "no"}
    voted, committed = collections.defaultdict(set), set()
    for line in of_event(history, "voting", "decided", "coordinated"):
        if line.event == "voting":
            voted[line.words[0]].add(line.worker.name)
        elif line.words[1] == "commit" and line.words[0] not in committed:
            committed.add(line.words[0])
            assert len(voted[line.words[0]]) == members, (
                f"{line.words[0]} was committed with the votes of {voted[line.words[0]]} only")
    commits = [name for name, said in decisions.items() if said == {"commit"}]
    for name in commits:
        assert name not in against, f"{name} was committed against a vote"
    aborts = len(decisions) - len(commits)
    assert commits and aborts, f"{len(commits)} commits, {aborts} aborts"
    resumed = len(of_event(history, "resumed"))
    return f"{len(commits)} commits, {aborts} aborts, {resumed} resumed"


def alone_transactions_are_committed_by_all_or_none(server):
    members = 3
    with Scene(server) as scene:
        coordinator = scene.add("coordinate", "k0", "--members", members)
        participants = [scene.add("participate", f"p{i}", "--members", members) for i in range(members)]
        coordinator.wait_for("coordinated", 2)
        scene.do_mischief([coordinator] + participants,
                          is_enough=lambda: of_event(scene.history(), "resumed"))
        done = len(of_event(coordinator.history(), "coordinated"))
        coordinator.wait_for("coordinated", done + 2)
        scene.finish([coordinator])
        scene.finish(participants)
        history = scene.history()
        assert of_event(history, "resumed"), "no coordinator resumed the transactions of a killed one"
        return f"{check_transactions(history, members)}, {scene.note()}"


def alone_a_cache_is_the_tree(server):
    with Scene(server) as scene:
        churners = [scene.add("churn", f"c{i}") for i in range(2)]
        followers = [scene.add("follow", f"f{i}") for i in range(2)]
        for worker in churners:
            worker.wait_for("changed", 20)
        for worker in followers:
            worker.wait_for("loaded")
        scene.do_mischief(churners)
        late = scene.add("follow", "late")
        late.wait_for("loaded")
        scene.finish(churners)
        scene.finish(followers + [late])
        for worker in followers + [late]:
            last = worker.history()[-1]
            assert last.event == "same", f"{worker.name}: {last}"
        history = scene.history()
        assert not of_event(history, "orphan"), "a znode appeared before its parent"
        return f"{len(of_event(history, 'changed'))} changes, {scene.note()}"


def alone_members_of_a_group_see_who_is_there(server):
    with Scene(server) as scene:
        workers = [scene.add("member", f"m{i}") for i in range(4)]
        for worker in workers:
            worker.wait_for("member")
        scene.do_mischief(workers)
        gone, *there = workers
        gone.kill()
        expected = ",".join(worker.name for worker in there)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            last = [of_event(worker.history(), "sees")[-1].words for worker in there]
            if all(words == [expected] for words in last):
                break
            assert time.monotonic() < deadline, f"{expected} are there, and seen are {last}"
            time.sleep(0.1)
        for worker in there:
            seen = [line.words[0] for line in of_event(worker.history(), "sees")]
            assert all(worker.name in names.split(",") for names in seen if names), "it did not see itself"
        scene.finish(there)
        return scene.note()


def alone_curator_shares_them(server):
    with Scene(server) as scene:
        cluster = scene.cluster
        classes = os.path.join(cluster.parent, "classes")
        jvm.compile_sources(os.path.join(harness.ROOT, "tests/native/recipes/curator"), JARS, classes)
        with subprocess.Popen([*jvm.command("Peer", JARS, classes), cluster.hosts()], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as java:
            try:
                line = java.stdout.readline().strip()
                assert line == "ready", f"{line}\n{java.stdout.read()}"
                ours = subprocess.run([os.path.join(PROGRAMS, "curator_peer"), cluster.command("grpc")],
                                      capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
                assert ours.returncode == 0, ours.stderr
                output, _ = java.communicate(timeout=PATIENCE_SECONDS)
                assert java.returncode == 0 and output.strip() == "done", output
            finally:
                java.kill()
        return "queues, counters, values, barriers, a group, services, a lock and an election"
