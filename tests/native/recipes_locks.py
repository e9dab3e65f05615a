# SPDX-License-Identifier: Apache-2.0
"""Tests locks, semaphores and elections of the C++ client while members and workers are killed, and workers
are stopped for longer than their sessions last. Checks the output of locks_worker.cc."""

import collections
import contextlib
import glob
import os
import random
import signal
import subprocess
import tempfile
import time

import harness
import links
import native
import recipes_history

CLI = os.environ.get("QUORATE", os.path.join(harness.ROOT, ".bazel/opt-bin/tools/quorate"))
WORKER = os.path.join(os.environ.get("QUORATE_BIN", os.path.join(harness.ROOT, ".bazel/opt-bin")),
                      "tests/native/recipes/locks_worker")
WORKERS = 4
SECONDS = 6
# A run goes on until locks were held at least HOLDS_MIN times, and at least OUTLIVED_MIN holders outlived their
# sessions. Not every stop counts as outliving, because a recipe may learn of the deletion of its znode before it
# learns of the end of the session.
HOLDS_MIN, OUTLIVED_MIN = 40, 3
SECONDS_MAX = 60
SESSION_TIMEOUT_MS = 1500
WAITING = 9  # how many clients wait for a lock
# How many pieces of data more the last three waiting clients receive than the first three, on average, if each
# release notifies all of them: 6 or more. Otherwise there is no difference.
HERD_MIN = 4
HERD_ATTEMPTS = 3
STOPPED_SECONDS = 2.4  # longer than a session lives
# After this time without a tick a worker counts as stopped: it could not learn that it had lost its lock. Well
# below the session's timeout, and longer than the delays of a busy machine.
GAP_NS = 500_000_000
# How long after a gap a worker may still read answers that arrived before or during the gap.
GRACE_NS = 1_000_000_000
FINISH_SECONDS = 40  # the time in which all workers have to end
LEASES = 3

Line = collections.namedtuple("Line", "ns process thread event arguments")
# The time for which a process held a lock or led: `key` is process, kind and token.
Hold = collections.namedtuple("Hold", "begin end key")


class Worker:
    """A worker process and its output."""

    def __init__(self, arguments, directory, prefix=()):
        """`prefix`: the prefix of its command, if it is to run on a node of a network."""
        self.path = tempfile.mktemp(dir=directory)
        with open(self.path, "wb") as output:
            self.process = subprocess.Popen([*prefix, WORKER, *map(str, arguments)], stdout=output,
                                            stdin=subprocess.DEVNULL)
        self.is_killed, self.stopped = False, None
        self.killed_ns = None

    def has_begun(self):
        """Returns whether the worker has started far enough to handle signals."""
        return os.path.getsize(self.path) > 0

    def kill(self):
        self.is_killed = True
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.killed_ns = time.monotonic_ns()

    def go_on(self):
        """Continues the worker if it stopped itself long enough ago. Returns whether it did."""
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as file:
            if file.read().rsplit(")", 1)[1].split()[0] != "T":
                self.stopped = None
                return False
        self.stopped = self.stopped or time.monotonic()
        if time.monotonic() < self.stopped + STOPPED_SECONDS:
            return False
        self.process.send_signal(signal.SIGCONT)
        return True

    def state(self):
        """Describes what each of its threads does: its last lines, and its state in the kernel."""
        last = {line.thread: line for line in self.lines()}
        text = "".join(f"\n    thread {thread}: {line.ns} {line.event} {' '.join(line.arguments)}"
                       for thread, line in sorted(last.items()))
        for task in sorted(glob.glob(f"/proc/{self.process.pid}/task/*")):
            with contextlib.suppress(OSError):  # a thread that has ended
                with open(f"{task}/wchan", encoding="utf-8") as file:
                    waits = file.read()
                with open(f"{task}/status", encoding="utf-8") as file:
                    fields = dict(line.split(":", 1) for line in file.read().splitlines())
                text += f"\n    task {os.path.basename(task)} waits in {waits}"
                for name in ("State", "SigPnd", "ShdPnd", "SigBlk"):
                    text += f", {name} {fields[name].strip()}"
        return text

    def problem(self):
        """Returns what is wrong with the worker's end, or nothing. Kills the worker if it still runs. REQUIRES: it had
        time to end."""
        if self.process.poll() is None:
            state = self.state()
            self.kill()
            return f"worker {self.process.pid} does not end:{state}"
        status = self.process.returncode
        # It may not have reached main yet.
        if self.is_killed or status in (0, -signal.SIGTERM):
            return None
        return f"worker {self.process.pid} ended with status {status}"

    def lines(self):
        return sorted((Line(*line) for line in recipes_history.lines(self.path)), key=lambda line: line.ns)


def finish(workers):
    """Lets all workers end by themselves. Returns the problems of any of them."""
    for worker in workers:
        worker.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + FINISH_SECONDS
    while running := [worker for worker in workers if worker.process.poll() is None]:
        if time.monotonic() > deadline:
            break
        for worker in running:
            worker.go_on()
        time.sleep(0.02)
    return [problem for worker in workers if (problem := worker.problem())]


def gaps_of(worker, lines):
    """Returns the times, (begin, end), at which the worker did not run."""
    # A worker that was asked to end ticks no more; its last line shows that it ran until then.
    ticks = [line.ns for line in lines if line.event == "tick"] + [line.ns for line in lines[-1:]]
    gaps = [(a, b) for a, b in zip(ticks, ticks[1:]) if b - a > GAP_NS]
    if worker.is_killed and ticks:
        gaps.append((ticks[-1], worker.killed_ns))
    return gaps


def holds_of(worker, lines, begins, ends):
    """Returns the Holds of the worker. `begins` and `ends` are names of events."""
    gaps = gaps_of(worker, lines)
    end_of_all = worker.killed_ns or (lines[-1].ns if lines else 0)
    holds, open_, released = [], {}, set()

    def end(key, ns):
        begin = open_.pop(key, None)
        if begin is None:
            return
        # A stopped process does not use its lock, so the hold ends when the gap begins. What the process does
        # after the gap, before it learns that it has lost the lock, is prevented by tokens.
        for gap_begin, gap_end in gaps:
            if gap_begin < ns and begin < gap_end + GRACE_NS:
                ns = min(ns, gap_begin)
        if ns > begin:
            holds.append(Hold(begin, ns, key))

    for line in lines:
        key = (line.process, *line.arguments[:2])
        if line.event in begins and key not in released:
            open_[key] = line.ns
        elif line.event in ends:
            end(key, line.ns)
            if line.event == "release":
                released.add(key)
    for key in list(open_):
        end(key, end_of_all)
    return holds


def overlaps(holds):
    """Returns each pair of holds that overlap in time."""
    current, found = [], []
    for hold in sorted(holds):
        current = [other for other in current if other.end > hold.begin]
        found += [(other, hold) for other in current]
        current.append(hold)
    return found


def described(pair, histories):
    """Describes two holds, with the lines that their workers have printed about them."""
    text = ""
    for hold in pair:
        text += f"\n  {hold}:"
        for worker, lines in histories:
            told = [line for line in lines if line.process == hold.key[0] and
                    (tuple(line.arguments[:2]) == hold.key[1:] or line.event == "session")]
            if told:
                text += "".join(f"\n    {line.ns} {line.event}" for line in told)
                text += f"\n    did not run: {gaps_of(worker, lines)}"
    return text


def check_tokens(workers, kind, begin, end):
    """Checks that later acquisitions have larger tokens. Leaves out workers that did not run for some time between the
    event `begin` (the request) and the event `end` (the acquisition), because they may report it late. Returns the
    number of acquisitions that were checked."""
    acquired = []
    for worker, lines in workers:
        gaps = gaps_of(worker, lines)
        asked = {}
        for line in lines:
            if not line.arguments or line.arguments[0] != kind:
                continue
            if line.event == begin:
                asked[line.thread] = line.ns
            if line.event == end:
                since = asked.get(line.thread, line.ns)
                if not any(a < line.ns and since < b + GRACE_NS for a, b in gaps):
                    acquired.append((line.ns, int(line.arguments[1])))
    acquired.sort()
    for (_, before), (ns, token) in zip(acquired, acquired[1:]):
        assert token > before, f"token {token} at {ns} ns comes after {before}"
    return len(acquired)


def is_enough(workers):
    histories = [(worker, worker.lines()) for worker in workers]
    if sum(line.event in ("outlived", "kept") for _, lines in histories for line in lines) < OUTLIVED_MIN:
        return False
    return len(all_holds(histories, ("acquired", "resumed", "elected"),
                         ("release", "lost", "suspended", "deposed"))) >= HOLDS_MIN


def run_workers(server, recipe, seed, *more):
    """Runs workers while members and workers fail. Returns pairs of a worker and its lines, and a note."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="quorate-locks-") as directory, \
            harness.Cluster(server, settings=["tickTime=500"]) as cluster:
        servers = cluster.command("grpc")
        with native.Tree(servers.split(",")[0]) as tree:
            tree.create("/resource")
            tree.create("/recipe")

        def start():
            arguments = [recipe, "--servers", servers, "--path", "/recipe/shared", "--seed",
                         chance.randrange(1 << 30), "--session-timeout-ms", SESSION_TIMEOUT_MS, *more]
            # Every second worker keeps its client, and what is built on it, when it loses its session.
            nonlocal started
            started += 1
            return Worker(arguments + ["--keep-client"] * (started % 2), directory)

        started = 0
        workers = [start() for _ in range(WORKERS)]
        killer = harness.Killer(cluster, SECONDS, settle_seconds=2.2)
        killer.start()
        kills = stops = faults = 0
        begin = next_fault = time.monotonic()
        try:
            while time.monotonic() < begin + SECONDS or (
                    time.monotonic() < begin + SECONDS_MAX and not is_enough(workers)):
                time.sleep(0.05)
                running = [worker for worker in workers if not worker.is_killed and worker.has_begun()]
                stops += sum(worker.go_on() for worker in running)
                if time.monotonic() < next_fault + 0.5 or not running:
                    continue
                # Faults are not too frequent, because the other workers wait until the victim's session has ended.
                next_fault += chance.uniform(1.5, 2.5)
                victim = chance.choice(running)
                faults += 1
                if faults == 1 or chance.random() < 0.6:
                    victim.process.send_signal(signal.SIGUSR1)
                else:
                    victim.kill()
                    workers.append(start())
                    kills += 1
            member_kills = killer.stop()
        finally:
            problems = finish(workers)
        histories = [(worker, worker.lines()) for worker in workers]
        assert not problems, "\n  ".join(problems)
        assert member_kills, f"seed {seed}: no member was killed"
        check_nothing_left(servers)
    kept, outlived = ([line for _, lines in histories for line in lines if line.event == event]
                      for event in ("kept", "outlived"))
    assert not kept, f"seed {seed}: a lock was reported as held when its session had ended: {kept[0]}"
    return histories, (f"seed {seed}: {member_kills} members and {kills} workers killed, {stops} stopped, "
                       f"{len(outlived)} outlived their sessions")


def check_nothing_left(servers):
    """Checks that no znode of any session is left when all sessions have ended."""
    def left(tree, path):
        try:
            children = tree.list(path).result.children
        except native.Failed:
            return []
        below = [f"{path}/{child}" for child in children]
        return [p for p in below if "_c_" in p] + [p for b in below if "_c_" not in b for p in left(tree, b)]

    with native.Tree(servers.split(",")[1]) as tree:
        deadline = time.monotonic() + 15
        while True:
            tree.get("/", linearizable=True)
            found = left(tree, "/recipe")
            if not found:
                return
            assert time.monotonic() < deadline, f"left behind: {found}"
            time.sleep(0.05)


def new_seed():
    return int(os.environ.get("SEED", random.randrange(1 << 30)))


def all_holds(histories, begins=("acquired", "resumed"), ends=("release", "lost", "suspended")):
    return [hold for worker, lines in histories for hold in holds_of(worker, lines, begins, ends)]


def count_of(event, histories):
    return sum(line.event == event for _, lines in histories for line in lines)


def check_mutex(histories, note):
    """Checks that there is one holder at a time, and that the resource accepts writes in the order of their tokens.
    Returns a line of figures. A failure's message begins with `note`."""
    found = overlaps(all_holds(histories))
    assert not found, f"{note}: two processes hold it: {described(found[0], histories)}"
    acquired = check_tokens(histories, "mutex", "acquiring", "acquired")
    # The resource accepts writes only in the order of the tokens. So it refuses writes of a holder that was stopped
    # and has lost the lock.
    wrote = sorted((int(line.arguments[1]), int(line.arguments[0])) for _, lines in histories
                   for line in lines if line.event == "wrote")
    assert [token for _, token in wrote] == sorted({token for _, token in wrote}), f"{note}: {wrote}"
    refused = count_of("refused", histories)
    assert acquired > 10 and wrote, f"{note}: {acquired} acquired"
    return f"{acquired} acquired, {len(wrote)} fenced writes, {refused} refused, {note}"


def alone_a_mutex_has_one_holder(server):
    return check_mutex(*run_workers(server, "mutex", new_seed(), "--resource", "/resource"))


def alone_a_semaphore_mutex_has_one_holder(server):
    histories, note = run_workers(server, "semaphore-mutex", new_seed())
    holds = all_holds(histories)
    found = overlaps(holds)
    assert not found, f"{note}: two processes hold it: {described(found[0], histories)}"
    assert len(holds) > 10, f"{note}: {len(holds)} acquired"
    return f"{len(holds)} acquired, {note}"


def alone_a_leader_selector_has_one_leader(server):
    histories, note = run_workers(server, "selector", new_seed(), "--resource", "/resource")
    holds = all_holds(histories, ("elected",), ("deposed",))
    found = overlaps(holds)
    assert not found, f"{note}: two lead: {described(found[0], histories)}"
    terms = check_tokens(histories, "selector", "elected", "elected")
    # What leaders write under their guards is written in the order of their terms.
    wrote = sorted((int(line.arguments[1]), int(line.arguments[0])) for _, lines in histories
                   for line in lines if line.event == "wrote")
    assert [token for _, token in wrote] == sorted({token for _, token in wrote}), f"{note}: {wrote}"
    leaders = len({hold.key[0] for hold in holds})
    assert terms > 10 and leaders > 1 and len(wrote) > 10, f"{note}: {terms} terms of {leaders}, {len(wrote)} writes"
    return f"{terms} terms of {leaders} processes, {len(wrote)} guarded writes, {note}"


def heard_in_line(server):
    """Returns how many pieces of data each client received that waited for a lock, first to last, until all clients had
    held the lock."""
    with tempfile.TemporaryDirectory(prefix="quorate-locks-") as directory, \
            harness.Cluster(server, size=1, settings=["tickTime=30000"]) as cluster:
        address = cluster.command("grpc")
        proxies = links.Links(WAITING + 2, seed=1)  # one for each client that takes the lock; the last is the server
        *names, served = proxies.members
        proxies.lead_to([int(address.rpartition(":")[2])] * len(proxies.members))
        go = os.path.join(directory, "go")
        holders = []
        try:
            with native.Tree(address) as tree:
                tree.create("/line")
                for count, name in enumerate(names, 1):
                    own = f"{harness.HOST}:{proxies.port(name, served)}"
                    # The session timeout is so long that no client sends a keepalive meanwhile.
                    holders.append(subprocess.Popen(
                        [CLI, "lock", "--quiet", "--server", own, "--session-timeout", "600", "/line", "--", "sh", "-c",
                         f"while [ ! -e {go} ]; do sleep 0.02; done"]))
                    deadline = time.monotonic() + FINISH_SECONDS
                    while len(tree.list("/line").result.children) < count:
                        assert time.monotonic() < deadline, f"{name} has no znode below /line"
                        time.sleep(0.01)
                with open(go, "w", encoding="ascii"):
                    pass
                for holder in holders:
                    assert holder.wait(FINISH_SECONDS) == 0, holder.args
            return [proxies.delivered(served, name) for name in names[1:]]
        finally:
            for holder in holders:
                holder.kill()
                holder.wait()
            proxies.end()


def alone_who_waits_hears_of_his_own_turn_only(server):
    """There is no herd effect: a release notifies only the client that is next in line."""
    attempts = []
    for _ in range(HERD_ATTEMPTS):
        # Clients at the end of the line have waited while all others held the lock. Each client receives one event
        # and reads once, but the data may arrive in different numbers of pieces. So the test fails only if clients
        # that wait longer receive more, in each attempt.
        heard = heard_in_line(server)
        attempts.append(heard)
        if (sum(heard[-3:]) - sum(heard[:3])) / 3 < HERD_MIN:
            return f"pieces received by the waiting clients, first to last: {heard}"
    raise AssertionError(f"pieces received by the waiting clients, first to last, in each attempt: {attempts}")


def alone_a_multi_lock_has_all_or_none(server):
    histories, note = run_workers(server, "multi", new_seed())
    broken = [line for _, lines in histories for line in lines if line.event == "broken"]
    assert not broken, f"{note}: one lock was held without the other: {broken[0]}"
    counts = []
    for kind in ("first", "second"):
        found = overlaps([hold for hold in all_holds(histories) if hold.key[1] == kind])
        assert not found, f"{note}: two processes hold it: {described(found[0], histories)}"
        counts.append(sum(line.event == "acquired" and line.arguments[0] == kind
                          for _, lines in histories for line in lines))
    together = count_of("together", histories)
    assert min(counts) > 10 and together > 5, f"{note}: {counts}, {together} together"
    return f"{counts[0]} and {counts[1]} acquired, {together} of them together, {note}"


def alone_a_read_write_lock_has_readers_or_a_writer(server):
    histories, note = run_workers(server, "read-write", new_seed())
    holds = all_holds(histories)
    # A worker that downgrades from writer to reader has the same token twice.
    found = [(a, b) for a, b in overlaps(holds) if "write" in (a.key[1], b.key[1])
             and not (a.key[0] == b.key[0] and a.key[2] == b.key[2])]
    assert not found, f"{note}: a writer is not alone: {described(found[0], histories)}"
    together = sum(a.key[1] == b.key[1] == "read" for a, b in overlaps(holds))
    writes = check_tokens(histories, "write", "acquiring", "acquired")
    downgrades = count_of("downgraded", histories)
    assert together > 2 and writes > 2 and downgrades, (
        f"{note}: {together} readers together, {writes} writes, {downgrades} downgrades")
    return (f"{len(holds)} acquired, {writes} by writers, {downgrades} of whom went on as readers, "
            f"{together} pairs of readers, {note}")


def alone_a_semaphore_has_no_more_holders_than_leases(server):
    histories, note = run_workers(server, "semaphore", new_seed(), "--leases", LEASES)
    holds = sorted(all_holds(histories))
    most, current = 0, []
    for hold in holds:
        current = [other for other in current if other.end > hold.begin] + [hold]
        most = max(most, len(current))
        assert len(current) <= LEASES, f"{note}: {current}"
    assert most > 1 and len(holds) > 10, f"{note}: {most} at a time, {len(holds)} in all"
    return f"{len(holds)} acquired, up to {most} at a time, {note}"


def alone_an_election_has_one_leader(server):
    histories, note = run_workers(server, "election", new_seed())
    counts = {}
    for kind in ("election", "latch"):
        holds = [hold for hold in all_holds(histories, ("elected",), ("deposed",)) if hold.key[1] == kind]
        found = overlaps(holds)
        assert not found, f"{note}: two lead: {described(found[0], histories)}"
        counts[kind] = len(holds)
        assert len({hold.key[0] for hold in holds}) > 1, f"{note}: who leads: {holds}"
    check_tokens(histories, "election", "elected", "elected")
    assert counts["election"] > 10, f"{note}: {counts}"
    return f"{counts['election']} elections, {counts['latch']} of latches, {note}"
