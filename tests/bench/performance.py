# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/performance/run: it measures rows in comparison with ZooKeeper, keeps them, and its document
shows their results, the bad as well as the good."""

import argparse
import collections
import contextlib
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import tempfile
from unittest import mock

import harness

RUN = os.path.join(harness.ROOT, "tools/performance/run")
ENVIRONMENT = {"machine": "one of a test", "quorate": "abc"}


def performance(directory, *arguments, status=0):
    """Runs the tool, which writes all files into `directory`. Returns its output."""
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
    """Writes the result of a row as if it had been measured."""
    kept = {"row": name, "begun": "2020-01-02 03:04 UTC", "load_average": 0.5, "quick": False,
            "environment": ENVIRONMENT, **result}
    with open(os.path.join(directory, f"{name}.json"), "w", encoding="utf-8") as file:
        json.dump(kept, file)


def spread(median, around=0.1):
    return {"median": median, "quartile1": median * (1 - around), "quartile3": median * (1 + around),
            "pairs": 4}


def bench_run(rate=1.0, p50=1.0, p99=1.0, cpu=1.0, workload="write", around=0.1, size=None, **more):
    """Returns a result of `quorate bench` with these ratios."""
    measurements = [{"server_cpu_us": value, "operations": 1000, "seconds": 5.0,
                     "operations_per_second": 200.0, **more} for value in (10.0 * cpu, 10.0)]
    ratios = {"operations_per_second": spread(rate, around), "p50": spread(p50, around),
              "p99": spread(p99, around), "p99.9": spread(p99, around),
              "server_cpu": spread(cpu, around)}
    run = {"command": f"quorate bench {workload}", "document": {
        "workloads": [{"name": workload, "ratios": ratios, "measurements": measurements}]}}
    return run if size is None else {**run, "size": size, "base": 10}


def load_program():
    """Loads the tool as a module."""
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
        # The quartiles are on both sides of 1, so the difference is not significant.
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


def alone_performance_document_says_what_tls_costs(_):
    with tempfile.TemporaryDirectory() as directory:
        keep(directory, "tls-write-30x32", runs=[bench_run(cpu=1.5), bench_run(rate=6, cpu=0.2)])
        keep(directory, "tls-read-30x32", runs=[bench_run(cpu=2.5), bench_run(rate=9, cpu=0.1)])
        performance(directory, "--render")
        text = read(directory, "document.md")
        write, read_line = line_with(text, "| write, 30 x 32 |"), line_with(text, "| read, 30 x 32 |")
        assert "| 1.50 [1.35 – 1.65] | 15.0 | 10.0 | server CPU ≤ 1.6 | met | 6.00 [5.40 – 6.60] |" in write, write
        assert "**missed: server CPU 2.50, more than 2**" in read_line, read_line


def alone_performance_document_says_how_long_a_fail_over_with_tls_takes(_):
    def run(ours, theirs):
        return {"command": "quorate bench failover", "document": {"workloads": [{
            "name": "failover", "measurements": [{"pauses_ms": pauses} for pauses in (ours, theirs)]}]}}

    with tempfile.TemporaryDirectory() as directory:
        keep(directory, "tls-failover-kill", runs=[run([40, 50, 70], [41, 42, 43]), run([60, 61, 62], [3000, 3100, 3200])])
        performance(directory, "--render")
        text = read(directory, "document.md")
        assert line_with(text, "| the leader is killed (SIGKILL) |") == (
            "| the leader is killed (SIGKILL) | 50.0 (40.0, 50.0, 70.0) | 42.0 (41.0, 42.0, 43.0) | pause ≤ 300 ms | met | "
            "61.0 (60.0, 61.0, 62.0) | 3,100 (3,000, 3,100, 3,200) |"), text


def alone_performance_kills_leaders_with_tls(_):
    with tempfile.TemporaryDirectory() as directory:
        performance(directory, "--quick", "--only", "tls-failover-kill")
        cells = line_with(read(directory, "document.md"), "| the leader is killed (SIGKILL) |").split(" | ")
        assert all(float(cell.split()[0].replace(",", "")) > 0 for cell in (*cells[1:3], *cells[5:7])), cells


def alone_performance_document_compares_with_etcd(_):
    def run(rate, cpu):
        return {"command": "grpc_load", "operations_per_second": rate, "p50_us": 100, "p99_us": 300, "p99.9_us": 500,
                "server_cpu_us": cpu}

    with tempfile.TemporaryDirectory() as directory:
        keep(directory, "etcd-put-30x1", runs=[run(4000, 10.0), run(6000, 12.0), run(5000, 11.0)],
             others=[run(2000, 40.0), run(2000, 40.0), run(2000, 40.0)])
        keep(directory, "etcd-lock", runs=[run(50, 60.0)] * 2, others=[run(100, 40.0)] * 2)
        performance(directory, "--render")
        text = read(directory, "document.md")
        line = line_with(text, "| put, 30 x 1 |")
        assert line.startswith("| put, 30 x 1 | 2.50 [2.25 – 2.75] | 1.00 "), line
        assert line.endswith("| 5,000 | 2,000 | 100 | 100 | 11.0 | 40.0 | rate ≥ 1, server CPU ≤ 1 | met |"), line
        line = line_with(text, "| lock, 20 contenders: hand-overs |")
        assert line.endswith("| **missed: rate 0.500, not 1; server CPU 1.50, more than 1** |"), line


def alone_performance_calls_are_the_same_at_etcd(_):
    with tempfile.TemporaryDirectory() as directory:
        performance(directory, "--quick", "--only", "etcd-put-30x32,etcd-linearizable-get-30x1,etcd-watch,etcd-lock")
        text = read(directory, "document.md")
        for title in ("put, 30 x 32", "linearizable get, 30 x 1", "one put, 1,000 watchers: events",
                      "lock, 20 contenders: hand-overs"):
            cells = line_with(text, f"| {title} |").split(" | ")
            assert all(float(cell.replace(",", "")) > 0 for cell in cells[5:11]), cells


def alone_performance_document_says_what_checkpoints_cost(_):
    run = bench_run(workload="open-loop", longest_pause_ms=7.0)
    for i, measurement in enumerate(run["document"]["workloads"][0]["measurements"]):
        measurement["latencies"] = {"setData": {
            "p50_us": 1000, "p99_us": 3000 - 1000 * i, "p99.9_us": 5000, "max_us": 9000}}
    with tempfile.TemporaryDirectory() as directory:
        keep(directory, "checkpoints", rate=2000, snap_count=8000, nodes=1_000_000, load_seconds=60,
             runs=[{**run, "place": "disk", "snapshots": [15, 0]}, {**run, "place": "memory", "snapshots": [16, 1]}])
        performance(directory, "--render")
        text = read(directory, "document.md")
        assert "a tree of 1,000,000 nodes" in text and "every 8,000 writes" in text, text
        assert "writes a second, 60 seconds of it" in text, text
        assert line_with(text, "| p99 of setData |") == (
            "| p99 of setData | 1.50 | 3.00 ms | 2.00 ms | 1.50 | 3.00 ms | 2.00 ms |"), text
        assert line_with(text, "| checkpoints of the three members |").endswith("| – | 15 | 0 | – | 16 | 1 |"), text


def alone_performance_document_checks_memory(_):
    def points(loaded, restarted, heap=None):
        return [{"nodes": 1000, "loaded_bytes": 1000 * loaded, "restarted_bytes": 1000 * restarted,
                 "restart_seconds": [0.25], **({"heap_bytes": 1000 * heap} if heap else {})}]

    with tempfile.TemporaryDirectory() as directory:
        def line_of(ours, theirs):
            keep(directory, "memory-flat", shape="flat", runs=[],
                 points={"quorate": points(*ours), "zookeeper": points(*theirs)})
            performance(directory, "--render")
            return line_with(read(directory, "document.md"), "| flat |")

        line = line_of((250, 220), (1000, 500, 400))
        assert line.startswith("| flat | 1,000 | 250 | 1,000 | 0.250 | 220 | 500 | 0.440 | 400 |"), line
        assert line.endswith("| met |"), line
        # The process has grown by less than the data on its heap.
        line = line_of((250, 220), (1000, 200, 440))
        assert "| 220 | 200 | 0.500 | 440 |" in line and line.endswith("| met |"), line
        line = line_of((250, 220), (1000, 200, 210))
        assert "| 220 | 200 | 1.05 | 210 |" in line and line.endswith("**behind: memory** |"), line


def grown_side(cpu_us, kernel_us, **functions):
    return {"cpu_us": cpu_us, "kernel_us": kernel_us, "samples": 1000 if functions else 0,
            "functions": functions, "threads": {"node": cpu_us / 2, "apply": cpu_us / 2} if functions else {}}


def alone_performance_document_says_what_grows(_):
    def point(work, kind, size, base, large):
        return {"kind": kind, "work": work, "size": size, "base_size": 10, "base": base, "large": large}

    with tempfile.TemporaryDirectory() as directory:
        keep(directory, "growth-where-nodes", runs=[], points=[point(
            "read", "nodes", 1_000_000, grown_side(10, 5, find=1.0, copy=2.5, gone=4.0),
            grown_side(15, 4.5, find=4.0, new=0.5, copy=2.0))])
        performance(directory, "--render")
        text = read(directory, "document.md").partition("## What grows, and why")[2]
        line = line_with(text, "| read |")
        assert line == ("| read | 1,000,000 znodes beside 10 znodes | 10.0 → 15.0 | +5.00 | -0.500 | node +2.50, "
                        "apply +2.50 | find +3.00, new +0.500 |"), line
        # The document has the measured rows and no others.
        assert "checkpoint" in text and "100,000 B" not in text and "no profile" not in text, text

        # Without perf.
        keep(directory, "growth-where-values", runs=[], points=[point(
            "write", "values", 1_000, grown_side(10, 5), grown_side(15, 6))])
        performance(directory, "--render")
        text = read(directory, "document.md").partition("## What grows, and why")[2]
        line = line_with(text, "| write |")
        assert line == "| write | 1,000 B beside 10 B | 10.0 → 15.0 | +5.00 | +1.00 | – | – |", line
        assert "no profile of some of it" in text and "100,000 B" in text, text


def alone_performance_profiles_are_read(_):
    profiles = load_program().rows.profiles
    counts = profiles.counts_of([
        "  zk-io   12 K          ffffffff82029907 tcp_write_xmit",
        "  zk-io   12 U              5639f40cb7b0 quorate::(anonymous namespace)::Crc32c",
        "  a thread 123 U           5639f40cb7b0 std::vector<a::B, std::allocator<a::B> >::emplace_back<a::B>",
        "  apply  12 U              5639f40cb7b1 quorate::Crc32c(std::basic_string_view<char>) const",
        "", "and something else"])
    assert counts == {"functions": {"tcp_write_xmit (kernel)": 1, "quorate::Crc32c": 2,
                                    "vector::emplace_back": 1},
                      "threads": {"zk-io": 2, "a thread": 1, "apply": 1}}, counts
    for symbol, name in (
            ("a::op<void (*)(int), q::Reader::Read(std::set<int> const&)::{lambda(a, b)#1}, c>::run",
             "Reader::Read, a lambda"),
            ("q::Map::operator()(int) const", "Map::operator"), ("q::Tree::Impl::Get", "Tree::Get"),
            ("operator new(unsigned long)", "operator new"),
            ("cfree@GLIBC_2.2.5", "cfree@GLIBC_2.2.5"), ("[unknown]", "[unknown]")):
        assert profiles.short_name(symbol) == name, (symbol, profiles.short_name(symbol))
    with mock.patch.object(profiles.subprocess, "run", side_effect=FileNotFoundError):
        profiles.sample("/nothing/there", 0)
    assert profiles.read("/nothing/there", [1]) == {"functions": {}, "threads": {}}
    # 10 us for each of 200 operations a second: the samples have to show half of that.
    assert profiles.is_of_load(bench_run(), 2_100_000, 2)
    assert not profiles.is_of_load(bench_run(), 1_900_000, 2)
    # Keeps the largest entries of each side, and the same entries of the other side.
    base = {"functions": {f"f{i}": i for i in range(100)}}
    large = {"functions": {f"f{i}": 1000 - i for i in range(100)}}
    base, large = profiles.keep_most(base, large)
    for side in (base, large):
        assert len(side["functions"]) == 2 * profiles.FUNCTIONS_KEPT and "f0" in side["functions"], side
        assert "f50" not in side["functions"], side


def alone_performance_profiles_take_turns(_):
    rows = load_program().rows
    scale, asked = rows.measuring.Scale(True), []

    def profile(_, __, work, cluster, options, beside):
        asked.append((work, cluster, options, beside))
        run = bench_run()
        run["document"]["workloads"][0]["measurements"][0].update(
            server_cpu_us=float(len(asked)), operations=1000 if len(asked) < 4 else 3000)
        return {"run": run, "user": 10, "kernel": 30, **rows.profiles.counts_of([])}

    @contextlib.contextmanager
    def cluster(*_, **__):
        clusters.append(len(clusters))
        yield clusters[-1]

    def measured(kind):
        asked.clear()
        clusters.clear()
        with mock.patch.object(rows.profiles, "profile", profile):
            return rows.BY_NAME[f"growth-where-{kind}"].measure(mock.Mock(cluster=cluster), scale, {})

    clusters = []
    kept = measured("values")
    assert [(point["work"], point["size"]) for point in kept["points"]] == [
        ("write", 1_000), ("write", 100_000), ("read", 100_000)], kept
    assert [(work, cluster, options[-1]) for work, cluster, options, _ in asked[:8]] == [
        ("write", i, size) for large in (1_000, 100_000)
        for i, size in ((0, 100), (1, large), (1, large), (0, 100))], asked
    assert len(kept["runs"]) == 12, kept
    # Weighted by operations: three times as many took 4 us as took 1 us.
    first = kept["points"][0]
    assert (first["base"]["cpu_us"], first["large"]["cpu_us"]) == (3.25, 2.5), first
    assert first["base"]["kernel_us"] == 3.25 * 0.75 and first["base"]["functions"] == {}, first
    # The preparation is done before samples are taken, and each cluster has a tree of its own.
    measured("watches")
    assert [beside for *_, beside in asked[:2]] == [
        {"num_alive_connections": 100, "watch_count": 1},
        {"num_alive_connections": 100, "watch_count": scale.watches[0]}], asked
    measured("nodes")
    roots = [options[options.index("--root") + 1] for _, _, options, _ in asked[:2]]
    assert roots == [f"/populated-{scale.nodes[0]}-compared", f"/populated-{scale.nodes[0]}"], asked
    # Samples are shares of the whole time: 30 of 40 are 7.5 us of 10.
    run = bench_run()
    counts = {"functions": collections.Counter({"f": 15, "g (kernel)": 5}),
              "threads": collections.Counter({"node": 20})}
    side = rows.profiles.put_together([{"run": run, "user": 1, "kernel": 0, **counts}] * 2)
    assert side == {"cpu_us": 10.0, "kernel_us": 2.5, "samples": 40, "threads": {"node": 10.0},
                    "functions": {"f": 7.5, "g (kernel)": 2.5}}, side


def alone_performance_profiles_what_grows(server):
    """Measures a real row, for a second on each side; with samples, if there is perf."""
    if server != "quorate":
        raise harness.Skipped("measures Quorate alone")
    with tempfile.TemporaryDirectory() as directory:
        performance(directory, "--quick", "--only", "growth-where-watches")
        kept = json.loads(read(directory, "growth-where-watches.json"))
        [point] = kept["points"]
        for side in (point["base"], point["large"]):
            assert 0 <= side["kernel_us"] <= side["cpu_us"] and side["cpu_us"] > 0, point
            # The figures are rounded, and small ones are left out.
            assert sum(side["functions"].values()) < 1.01 * side["cpu_us"], point
            assert bool(side["samples"]) == bool(side["functions"]) == bool(side["threads"]), point
        assert all("--compare" not in run["command"] for run in kept["runs"]), kept["runs"]
        text = read(directory, "document.md").partition("## What grows, and why")[2]
        line_with(text, "| connect | 20,000 watches beside 1 watch |")


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
    # A row that determines the rate of another row is measured before it, unless it was measured already.
    assert planned({}, only="open-loop") == ["write-30x32", "open-loop"]
    assert planned(measured, only="open-loop") == ["open-loop"]


def alone_performance_measures(server):
    """Measures some real rows, for a second each, and makes their document."""
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
        # The rows that were measured before are still in the document.
        assert "123 [" in line_with(text, "| lock, 20 contenders")
        assert os.listdir(os.path.join(directory, "data")) == []


def shared_metrics_for_the_performance_document(cluster):
    measuring = load_program().measuring
    assert measuring.metric(cluster.address(1), "znode_count") > 0
    assert measuring.metric(cluster.address(1), "something_else") is None


TESTS = tuple(function for name, function in list(globals().items()) if name.startswith("alone_"))
