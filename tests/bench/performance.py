"""Tests of tools/performance/run: it measures rows beside ZooKeeper, keeps them, and its document says
what is in them, the bad as well as the good."""

import argparse
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import tempfile

import harness

RUN = os.path.join(harness.ROOT, "tools/performance/run")
ENVIRONMENT = {"machine": "one of a test", "quorate": "abc"}


def performance(directory, *arguments, status=0):
    """Runs the tool with all that it writes in `directory`; what it says."""
    result = subprocess.run(
        [RUN, "--results", directory, "--document", os.path.join(directory, "document.md"), *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == status, (
        f"{arguments} ended with {result.returncode}, not {status}:\n{result.stdout}{result.stderr}")
    return result.stderr


def read(directory, name):
    with open(os.path.join(directory, name), encoding="utf-8") as file:
        return file.read()


def keep(directory, name, **result):
    """Stands for a row that was measured."""
    kept = {"row": name, "begun": "2020-01-02 03:04 UTC", "load_average": 0.5, "quick": False,
            "environment": ENVIRONMENT, **result}
    with open(os.path.join(directory, f"{name}.json"), "w", encoding="utf-8") as file:
        json.dump(kept, file)


def spread(median, around=0.1):
    return {"median": median, "quartile1": median * (1 - around), "quartile3": median * (1 + around),
            "pairs": 4}


def bench_run(rate=1.0, p50=1.0, p99=1.0, cpu=1.0, workload="write", around=0.1, size=None, **more):
    """What `quorate bench` would have said: these ratios."""
    measurements = [{"server_cpu_us": value, "operations": 1000, "seconds": 5.0,
                     "operations_per_second": 200.0, **more} for value in (10.0 * cpu, 10.0)]
    ratios = {"operations_per_second": spread(rate, around), "p50": spread(p50, around),
              "p99": spread(p99, around), "p99.9": spread(p99, around),
              "server_cpu": spread(cpu, around)}
    run = {"command": f"quorate bench {workload}", "document": {
        "workloads": [{"name": workload, "ratios": ratios, "measurements": measurements}]}}
    return run if size is None else {**run, "size": size, "base": 10}


def load_program():
    """The tool as a module."""
    loader = importlib.machinery.SourceFileLoader("performance_run", RUN)
    program = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(program)
    return program


def line_with(text, beginning):
    [line] = [line for line in text.splitlines() if line.startswith(beginning)]
    return line


def alone_performance_document_hides_nothing(_):
    with tempfile.TemporaryDirectory() as directory:
        keep(directory, "write-30x32", runs=[bench_run(rate=6, cpu=0.1, p50=0.2, p99=0.3)])
        keep(directory, "read-30x32", runs=[bench_run(rate=3, cpu=0.1, p99=1.5)])
        # The quartiles are on both sides of 1: no difference to speak of.
        keep(directory, "read-1x1", runs=[bench_run(p99=1.05)])
        keep(directory, "failover-kill", runs=[
            bench_run(workload="failover", pauses_ms=[290, 310, 330], connections_dropped=30)])
        keep(directory, "lock", error="the servers are gone\nand more")
        for system, cpu in (("quorate", 3), ("zookeeper", 1.2)):
            keep(directory, f"growth-sessions-{system}", kind="sessions", system=system,
                 runs=[bench_run(cpu=cpu, size=1000)])
        performance(directory, "--render")
        text, page = read(directory, "document.md"), read(directory, "page.html")

        assert line_with(text, "| write, 30 x 32 |").endswith("| rate ≥ 5, server CPU ≤ 0.18 | met |")
        line = line_with(text, "| read, 30 x 32 |")
        assert line.endswith("| **missed: rate 3.00, not 4**; **behind: p99, p99.9** |"), line
        assert "**1.50 [1.35 – 1.65]**" in line, line
        assert line_with(text, "| read, 1 x 1 |").endswith("|  |  |")
        line = line_with(text, "| the leader is killed (SIGKILL) |")
        assert "**missed: pause 310 ms, more than 300 ms**" in line, line
        assert "3 of 5 figures of the budget are met. Missed:" in text
        assert "- read, 30 x 32: p99, p99.9" in text
        assert "- lock, 20 contenders: hand-overs: the servers are gone" in text
        line = line_with(text, "| write | 1,000 sessions | Quorate |")
        assert line.endswith("**grows by more: server CPU**; **behind: server CPU** |"), line
        assert "--quick" not in text.partition("## Quorate")[0] and "different environments" not in text
        assert page.count("<svg") == 2 and "<b>missed: rate 3.00, not 4</b>" in page

        keep(directory, "read-1x1", quick=True, environment={"machine": "another"},
             runs=[bench_run()])
        performance(directory, "--render")
        text = read(directory, "document.md")
        assert "measured in different environments" in text and "measured with --quick" in text


def alone_performance_document_says_what_checkpoints_cost(_):
    run = bench_run(workload="open-loop", longest_pause_ms=7.0)
    for i, measurement in enumerate(run["document"]["workloads"][0]["measurements"]):
        measurement["latencies"] = {"setData": {
            "p50_us": 1000, "p99_us": 3000 - 1000 * i, "p99.9_us": 5000, "max_us": 9000}}
    with tempfile.TemporaryDirectory() as directory:
        keep(directory, "checkpoints", runs=[run], rate=2000, snap_count=8000, nodes=1_000_000, seconds=60,
             snapshots=[15, 0])
        performance(directory, "--render")
        text = read(directory, "document.md")
        assert "a tree of 1,000,000 nodes" in text and "every 8,000 writes" in text, text
        assert line_with(text, "| p99 of setData |") == "| p99 of setData | 1.50 | 3.00 ms | 2.00 ms |", text
        assert line_with(text, "| checkpoints of the three members |").endswith("| 15 | 0 |"), text


def alone_performance_bad_arguments_and_files(_):
    with tempfile.TemporaryDirectory() as directory:
        assert "no row dance" in performance(directory, "--only", "dance", status=1)
        assert "nothing was measured" in performance(directory, "--render", status=1)
        with open(os.path.join(directory, "lock.json"), "w", encoding="utf-8") as file:
            file.write("{")
        said = performance(directory, "--render", status=1)
        assert "lock.json is damaged" in said and "remove it" in said, said


def alone_performance_goes_on_where_it_was(_):
    program = load_program()

    def planned(known, only=None, again=False):
        arguments = argparse.Namespace(only=only, again=again)
        return [row.name for row in program.plan(arguments, known)]

    everything = [row.name for row in program.rows.ROWS]
    assert planned({}) == everything
    measured = {name: {} for name in everything if name != "lock"}
    assert planned(measured) == ["lock"]
    assert planned({**measured, "tail": {"error": "no room"}}) == ["lock", "tail"]
    assert planned(measured, again=True) == everything
    assert planned(measured, only="connect,idle") == ["connect", "idle"]
    # What gives the rate of another row is measured before it, if it was not yet.
    assert planned({}, only="open-loop") == ["write-30x32", "open-loop"]
    assert planned(measured, only="open-loop") == ["open-loop"]


def alone_performance_measures(server):
    """Two rows for real, for a second each, and their document."""
    if server != "quorate":
        raise harness.Skipped("measures both")
    with tempfile.TemporaryDirectory() as directory:
        keep(directory, "lock", runs=[bench_run(rate=123, workload="lock")])
        performance(directory, "--quick", "--only", "write-30x1,connect,where-write-30x1")
        text = read(directory, "document.md")
        for title in ("write, 30 x 1", "connect and close, 10 at a time", "lock, 20 contenders"):
            line_with(text.partition("## Where")[0], f"| {title}")
        for name in ("write-30x1", "connect"):
            kept = json.loads(read(directory, f"{name}.json"))
            assert kept["quick"] and kept["environment"]["zookeeper"] and kept["begun"], kept
            [run] = kept["runs"]
            [workload] = run["document"]["workloads"]
            assert workload["ratios"]["server_cpu"]["pairs"] >= 2, workload["ratios"]
            for measurement in workload["measurements"]:
                assert not measurement["errors"] and measurement["operations"] > 0
            assert f"- `{run['command']}`" in text and "--compare ZOOKEEPER" in run["command"]
        where = json.loads(read(directory, "where-write-30x1.json"))
        assert {"node", "log", "zk-io"} <= set(where["threads"]), where["threads"]
        assert all(figures["us"] >= 0 for figures in where["threads"].values()), where["threads"]
        assert "node " in line_with(text.partition("## Where")[2], "| write, 30 x 1")
        # What was measured before stands there still; of the servers, nothing does.
        assert "123 [" in line_with(text, "| lock, 20 contenders")
        assert os.listdir(os.path.join(directory, "data")) == []


def shared_metrics_for_the_performance_document(cluster):
    measuring = load_program().measuring
    assert measuring.metric(cluster.address(1), "znode_count") > 0
    assert measuring.metric(cluster.address(1), "something_else") is None


TESTS = (alone_performance_document_hides_nothing, alone_performance_bad_arguments_and_files,
         alone_performance_goes_on_where_it_was, alone_performance_measures)
