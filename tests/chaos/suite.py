# SPDX-License-Identifier: Apache-2.0
"""The suite: tests that the network, disks and clocks have the faults that nemeses request, that no process or
file is left behind, and short runs with all nemeses. Takes three minutes."""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from unittest import mock

import steady
import harness
import members
import nemeses
import nemesis_steps
import network_steps
import page
import page_steps
import progress
import recipe_steps
import recipes
import runner

HERE = os.path.dirname(os.path.realpath(__file__))
RUN_SECONDS = 18
# Shorter than the default session timeout, because the end of a run waits for the end of sessions.
SESSION_TIMEOUT_MS = 1500
PATIENCE_SECONDS = 30
# The name of each run, and the options in which it differs from other runs.
RUNS = (
    ("processes are killed, stopped, restarted and wiped", {"nemeses": nemeses.LANES["process"]}),
    ("five members and a network that does what networks do",
     {"nemeses": nemeses.LANES["network"] + ("kill-leader",), "size": 5}),
    ("members are removed, replaced and demoted while others are killed and cut off",
     {"nemeses": nemeses.LANES["membership"] + ("kill", "isolate-leader"), "size": 5}),
    ("disks are slow, stalled and full, clocks jump, workers die",
     {"nemeses": nemeses.LANES["disk"] + nemeses.LANES["clock"] + nemeses.LANES["workers"]}),
    ("a network of proxies only", {"nemeses": nemeses.LANES["network"] + ("kill",), "why_no_network": "as asked"}),
    ("locks, queues and transactions under all nemeses",
     {"nemeses": nemeses.NAMES, "workloads": [], "recipes": list(recipes.NAMES)}),
)


def run(options):
    tests = harness.Runner(options.filter)
    os.makedirs(options.output, exist_ok=True)
    if not options.why_no_network:
        for test in network_steps.TESTS:
            tests.run(f"chaos network: {_words(test)}", test)
        tests.run("chaos: nothing outlives a run that is killed", nothing_outlives_a_run, options)
        tests.run("chaos: a failed run keeps all its files", all_is_kept_of_a_failure, options)
        tests.run("chaos availability: pauses are measured", pauses_are_measured, options)
    tests.run("chaos disk: a disk stalls and goes on", disk_stalls, options)
    tests.run("chaos clock: a wall clock jumps, the monotonic clock does not", clock_jumps, options)
    for test in recipe_steps.TESTS:
        tests.run(f"chaos recipes: {_words(test)}", test)
    tests.run("chaos progress: a client without progress is reported", standing_still_is_noticed, options)
    tests.run("chaos steady periods: stalls of the machine are logged", stalls_are_written_down, options)
    tests.run("chaos steady periods: a stall of the machine ends a steady period", stalls_are_not_steady)
    tests.run("chaos steady periods: a check left undecided by a stall is a note", what_a_stall_left_undecided_is_a_note)
    tests.run("chaos watches: missing events are a problem if no member says why", missing_events_need_a_reason)
    tests.run("chaos steady periods: the rest starts again after a stall", rest_begins_again)
    tests.run("chaos page: the page shows operations, faults and verdicts", page_steps.the_page_shows_what_happened, options)
    tests.run("chaos terminal: the lines show the state and outcome", page_steps.the_terminal_says_what_happened)
    nemesis_steps.run(tests, options)
    if options.is_sandboxed:
        tests.run("chaos members: an unexpected end of a member is reported", strange_ends_are_noticed, options)
    for number, (name, differs) in enumerate(RUNS, 1):
        tests.run(f"chaos: {name}", one, options, number, differs)
    return tests.finish()


def _words(function):
    return function.__name__.replace("_", " ")


def one(options, number, differs):
    """Does a short run."""
    changed = argparse.Namespace(**vars(options))
    changed.seconds, changed.seed = RUN_SECONDS, options.seed + number
    changed.session_timeout_ms = SESSION_TIMEOUT_MS
    changed.output = os.path.join(options.output, str(number))
    changed.recipes = []
    for key, value in differs.items():
        setattr(changed, key, value)
    changed.nemeses = list(changed.nemeses)
    changed.left_out = options.leave_out(changed)
    frontends = ("zookeeper", "native") if changed.server == "quorate" else ("zookeeper",)
    changed.frontends = [frontends[i % len(frontends)] for i in range(changed.workers)]
    if changed.recipes and changed.server != "quorate":
        raise harness.Skipped("ZooKeeper has no native front end")
    outcome = runner.run(changed, quiet=True)
    path = page.write(changed.output)
    assert not outcome.problems, "\n".join([*outcome.problems, f"seed {changed.seed}, page: {path}"])
    notes = [f"{n} {key}" for key, n in outcome.totals.items() if n]
    notes += [f"{check['name']}: {check['saw']}" for check in outcome.recipes] + outcome.notes
    return f"seed {changed.seed}, {outcome.faults} faults, " + ", ".join(notes)


def _processes_of(*texts):
    """Returns the processes with all of the texts in their command lines."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                command = file.read()
                if all(text.encode() in command for text in texts):
                    found.append(int(pid))
        except OSError:
            continue
    return found


def nothing_outlives_a_run(options):
    directory = os.path.join(options.directory, "killed")
    os.makedirs(directory)
    output = os.path.join(options.output, "killed")
    process = subprocess.Popen([os.path.join(HERE, "run"), "--minutes", "2", "--nemesis", "none", "--workload",
                                "register", "--seed", "1", "--output", output, "--server", options.server],
                               env=dict(os.environ, TMPDIR=directory), stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    try:
        _await("clients at work", lambda: os.path.exists(os.path.join(output, "history-1.jsonl")))
        assert len(_processes_of(directory)) >= 3, "not all servers run"
        process.kill()
        process.wait()
        _await("all processes ended", lambda: not _processes_of(directory))
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            assert directory not in file.read(), "a file system is still mounted"
    finally:
        process.kill()
        process.communicate()


def all_is_kept_of_a_failure(options):
    """A member is killed, but not by a nemesis."""
    directory, output = (os.path.join(parent, "failing") for parent in (options.directory, options.output))
    os.makedirs(directory)
    arguments = ["--minutes", "0.05", "--nemesis", "none", "--workload", "register", "--seed", "1", "--output", output,
                 "--server", options.server]
    with subprocess.Popen([os.path.join(HERE, "run"), *arguments], env=dict(os.environ, TMPDIR=directory), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            _await("clients at work", lambda: "ok" in _text_of(output, "history-1.jsonl"))
            (pid,) = _processes_of(os.path.join("cluster", "1", "zoo.cfg"), directory)
            os.kill(pid, signal.SIGKILL)
            said, _ = process.communicate(timeout=4 * PATIENCE_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 1, f"exit status {process.returncode}: {said}"
    assert "PROBLEM: member 1 died by itself (signal 9)" in said, said
    outcome = json.loads(_text_of(output, "outcome.json"))
    assert outcome["problems"][0].startswith("member 1 died by itself (signal 9)"), outcome["problems"]
    assert "member 1 died by itself (signal 9)" in _text_of(output, "index.html"), "the page does not show it"
    lines = [json.loads(line) for line in _text_of(output, "nemesis.jsonl").splitlines()]
    assert [line["members"] for line in lines if line["e"] == "died"] == [[1]], lines
    kept = set(os.listdir(output))
    died = [name for name in kept if name.startswith("died-1-")]
    wanted = {f"server-{i}.log" for i in (1, 2, 3)} | {f"data-{i}" for i in (1, 2, 3)} | {"history-1.jsonl"}
    assert wanted <= kept and died, f"kept are {sorted(kept)}"
    for name in (*(f"server-{i}.log" for i in (1, 2, 3)), *died):
        assert _text_of(output, name), f"{name} is empty"
    for i in (1, 2, 3):
        assert "myid" in os.listdir(os.path.join(output, f"data-{i}")), f"there is no data of member {i}"


def _text_of(directory, name):
    """Returns the text of the file; "" if the file does not exist yet."""
    try:
        with open(os.path.join(directory, name), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def pauses_are_measured(options):
    """tests/chaos/availability kills two leaders. The length of the pauses is not checked, because the machine may be busy."""
    path = os.path.join(options.output, "availability.json")
    result = subprocess.run([os.path.join(HERE, "availability"), "--server", options.server, "--times", "2", "--what",
                             "kill", "--json", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            timeout=4 * PATIENCE_SECONDS, check=False)
    assert result.returncode == 0, result.stdout
    figures = json.loads(_text_of(options.output, "availability.json"))[options.server]["kill"]
    assert {who: each["count"] for who, each in figures.items()} == {"survivors": 4, "leaders_client": 2, "anybody": 2}
    for who, each in figures.items():
        assert 0 < each["p50_ms"] <= each["max_ms"], f"{who}: {each}"
        assert f"{who:15} p50 {each['p50_ms']:6} ms" in result.stdout, result.stdout
    return f"survivors' clients paused for {figures['survivors']['p50_ms']} ms"


def _await(what, condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS} s: {what}"
        time.sleep(0.02)


def disk_stalls(options):
    """A program that syncs a file waits while its disk is stalled; a program on another disk does not."""
    control = members.DiskControl(os.path.join(options.directory, "test.control"))
    environment = dict(os.environ, LD_PRELOAD=members.make_library(options.directory),
                       DISK_DIRECTORY=os.path.join(options.directory, "stalled"), DISK_CONTROL=control.path)
    program = "import os, sys; f = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY); os.write(f, b'x'); os.fsync(f)"

    def write(name):
        os.makedirs(os.path.join(options.directory, name), exist_ok=True)
        return subprocess.Popen([sys.executable, "-c", program, os.path.join(options.directory, name, "file")],
                                env=environment)

    control.set(stalled=True)
    waiting, elsewhere = write("stalled"), write("elsewhere")
    try:
        assert elsewhere.wait(PATIENCE_SECONDS) == 0
        # The stalled process waits inside its write: the process sleeps, and its file exists, empty.
        path = os.path.join(options.directory, "stalled/file")
        _await("a file", lambda: os.path.exists(path))
        assert not harness.wait_for_exit(waiting, 0.3) and os.path.getsize(path) == 0, "the disk answers"
        control.set()
        assert waiting.wait(PATIENCE_SECONDS) == 0 and os.path.getsize(path) == 1
        control.set(sync_ms=400)
        begin = time.monotonic()
        assert write("stalled").wait(PATIENCE_SECONDS) == 0
        assert time.monotonic() - begin > 0.2, "a slow disk is fast"
    finally:
        waiting.send_signal(signal.SIGKILL)
        waiting.wait()


def standing_still_is_noticed(options):
    """One of two clients makes no progress: for a while, or in steady periods, or at all times."""
    second, rate = 10**9, 10

    def problems_of(lines, periods=(), pauses=(), more=()):
        path = os.path.join(options.directory, "test.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(more)
            file.writelines(f'{{"t":{ns},"p":1,"c":{client},"e":"{what}","o":1}}\n' for ns, client, what in lines)
        found = progress.Progress([progress.Source("worker 1", path, (1, 2), 0, 100 * second, pauses)], periods, rate)
        found.check_shares(True)
        return found.problems

    def line(tenth, client, what="ok"):
        return tenth * second // 10, client, what

    periods = [(20 * second, 30 * second)]
    good = [line(i, client) for i in range(1000) for client in (1, 2)]
    assert not problems_of(good, periods), problems_of(good, periods)
    gap = [line(i, 1) for i in range(1000)] + [line(i, 2) for i in range(1000) if not 400 < i < 750]
    assert "client 2 of worker 1 was not answered for 35 s" in problems_of(gap, periods)[0], problems_of(gap, periods)
    assert not problems_of(gap, periods, [(41 * second, 74 * second)])
    # A client that is away on purpose is not reported, unless it does not come back.
    away = ['{"t":%d,"p":1,"c":2,"e":"disconnected","server":"a:1","reason":"the client is away for 10000 ms"}\n'
            % (20 * second - 1)]
    gone = [line(i, 1) for i in range(1000)] + [line(i, 2) for i in range(1000) if not 195 < i < 305]
    assert "client 2 of worker 1 got nothing done" in problems_of(gone, periods)[0], problems_of(gone, periods)
    assert not problems_of(gone, periods, (), away), problems_of(gone, periods, (), away)
    assert problems_of(gone, [(20 * second, 36 * second)], (), away) == []
    later = [line(i, 1) for i in range(1000)] + [line(i, 2) for i in range(1000) if not 195 < i < 365]
    assert "client 2 of worker 1 got nothing done" in problems_of(later, [(20 * second, 36 * second)], (), away)[0]
    silent = [line(i, 1) for i in range(1000)]
    assert "client 2 of worker 1 was not answered for 100 s" in problems_of(silent)[0]
    refused = [line(i, client, "refused" if client == 2 and 190 < i < 310 else "ok")
               for i in range(1000) for client in (1, 2)]
    assert "client 2 of worker 1 got nothing done" in problems_of(refused, periods)[0], problems_of(refused, periods)
    assert not problems_of(refused, [], ())
    slow = [line(i, client) for i in range(0, 1000, 3) for client in (1, 2)]
    assert "33 % of the possible" in problems_of(slow)[0], problems_of(slow)


def stalls_are_written_down(options):
    """Lets the disk stall for a second."""
    log = runner.Log(os.path.join(options.directory, "stalls.jsonl"))
    fsync, begun, release = os.fsync, threading.Event(), threading.Event()

    def stalled(descriptor):
        begun.set()
        release.wait()
        fsync(descriptor)

    watch = runner.StallWatch(log, options.directory)
    try:
        with mock.patch.object(os, "fsync", stalled):
            assert begun.wait(PATIENCE_SECONDS), "nothing is synced"
        begin, seen = time.monotonic_ns(), watch.seen_ns
        time.sleep(1)
        assert watch.seen_ns == seen <= begin, "it says that it has seen the stall"
        end = time.monotonic_ns()
        release.set()
        _await("a look after the stall", lambda: watch.seen_ns > end)
    finally:
        release.set()
        watch.end()
    # The machine may have had other stalls.
    found = [(a, b) for a, b in steady.stalls(log.lines) if a <= begin and end <= b]
    assert len(found) == 1 and found[0][0] == seen, log.lines


def _log_of(*lines):
    """Makes the lines of a log from (second, what, fields)."""
    return [{"t": int(second * 1e9), "e": what, **fields} for second, what, fields in lines]


def stalls_are_not_steady():
    """Uses an invented log. Events during a stall are logged before the stall."""
    def stall(since, end):
        return (end, "stall", {"since": int(since * 1e9)})

    def periods_of(*lines):
        return [(a / 1e9, b / 1e9) for a, b in steady.periods(_log_of((0, "leader", {"member": 1}), *lines,
                                                                      (30, "finished", {})))]

    assert periods_of() == [(1, 29.9)], periods_of()
    assert periods_of(stall(8, 10)) == [(1, 8), (11, 29.9)], periods_of(stall(8, 10))
    assert periods_of(stall(0.5, 2)) == [(3, 29.9)] and periods_of(stall(28, 29)) == [(1, 28)]
    meanwhile = (12.5, "leader", {"member": 2})
    assert periods_of(meanwhile, stall(8, 15)) == [(1, 8), (16, 29.9)], periods_of(meanwhile, stall(8, 15))
    assert periods_of(stall(8, 10), meanwhile) == [(1, 8), (11, 12.4), (13.5, 29.9)]
    # One stall more than are attributed to the machine.
    many = [stall(second, second + 1) for second in range(2, 4 * steady.STALLS_MAX + 3, 4)]
    assert periods_of(*many)[-1] == (4 * steady.STALLS_MAX, 29.9), periods_of(*many)
    lines = _log_of((0, "leader", {"member": 1}), stall(3, 5))
    assert steady.since(lines) == 5e9 and steady.since(lines[1:]) is None
    asked = (20, "last reads", {})
    assert not steady.last_reads_met_a_stall(_log_of(stall(17, 19), asked))
    assert steady.last_reads_met_a_stall(_log_of(asked, stall(19.9, 21)))


def what_a_stall_left_undecided_is_a_note():
    """This holds for checks of sessions, if the stall overlapped the last reads. Other undecided checks are problems."""
    verdict = json.dumps({"checks": [{"name": name, "undecided": ["one"], "violations": []}
                                     for name in ("ephemeral", "register")]})
    options = argparse.Namespace(workloads=["ephemeral", "register"], server="quorate")
    asked, stall = (20, "last reads", {}), (21, "stall", {"since": 20 * 10**9})
    for lines, problems in ((_log_of(asked), 2), (_log_of(asked, stall), 1)):
        scene = argparse.Namespace(log=argparse.Namespace(lines=lines),
                                   workers=argparse.Namespace(histories=lambda: []))
        outcome = runner.Outcome()
        result = argparse.Namespace(stdout=verdict, returncode=0)
        with mock.patch.object(subprocess, "run", return_value=result):
            runner.check_history(scene, options, [], outcome)
        assert len(outcome.problems) == problems and len(outcome.notes) == 2 - problems, vars(outcome)
        assert outcome.problems[-1].startswith("register: 1 not decided"), outcome.problems


def missing_events_need_a_reason():
    def problems(gaps, log):
        cluster = argparse.Namespace(everyone=[1, 2], log=lambda member: log if member == 2 else "")
        checks = [{"name": "register"}, {"name": "watch", "reconnects after which events were missing": gaps}]
        return runner.unexplained_gaps(argparse.Namespace(cluster=cluster), checks)

    reason = "info session 0x1 connects again after zxid 5, and the history of events begins after zxid 9"
    assert problems(0, "") == [] and problems(2, reason) == []
    assert len(problems(2, "info leading in term 3")) == 1


def rest_begins_again():
    """Time advances only when the rest sleeps. `stalls`: at which second the machine stalls, and for how long."""
    def rest(stalls):
        lines = _log_of((0, "leader", {"member": 1}))
        watch, outcome = argparse.Namespace(seen_ns=0), runner.Outcome()

        def sleep(seconds):
            due = stalls.pop(0)[1] if stalls and stalls[0][0] * 1e9 <= watch.seen_ns else 0
            since, watch.seen_ns = watch.seen_ns, watch.seen_ns + max(1, int((seconds + due) * 1e9))
            if due:
                lines.append({"t": watch.seen_ns, "e": "stall", "since": since})
            assert watch.seen_ns < 1000e9, "it rests without end"

        with mock.patch.object(runner.time, "sleep", sleep):
            runner.rest(argparse.Namespace(log=argparse.Namespace(lines=lines)),
                        argparse.Namespace(session_timeout_ms=SESSION_TIMEOUT_MS), outcome, watch)
        return watch.seen_ns / 1e9, (lines[-1]["t"] / 1e9 if len(lines) > 1 else 0), outcome.notes

    needed = steady.rest_seconds(SESSION_TIMEOUT_MS / 1000)
    for stalls in ([], [(2, 3)], [(2, 3), (7, 60)], [(needed - 0.2, 3)]):
        now, last, notes = rest(list(stalls))
        assert abs(now - last - needed) < 0.001 and not notes, f"{stalls}: {now}, {last}, {notes}"
        assert (last > 0) == bool(stalls), f"{stalls}: {last}"
    now, _, _ = rest([(second, 1) for second in range(1000)])
    assert now < 60, f"on a machine that stalls all the time it rests for {now:.0f} s"


def strange_ends_are_noticed(options):
    """A member's first process aborts, its second ends as it is told, its third is killed, and its fourth is told to
    end before it can listen."""
    cluster = members.Members(options.server, 1, options.directory)
    try:
        cluster.start()
        pids = []
        for number in (signal.SIGABRT, signal.SIGTERM, signal.SIGKILL):
            cluster.launch(1)
            cluster.wait_until_all_serve(PATIENCE_SECONDS)
            pids.append(cluster.last_pid(1))
            cluster.signal(1, number)
            _await("its end", lambda: cluster.end_of(1) != members.UNKNOWN)
        with open(os.path.join(cluster.parent, "server.1"), "a", encoding="utf-8") as file:
            file.write("exec sleep 100\n")
        cluster.launch(1)
        time.sleep(1.2)
        cluster.signal(1, signal.SIGTERM)
        _await("its end", lambda: cluster.end_of(1) == "signal 15")
        assert cluster.ended_early == {cluster.last_pid(1)}, f"{pids}: {cluster.ended_early}"
        assert cluster.strange_ends() == [(1, pids[0], "signal 6")], f"{pids}: {cluster.strange_ends()}"
    finally:
        cluster.remove()


def clock_jumps(options):
    """The servers' wall clocks jump, and their monotonic clocks go on."""
    clock_file = os.path.join(options.directory, "test.clock")
    with open(clock_file, "w", encoding="ascii") as file:
        file.write("+86400\n")
    output = subprocess.run(
        [sys.executable, "-c", "import time; print(time.time(), time.monotonic())"], text=True, check=True,
        capture_output=True, env=dict(os.environ, **members.clock_environment(clock_file))).stdout
    wall, monotonic = map(float, output.split())
    assert 86000 < wall - time.time() < 87000, f"the wall clock is off by {wall - time.time():.0f} s"
    assert abs(monotonic - time.monotonic()) < 60, "the monotonic clock jumps too"
