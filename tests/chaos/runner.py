# SPDX-License-Identifier: Apache-2.0
"""Runs a cluster and workers with the faults of a plan, and checks the outcome."""

import contextlib
import heapq
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
import traceback

import steady
import harness
import nemeses
import plan
import progress
import report
from links import Links
from members import Members
from network import Network
from recipes import Recipes
from workers import Workers

HISTORY_CHECKER = os.path.join(os.environ.get("QUORATE_BIN", os.path.join(harness.ROOT, ".bazel/opt-bin")),
                               "tests/chaos/history_checker")
SERVE_SECONDS = 40
# Longer than the 30 s that a leader waits for an unanswered comparison of trees before it begins the next one.
SAME_SECONDS = 45
REST_PATIENCE_SECONDS = 15  # added to the time that the rest takes if the leader does not change
HISTORY_CHECK_SECONDS = 900
LIVE_SECONDS = 1.0
LEADER_SECONDS = 0.4
# The interval of the checks for stalls of the machine, and how late a check may be.
STALL_SECONDS, STALL_LATE_SECONDS = 0.1, 0.5
LATER_SECONDS = 0.2
END_SECONDS = 5  # the time until the exit status of a process is recorded
DEATHS_MAX = 3
ERROR_CHARACTERS = 4000


class Log:
    """The log of a run: a JSON line for each event, {"t": ns, "e": ..., ...}."""

    def __init__(self, path):
        self.path = path
        self.file = open(path, "w", encoding="utf-8", buffering=1)  # pylint: disable=consider-using-with
        self.lines = []

    def write(self, what, **fields):
        line = {"t": time.monotonic_ns(), "e": what, **fields}
        self.lines.append(line)
        self.file.write(json.dumps(line) + "\n")


class Fault:
    """A fault of the plan that has begun."""

    def __init__(self, number, planned, log):
        self.number, self.planned, self.log = number, planned, log
        self.nemesis, self.seconds = planned.nemesis, planned.seconds
        self.chance = random.Random(planned.seed)
        self.was_told = False

    def tell(self, members, text):
        """Logs the fault and the members that it affects. REQUIRES: called when the fault takes effect."""
        self.was_told = True
        self.log.write("fault", fault=self.number, nemesis=self.nemesis, members=list(members), text=text)

    def ended(self):
        if self.was_told:
            self.log.write("healed", fault=self.number, nemesis=self.nemesis)


class Scene:
    """The cluster, network and workers, as nemeses use them. `options`: those of the command line (run)."""

    def __init__(self, options, directory, log):
        self.options, self.log = options, log
        network = links = None
        names = options.nemeses
        has_spare = "new-number" in names and not options.why_no_network
        with contextlib.ExitStack() as stack:
            if not options.why_no_network:
                network = Network(options.size + has_spare, len(options.frontends), options.seed)
                stack.callback(network.end)
                network.enter()
            elif options.server == "quorate":
                links = Links(options.size, options.seed)
                stack.callback(links.end)
            self.network = network or links  # nemeses use the same methods of both
            faults = {"disk"} if {"slow-disk", "stalled-disk"} & set(names) else set()
            faults |= {"full-disk", "clock"} & set(names)
            self.cluster = Members(options.server, options.size, directory, network, faults,
                                   environment=options.environment, links=links, tls=options.tls, has_spare=has_spare)
            stack.callback(self.cluster.remove)
            self.cluster.start()
            servers = {"zookeeper": self.cluster.secure_hosts() if options.tls else self.cluster.hosts()}
            if options.server == "quorate":
                servers["native"] = self.cluster.command("grpc")
            frontends = options.frontends if options.workloads else []
            self.workers = Workers(frontends, servers, options, options.output, network, self.cluster.tls_directory)
            self.recipes = Recipes(options.recipes, self.cluster, options, network)
            self.ending = stack.pop_all()
        self.to_launch = set()
        self.wiped = {}  # by wiped member: the length of its log at that time
        self.to_admit = {}  # by member that a nemesis has taken out of the cluster or taken its vote: which of both

    def close(self):
        self.ending.close()

    # For nemeses

    def some(self, fault, count):
        """Returns `count` members, drawn by the fault's random generator."""
        return fault.chance.sample(list(self.cluster.numbers()), count)

    def leader_or_any(self, fault):
        picked = self.some(fault, 1)
        return [self.cluster.leader_now() or picked[0]]

    def a_worker(self, fault):
        """Returns a running worker. Workers of recipes are many, so they are chosen half as often as the others."""
        of_recipes, others = self.recipes.running(), self.workers.running()
        is_recipe = fault.chance.random() < 1 / 3 if others else True
        return fault.chance.choice(of_recipes if of_recipes and is_recipe else others)

    def running_workers(self):
        return self.workers.running() + self.recipes.running()

    def totals(self):
        """Returns ({"ok": ..., "refused": ..., "unknown": ...} of all workers, the time since the last acknowledged
        write)."""
        (totals, age), (of_recipes, recipes_age) = self.workers.totals(), self.recipes.totals()
        ages = [a for a in (age, recipes_age) if a is not None]
        return {key: n + of_recipes[key] for key, n in totals.items()}, min(ages, default=None)

    def replace_worker(self, worker):
        (self.workers if worker in self.workers.all else self.recipes).replace(worker)

    def launch(self, members):
        """Starts the members. A member without free space for its start is started later."""
        for member in members:
            self.to_launch.add(member)
        self.launch_missing()

    def not_counting(self):
        """Returns the members that have lost their data and do not count as members again yet."""
        return [member for member, since in self.wiped.items() if not self.cluster.has_caught_up(member, since)]

    def empty(self, member):
        """Starts a member that was removed from the cluster without its data."""
        self.cluster.remove_data(member)
        self.to_admit[member] = nemeses.DEMOTED
        self.launch([member])

    def lose(self, member):
        """A member of the cluster ends with its data, for good. The spare one is started."""
        self.to_admit[member] = nemeses.REPLACED
        self.cluster.remove_data(member)
        self.launch([self.cluster.spare])

    def replaced(self, member):
        """The spare member has taken the place of one that was lost."""
        self.log.write("note", text=f"member {self.cluster.spare} has the place of member {member}")
        self.to_admit.pop(member)
        self.wiped.pop(member, None)
        self.to_launch.discard(member)
        self.cluster.replaced(member)

    def admitted(self, member):
        """The member is in the cluster again, and has a vote."""
        self.to_admit.pop(member)
        self.wiped.pop(member, None)
        self.log.write("note", text=f"member {member} has its vote again")

    def admit_all(self):
        """After all faults are healed: completes the changes of members."""
        for member, what in sorted(self.to_admit.items()):
            if what == nemeses.REPLACED:
                self._change(*self.cluster.replacement_of(member))
                self.replaced(member)
                continue
            if what == nemeses.REMOVED:
                self._change("remove", member)
                self.empty(member)
            self._change("add", member, self.cluster.server_line(member))
            self.admitted(member)

    def _change(self, *arguments):
        process = self.cluster.member_command(*arguments, seconds=SERVE_SECONDS)
        said, _ = process.communicate()
        assert process.returncode == 0, f"`quorate member {' '.join(map(str, arguments))}` fails without a fault: {said}"

    def launch_missing(self):
        # One that is lost for good is not started by the end of a fault either.
        self.to_launch -= {member for member, what in self.to_admit.items() if what == nemeses.REPLACED}
        for member in sorted(self.to_launch):
            try:
                self.cluster.launch(member)
            except RuntimeError:
                if member not in self.cluster.disks:
                    raise
                continue
            self.to_launch.discard(member)

    def transfer(self, leader, target):
        # Imported here, so that gRPC is loaded only if it is needed.
        import administration  # pylint: disable=import-outside-toplevel
        host, _, port = self.cluster.address(leader).rpartition(":")
        error = administration.transfer_leadership(f"{host}:{int(port) + 100}", target, self.cluster.token,
                                                   self.cluster.ca_file())
        self.log.write("note", text=f"result of the transfer: {error or 'done'}")


class Executor:
    """Executes the plan, in one thread."""

    def __init__(self, scene, planned):
        self.scene, self.log = scene, scene.log
        self.waiting = list(planned)
        self.active = []  # (when, number, fault, generator)
        self.begun = 0

    def step(self, now):
        """Executes the steps that are due at `now`, in seconds since the begin. Returns the time of the next step."""
        while self.waiting and self.waiting[0].at <= now:
            planned = self.waiting.pop(0)
            lane = nemeses.LANE_OF[planned.nemesis]
            if any(nemeses.LANE_OF[fault.nemesis] == lane for _, _, fault, _ in self.active):
                # A fault of the same lane lasts longer than planned, such as a rolling restart.
                self.waiting = sorted([*self.waiting, planned._replace(at=now + LATER_SECONDS)])
                continue
            if planned.nemesis in nemeses.NEED_ALL_DATA and self.scene.not_counting():
                self.log.write("note", text=f"no {planned.nemesis}: not all have caught up after the last wipe")
                continue
            if planned.nemesis == "wipe" and self.scene.to_admit:
                self.log.write("note", text="no wipe: the members are being changed")
                continue
            self.begun += 1
            fault = Fault(self.begun, planned, self.log)
            generator = nemeses.function_of(planned.nemesis)(self.scene, fault)
            heapq.heappush(self.active, (now, self.begun, fault, generator))
        while self.active and self.active[0][0] <= now:
            _, number, fault, generator = heapq.heappop(self.active)
            try:
                seconds = next(generator)
            except StopIteration:
                fault.ended()
            else:
                heapq.heappush(self.active, (now + seconds, number, fault, generator))
        self.scene.launch_missing()
        times = [self.active[0][0]] if self.active else []
        times += [self.waiting[0].at] if self.waiting else []
        return min(times, default=now + LIVE_SECONDS)

    def heal(self):
        """Ends all faults at once."""
        self.waiting.clear()
        while self.active:
            _, _, fault, generator = heapq.heappop(self.active)
            generator.close()
            fault.ended()
        # A fault that ended a member may have started it again while its disk was full.
        cluster = self.scene.cluster
        self.scene.to_launch |= {i for i in cluster.numbers() if not cluster.pid(i) and cluster.is_to_start_again(i)}
        self.scene.launch_missing()

    def downs(self):
        """Returns the members that may be down because of a current fault."""
        return set(self.scene.to_launch) | {i for _, _, fault, _ in self.active
                                            for i in self.scene.cluster.numbers()
                                            if nemeses.LANE_OF[fault.nemesis] == "process"}


class Live:
    """Shows a line that changes; without a terminal, prints a line from time to time."""

    def __init__(self, seconds):
        self.seconds, self.last = seconds, 0
        self.is_terminal = sys.stdout.isatty()

    def show(self, now, scene, executor, is_quiet):
        if is_quiet or now - self.last < (LIVE_SECONDS if self.is_terminal else 10):
            return
        self.last = now
        line = report.live_line(now, self.seconds, scene.totals(),
                                [fault.nemesis for _, _, fault, _ in executor.active])
        print(f"\r\x1b[K{line}" if self.is_terminal else line, end="" if self.is_terminal else "\n", flush=True)

    def end(self):
        if self.is_terminal:
            print("\r\x1b[K", end="", flush=True)


class Outcome:
    """The outcome of a run: `problems` (texts; empty if the run passed), verdicts of the history checker, checks of the
    recipes (in the same form), figures. `shortcomings`: the problems that need not be mistakes of a server."""

    def __init__(self):
        self.problems, self.verdict, self.totals, self.served_after = [], None, {}, None
        self.faults, self.notes, self.shortcomings, self.recipes = 0, [], [], []
        self.steady_seconds = self.share = self.share_steady = None  # from progress.Progress
        self.died = set()  # pids of members whose death is among the problems

    def save(self, directory):
        with open(os.path.join(directory, "outcome.json"), "w", encoding="utf-8") as file:
            json.dump(dict(vars(self), died=sorted(self.died)), file, indent=1)


class LeaderWatch(threading.Thread):
    """Logs the leader whenever it changes."""

    def __init__(self, scene):
        super().__init__(daemon=True)
        self.scene, self.stopping = scene, threading.Event()
        self.start()

    def run(self):
        last = None
        while not self.stopping.wait(LEADER_SECONDS):
            leader = self.scene.cluster.leader_now()
            if leader != last:
                self.scene.log.write("leader", member=leader)
                last = leader

    def end(self):
        self.stopping.set()
        self.join()


class StallWatch(threading.Thread):
    """Logs the times when the machine or its disk stalled: clients make no progress then, whatever the servers
    do. Uses neither a server nor anything that a nemesis affects, so it does not notice a server that stalls by
    itself."""

    def __init__(self, log, directory):
        super().__init__(daemon=True)
        self.log, self.stopping = log, threading.Event()
        path = os.path.join(directory, "stall-watch")
        self.file = open(path, "wb", buffering=0)  # pylint: disable=consider-using-with
        self.seen_ns = time.monotonic_ns()  # stalls until this time are logged
        self.start()

    def run(self):
        while not self.stopping.is_set():
            self.stopping.wait(STALL_SECONDS)
            with contextlib.suppress(OSError):  # a disk that returns an error does not stall
                os.pwrite(self.file.fileno(), b"x", 0)
                os.fsync(self.file.fileno())
            now = time.monotonic_ns()
            if now - self.seen_ns > (STALL_SECONDS + STALL_LATE_SECONDS) * 1e9:
                self.log.write("stall", since=self.seen_ns)
            self.seen_ns = now

    def end(self):
        self.stopping.set()
        self.join()
        self.file.close()


def run(options, quiet=False):
    """Does a run and checks it. Leaves all files in options.output. Returns the Outcome."""
    os.makedirs(options.output, exist_ok=True)
    outcome, log = Outcome(), Log(os.path.join(options.output, "nemesis.jsonl"))
    planned = plan.make(options.seed, options.seconds, options.nemeses, options.session_timeout_ms / 1000)
    log.write("run", seed=options.seed, seconds=options.seconds, size=options.size, server=options.server,
              workloads=options.workloads + options.recipes, nemeses=list(options.nemeses), frontends=options.frontends,
              clients=options.clients, session_timeout_ms=options.session_timeout_ms,
              left_out=options.left_out, environment=options.environment)
    scene = Scene(options, options.directory, log)
    try:
        try:
            _go(scene, options, planned, outcome, quiet)
        except (AssertionError, RuntimeError) as error:
            outcome.problems.append(str(error))
        except Exception:  # a mistake of the tools: the run until then is checked and shown nevertheless
            outcome.problems.append(traceback.format_exc())
        check_ends(scene, outcome)
        outcome.totals, _ = scene.totals()
        scene.recipes.save(options.output)
        for worker in scene.running_workers():
            worker.kill()
        if options.workloads:
            periods = steady.periods(log.lines)
            check_progress(scene, options, periods, outcome)
            check_history(scene, options, periods, outcome)
        outcome.notes += stall_notes(log.lines)
        log.write("checked", problems=outcome.problems)
        outcome.save(options.output)
        keep(scene, options, outcome)
    finally:
        scene.close()
    return outcome


def _go(scene, options, planned, outcome, quiet):
    scene.workers.start()
    scene.recipes.start()
    begin = time.monotonic()
    scene.log.write("begin")
    executor, live, watch = Executor(scene, planned), Live(options.seconds), LeaderWatch(scene)
    stalls = StallWatch(scene.log, options.directory)
    try:
        try:
            while (now := time.monotonic() - begin) < options.seconds:
                due = executor.step(now)
                live.show(now, scene, executor, quiet)
                check_members(scene, executor, outcome)
                scene.workers.check_alive()
                # Short steps, so that short events are noticed.
                time.sleep(max(0.0, min(due - (time.monotonic() - begin), 0.25)))
        finally:
            outcome.faults = executor.begun
            executor.heal()
            scene.log.write("all healed")
            live.end()
        _end(scene, options, executor, outcome, stalls)
    finally:
        watch.end()
        stalls.end()
    scene.log.write("finished")


def _end(scene, options, executor, outcome, stalls):
    """After all faults are healed: waits until all members serve, the workers finish, and the members agree."""
    scene.admit_all()
    outcome.served_after = scene.cluster.wait_until_all_serve(SERVE_SECONDS)
    scene.log.write("serves", seconds=round(outcome.served_after, 2))
    if {"ephemeral", "watch"} & set(options.workloads):
        rest(scene, options, outcome, stalls)
    scene.log.write("last reads")
    outcome.problems += scene.workers.finish()
    check_members(scene, executor, outcome)
    problems, outcome.recipes = scene.recipes.finish()
    outcome.problems += problems
    check_same(scene)
    check_members(scene, executor, outcome)


def rest(scene, options, outcome, stalls):
    """Waits for the time within which all abandoned sessions and their znodes have to end. Begins again after each
    stall of the machine."""
    needed = steady.rest_seconds(options.session_timeout_ms / 1000)
    begin = stalls.seen_ns
    while True:
        now = stalls.seen_ns  # read before the lines, which then have all stalls until this time
        since = steady.since(scene.log.lines)
        rested = (now - since) / 1e9 if since is not None else 0
        if rested >= needed:
            return
        lost = sum((b - a) / 1e9 + needed for a, b in steady.stalls(scene.log.lines) if b > begin)
        if (now - begin) / 1e9 > needed + REST_PATIENCE_SECONDS + lost:
            outcome.notes.append("the leader changed, or the machine stalled, at the end: there was no steady period of "
                                 f"{needed:.1f} s")
            return
        time.sleep(min(needed - rested, 0.2))


def check_ends(scene, outcome):
    """Checks that no server ended in another way than it was told to, not even during a fault that would explain why
    the server was down."""
    for member, pid, how in scene.cluster.strange_ends():
        if pid not in outcome.died:
            outcome.problems.append(f"member {member}, process {pid}, ended with {how}, while a fault explained "
                                    f"that it was not there; see server-{member}.log")


def check_members(scene, executor, outcome):
    """Checks that members end only because of a fault."""
    missing = set(scene.cluster.numbers()) - set(scene.cluster.running()) - executor.downs()
    for member in missing:
        if scene.to_admit.get(member) in (nemeses.REMOVED, nemeses.REPLACED):
            continue  # it may have ended because it was removed; how it ended is checked at the end
        how = scene.cluster.wait_for_end(member, END_SECONDS)
        if not how:
            continue
        if scene.cluster.is_to_start_again(member):
            scene.to_launch.add(member)
            continue
        outcome.died.add(scene.cluster.last_pid(member))
        outcome.problems.append(f"member {member} died by itself ({how}):\n" +
                                harness.end_of(scene.cluster.log(member), 6))
        scene.log.write("died", members=[member], text=how)
        shutil.copyfile(os.path.join(scene.cluster.member_dir(member), "server.log"),
                        os.path.join(scene.options.output, f"died-{member}-{time.monotonic_ns()}.log"))
        if sum(line["e"] == "died" for line in scene.log.lines) >= DEATHS_MAX:
            raise AssertionError(f"members died by themselves {DEATHS_MAX} times: the run ends")
        scene.launch([member])


def check_same(scene):
    """Waits until all members have the same tree and have compared it up to its last zxid, and wiped members count
    again. Checks that no member has ever seen trees that differ."""
    if scene.options.server != "quorate":
        return
    deadline = time.monotonic() + SAME_SECONDS
    while True:
        monitored = {i: scene.cluster.monitor(i) for i in scene.cluster.numbers()}
        zxids = {i: zxid for i, (_, zxid) in scene.cluster.states().items()}
        wrong = not_same(zxids, monitored)
        if scene.not_counting():
            wrong = wrong or f"members {scene.not_counting()} lost their data and do not count as members again"
        if not wrong:
            break
        assert time.monotonic() < deadline, f"{SAME_SECONDS} s after the workers have ended {wrong}"
        time.sleep(0.2)
    for member, facts in monitored.items():
        assert facts.get("digest_mismatches_count") == "0", f"member {member} has seen trees that differ: {facts}"


def not_same(zxids, monitored):
    """Returns in what the members' trees differ, or that they were not compared up to the last zxid; "" if all is well.
    `zxids` and `monitored` (the answers to mntr) are by member."""
    if len(set(zxids.values())) != 1 or not min(zxids.values()):
        return f"zxids are {zxids}"
    if len(zxids) > 1:  # a single member has no other tree to compare with
        compared = {i: int(facts.get("quorate_digest_compared_zxid", -1)) for i, facts in monitored.items()}
        late = {i: zxid for i, zxid in compared.items() if zxid < zxids[i]}
        if late:
            return f"trees were compared at zxids {late} only, and are at {min(zxids.values())}"
    undecided = [i for i, facts in monitored.items() if facts.get("quorate_digest_undecided") != "0"]
    return f"trees differ, and no majority has the same, says member {undecided[0]}" if undecided else ""


def check_progress(scene, options, periods, outcome):
    """Computes the figures of the clients' progress, and adds problems if clients made none."""
    times = {line["e"]: line["t"] for line in scene.log.lines}
    if "begin" not in times:
        return
    end = next((times[what] for what in ("last reads", "all healed") if what in times), time.monotonic_ns())
    found = progress.Progress(scene.workers.sources(times["begin"], end), periods, options.rate)
    outcome.steady_seconds, outcome.share = round(found.steady_seconds, 1), found.share()
    outcome.share_steady = found.share("steady")
    if options.rate * options.clients * len(options.frontends) <= progress.RATE_MAX:
        is_long = options.seconds >= progress.ALL_MIN_SECONDS
        found.check_shares(is_long and len(options.nemeses) + len(options.left_out) in (0, len(nemeses.NAMES)))
    # For other servers than Quorate, a lack of progress is not a problem of the run.
    if options.server == "quorate":
        outcome.problems += found.problems
        outcome.shortcomings += found.problems


def stall_notes(lines):
    seconds = [(line["t"] - line["since"]) / 1e9 for line in lines if line["e"] == "stall"]
    return [f"the machine stalled {len(seconds)} times, for {max(seconds):.1f} s at most"] if seconds else []


def unexplained_gaps(scene, checks):
    """Returns the problem that clients missed events after a reconnect although each member had them all."""
    gaps = sum(check.get("reconnects after which events were missing", 0) for check in checks)
    if gaps == 0:
        return []
    logs = [scene.cluster.log(member) for member in scene.cluster.everyone]
    if any("the history of events begins after" in log for log in logs):
        return []
    return [f"watch: after {gaps} reconnects, events of persistent watches were missing, and no member says why"]


def check_history(scene, options, periods, outcome):
    """Runs the history checker over the histories."""
    command = [HISTORY_CHECKER, "--json", "--workload", ",".join(options.workloads)]
    for begin, end in periods:
        command += ["--steady", f"{begin}-{end}"]
    try:
        result = subprocess.run([*command, "--", *scene.workers.histories()], capture_output=True, text=True,
                                timeout=HISTORY_CHECK_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        outcome.problems.append(f"the history checker has no verdict after {HISTORY_CHECK_SECONDS} s")
        return
    with contextlib.suppress(ValueError):
        outcome.verdict = json.loads(result.stdout)
    checks = (outcome.verdict or {}).get("checks", [])
    if options.server == "quorate":
        outcome.problems += unexplained_gaps(scene, checks)
    # An invariant that could not be checked counts as a problem.
    undecided = {check["name"]: f"{check['name']}: {len(check['undecided'])} not decided: {check['undecided'][0]}"
                 for check in checks if check["undecided"]}
    if "ephemeral" in undecided and steady.last_reads_met_a_stall(scene.log.lines):
        outcome.notes.append(undecided.pop("ephemeral"))
    if options.server == "quorate":
        outcome.problems += undecided.values()
        outcome.shortcomings += undecided.values()
    else:  # some invariants need linearizable reads, of which ZooKeeper has none (--weak-sync)
        outcome.notes += undecided.values()
    if result.returncode == 0:
        return
    wrong = [f"{check['name']}: {violation['invariant']}: {violation['details']}"
             for check in checks for violation in check["violations"][:1]]
    outcome.problems += wrong or [f"the history checker ends with status {result.returncode}"]
    outcome.problems[-1] += f"\n{result.stderr[:ERROR_CHARACTERS]}"


def keep(scene, options, outcome):
    """Keeps the members' logs and, if the run failed, all files that help to find out why."""
    for member in scene.cluster.everyone:
        log = os.path.join(scene.cluster.member_dir(member), "server.log")
        if os.path.exists(log):
            shutil.copyfile(log, os.path.join(options.output, f"server-{member}.log"))
    if outcome.problems:
        for path in scene.recipes.paths():
            with contextlib.suppress(OSError):
                shutil.copy(path, options.output)
        for member in scene.cluster.everyone:
            with contextlib.suppress(OSError, shutil.Error):
                shutil.copytree(scene.cluster.member_dir(member), os.path.join(options.output, f"data-{member}"),
                                ignore=shutil.ignore_patterns("server.log*"), dirs_exist_ok=True)
