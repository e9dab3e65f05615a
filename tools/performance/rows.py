# SPDX-License-Identifier: Apache-2.0
"""The rows of the document: the measurement of each row, and the budget that it has to meet.

A row's `measure(bench, scale, results)` returns the row's result; `results` has the results of the rows
that were measured before. Ratios are always Quorate's figure divided by ZooKeeper's, or by that of the
limit, in one run."""

import concurrent.futures
import contextlib
import dataclasses
import os
import time
from typing import Callable

import etcd
import herd
import measuring
import profiles
import where
from measuring import SYSTEMS, Failure

BUDGET, LIMIT, LINEARIZABLE, TLS, ETCD, HERD, WHERE, SLOWEST, IDLE, GROWTH, GROWTH_WHERE, TAIL, CHECKPOINTS, MEMORY = (
    "budget", "limit", "linearizable", "tls", "etcd", "herd", "where", "slowest", "idle", "growth", "growth-where", "tail",
    "checkpoints", "memory")


# A number of log entries between checkpoints that is so large that it causes no checkpoint.
NEVER = 1_000_000_000


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    section: str
    title: str
    measure: Callable
    seconds: int  # the approximate duration, without --quick
    # The budget, {figure: limit}. "rate" is the least ratio, "p50", "p99", "p99.9" and "cpu" are the
    # greatest ratios; "pause_ms", "bytes" and "restart_seconds" are the greatest values of Quorate.
    budget: dict = dataclasses.field(default_factory=dict)
    # Another row whose figures this row needs; "": none.
    needs: str = ""


# --- 1. The budget


def bench_row(name, title, workload, options, budget=None, seconds=15):
    def measure(bench, scale, _):
        ours, theirs = bench.pair()
        return {"runs": [bench.compare([workload], ours, theirs, [*options, *scale.time_options])]}

    return Row(name, BUDGET, title, measure, seconds, budget or {})


def load_row(workload, connections, depth, budget=None):
    title = f"{workload}, {connections} x {depth}"
    return bench_row(f"{workload}-{connections}x{depth}", title, workload,
                     ["--connections", connections, "--depth", depth], budget)


def best_rate_of_zookeeper(results):
    """Returns ZooKeeper's greatest rate of writes per second in the rows that were measured."""
    rates = [run["document"]["workloads"][0]["measurements"][1]["operations_per_second"]
             for name in ("write-1x1", "write-30x1", "write-30x32") if name in results
             for run in results[name].get("runs", ())]
    if not rates:
        raise Failure("no row of writes was measured, whose best rate is needed")
    return max(rates)


def measure_open_loop(bench, scale, results):
    ours, theirs = bench.pair()
    rate = round(best_rate_of_zookeeper(results) / 2)
    options = ["--connections", 30, "--read-share", 0, "--rate", rate, "--seconds", 3 * scale.seconds,
               "--slice-seconds", 2 * scale.slice_seconds, "--warm-up-seconds",
               scale.warm_up_seconds]
    return {"runs": [bench.compare(["open-loop"], ours, theirs, options)], "rate": rate}


FAILOVER_LOAD = ["--connections", 30, "--rate", 500, "--session-timeout-ms", 6000]


def measure_kill(bench, scale, _):
    return {"runs": [bench.fail_over(("kill", "restart"), scale.kill_rounds, FAILOVER_LOAD, *bench.pair())]}


def measure_freeze(bench, scale, _):
    return {"runs": [bench.fail_over(("pause", "resume"), scale.freeze_rounds, FAILOVER_LOAD, *bench.pair())]}


def measure_populate(bench, scale, _):
    ours, theirs = bench.pair()
    options = ["--count", scale.populate, "--connections", 30, "--depth", 32, "--slice-seconds",
               scale.slice_seconds]
    return {"runs": [bench.compare(["populate"], ours, theirs, options)]}


BUDGET_ROWS = [
    load_row("write", 1, 1, {"p50": 0.43, "cpu": 0.25}),
    load_row("write", 30, 1, {"rate": 4, "cpu": 0.19}),
    load_row("write", 30, 32, {"rate": 5, "cpu": 0.18}),
    load_row("read", 1, 1),
    load_row("read", 30, 1),
    load_row("read", 30, 32, {"rate": 4, "cpu": 0.14}),
    load_row("mix", 30, 1),
    load_row("mix", 30, 32),
    load_row("ephemeral", 30, 32),
    load_row("multi", 30, 32),
    load_row("children", 30, 32),
    bench_row("connect", "connect and close, 10 at a time", "connect", ["--connections", 10],
              {"rate": 10}),
    bench_row("watch", "one write, 1,000 watchers: events", "watch", ["--watchers", 1000],
              {"rate": 10}),
    bench_row("lock", "lock, 20 contenders: hand-overs", "lock", ["--connections", 20]),
    Row("populate", BUDGET, "create nodes, 30 x 32", measure_populate, 15),
    Row("open-loop", BUDGET, "writes at half of ZooKeeper's best rate", measure_open_loop, 35,
        {"p99.9": 0.1}, needs="write-30x32"),
    Row("failover-kill", BUDGET, "the leader is killed (SIGKILL)", measure_kill, 110,
        {"pause_ms": 300}),
    Row("failover-freeze", BUDGET, "the leader hangs (SIGSTOP)", measure_freeze, 75,
        {"pause_ms": 500}),
]


# --- The limit of the machine


def limit_row(workload, clients, budget):
    """Returns a row of Quorate beside the program `limit`, which does only the input and output that no
    system can avoid. In both, each client has one request at a time."""
    def measure(bench, scale, _):
        bench.close_pair()
        options = ["--connections", clients, "--seconds", scale.limit_seconds, "--warm-up-seconds",
                   scale.warm_up_seconds]
        runs, limits = [], []
        with bench.cluster("quorate") as cluster:
            for _ in range(scale.limit_turns):
                limits.append(bench.limit(workload, clients, scale.limit_seconds))
                runs.append(bench.alone([workload], cluster, options))
        return {"runs": runs, "limits": limits}

    return Row(f"limit-{workload}-{clients}", LIMIT, f"{workload}, {clients:,} x 1", measure, 30, budget)


# --- Linearizable reads


def linearizable_row(depth, budget):
    """Returns a row of two clusters of Quorate, of which one makes all reads linearizable."""
    def measure(bench, scale, _):
        bench.close_pair()
        with bench.cluster("quorate", settings=["linearizableReads=true"]) as linearizable, \
                bench.cluster("quorate") as plain:
            return {"runs": [bench.compare(["read"], linearizable, plain, [
                "--connections", 30, "--depth", depth, *scale.time_options], labels=("linearizable", "plain"))]}

    return Row(f"linearizable-read-30x{depth}", LINEARIZABLE, f"read, 30 x {depth}", measure, 25, budget)


# --- TLS


def compare_tls(bench, compare):
    """Returns the results of compare(ours, theirs, labels) for a cluster of Quorate with TLS on all connections: first
    beside one of Quorate without TLS, and then beside one of ZooKeeper with TLS."""
    bench.close_pair()
    with bench.cluster("quorate", tls=True) as secure:
        with bench.cluster("quorate") as plain:
            runs = [compare(secure, plain, ("tls", "plain"))]
        with bench.cluster("zookeeper", tls=True, certificates_of=secure) as theirs:
            runs.append(compare(secure, theirs, SYSTEMS))
    return {"runs": runs}


def tls_row(workload, budget):
    def measure(bench, scale, _):
        options = ["--connections", 30, "--depth", 32, *scale.time_options]
        return compare_tls(bench, lambda ours, theirs, labels: bench.compare([workload], ours, theirs, options, labels))

    return Row(f"tls-{workload}-30x32", TLS, f"{workload}, 30 x 32", measure, 45, budget)


def measure_kill_with_tls(bench, scale, _):
    return compare_tls(bench, lambda ours, theirs, labels: bench.fail_over(
        ("kill", "restart"), scale.kill_rounds, FAILOVER_LOAD, ours, theirs, labels))


# --- etcd


def etcd_row(name, title, options):
    """Returns a row of calls over gRPC that Quorate and etcd answer in turns."""
    def measure(bench, scale, _):
        bench.close_pair()
        options_of_run = [*options, "--warm-up-seconds", scale.warm_up_seconds]
        runs, others = [], []
        with bench.cluster("quorate") as ours, etcd.cluster(bench.data) as theirs:
            for _ in range(scale.limit_turns):
                others.append(etcd.load("etcd", theirs.grpc(), theirs.pids(), scale.limit_seconds, options_of_run))
                runs.append(etcd.load("quorate", ours.grpc(), ours.pids(), scale.limit_seconds, options_of_run))
        return {"runs": runs, "others": others}

    return Row(f"etcd-{name}", ETCD, title, measure, 40, {"rate": 1, "cpu": 1})


ETCD_ROWS = [
    etcd_row("put-1x1", "put, 1 x 1", ["--operation", "put", "--connections", 1]),
    etcd_row("put-30x1", "put, 30 x 1", ["--operation", "put"]),
    etcd_row("put-30x32", "put, 30 x 32", ["--operation", "put", "--depth", 32]),
    etcd_row("get-30x1", "get, 30 x 1", ["--operation", "get"]),
    etcd_row("get-30x32", "get, 30 x 32", ["--operation", "get", "--depth", 32]),
    etcd_row("linearizable-get-30x1", "linearizable get, 30 x 1", ["--operation", "linearizable-get"]),
    etcd_row("linearizable-get-30x32", "linearizable get, 30 x 32", ["--operation", "linearizable-get", "--depth", 32]),
    etcd_row("watch", "one put, 1,000 watchers: events", ["--operation", "watch"]),
    etcd_row("lock", "lock, 20 contenders: hand-overs", ["--operation", "lock", "--connections", 20]),
]


# --- Everyone comes back


HERD_PATIENCE_SECONDS = 120


def measure_return(bench, scale, system):
    """Returns the times until the sessions of very many clients are back after all members were killed."""
    with bench.cluster(system) as cluster:
        servers = [(host, int(port)) for host, port in (text.rsplit(":", 1) for text in cluster.hosts().split(","))]
        with herd.Herd(servers, scale.herd) as clients, concurrent.futures.ThreadPoolExecutor(cluster.size) as pool:
            time.sleep(scale.warm_up_seconds)
            list(pool.map(cluster.kill, cluster.numbers()))
            killed = time.monotonic()
            restarts = [pool.submit(cluster.restart, member) for member in cluster.numbers()]
            times, attempts, lost = clients.await_return(killed, HERD_PATIENCE_SECONDS)
            for restart in restarts:
                restart.result()
    if not times:
        raise Failure(f"no session of {system} came back within {HERD_PATIENCE_SECONDS} s")
    return {"system": system, "sessions": scale.herd, "back": len(times), "attempts": attempts, "lost": lost,
            "seconds": {"first": times[0], "median": times[len(times) // 2],
                        "p99": times[len(times) * 99 // 100], "last": times[-1]}}


def measure_herd(bench, scale, _):
    bench.close_pair()
    return {"points": [measure_return(bench, scale, system) for _ in range(scale.herd_rounds) for system in SYSTEMS]}


LIMIT_ROWS = [
    limit_row("write", 1, {"p50": 1.15, "p99": 1.3, "cpu": 1.25}),
    limit_row("write", 30, {"rate": 0.8, "p99": 1.3, "cpu": 1.6}),
    limit_row("write", 300, {"rate": 0.7, "p99": 1.3, "cpu": 2}),
    limit_row("write", 3000, {"rate": 0.6, "p99": 1.3}),
    limit_row("read", 30, {"cpu": 1.5}),
    limit_row("read", 300, {"cpu": 1.5}),
]


# --- Where the time goes


def where_row(name, title, workload, options):
    def measure(bench, scale, _):
        return where.measure(bench, scale, workload, options)

    return Row(f"where-{name}", WHERE, title, measure, 20)


# The rates of measure_slowest(), as shares of the rate of the row open-loop.
SLOWEST_SHARES = (1, 0.5, 0.25)


def check_memory_directory():
    if not measuring.is_memory(measuring.MEMORY_DIRECTORY):
        raise Failure(f"{measuring.MEMORY_DIRECTORY} is no file system in memory")


def measure_slowest(bench, scale, results):
    """Measures the slowest writes: the same load with the data on the disk and in memory, and at lower
    rates. ZooKeeper does not run, so that only Quorate uses the disk and the processors."""
    rate = results["open-loop"].get("rate") if "open-loop" in results else None
    if rate is None:
        raise Failure("the row open-loop was not measured, whose rate is needed")
    check_memory_directory()
    bench.close_pair()
    points = []
    for place, directory in (("disk", bench.data), ("memory", measuring.MEMORY_DIRECTORY)):
        with bench.cluster("quorate", directory=directory) as cluster:
            for share in SLOWEST_SHARES:
                run = bench.alone(["open-loop"], cluster, [
                    "--connections", 30, "--read-share", 0, "--rate", round(rate * share), "--seconds",
                    3 * scale.seconds, "--warm-up-seconds", scale.warm_up_seconds])
                points.append({"place": place, **run})
    return {"runs": points, "processors": os.cpu_count()}


# --- 2. Idle


def measure_idle(bench, scale, _):
    ours, theirs = bench.pair()
    options = ["--connections", 100, "--seconds", scale.idle_seconds, "--slice-seconds",
               scale.idle_seconds / 4, "--warm-up-seconds", scale.warm_up_seconds]
    return {"runs": [bench.compare(["idle"], ours, theirs, options)]}


# --- 3. Growth: the same system, large beside small


GROWTH_WORKLOADS = ("write", "read", "children", "connect", "watch")


@dataclasses.dataclass
class Stage:
    """Two clusters of one system, of which one has grown."""
    size: int
    base_size: int
    large: measuring.harness.Cluster
    base: measuring.harness.Cluster
    # Options of `quorate bench`: {name: (at the large cluster, at the base)}, and the options of both.
    different: dict = dataclasses.field(default_factory=dict)
    same: tuple = ()
    # --root of the large cluster; that of the base is the root that `quorate bench` derives from it.
    root: str = ""
    workloads: tuple = GROWTH_WORKLOADS

    def options_of(self, is_base):
        root = ["--root", self.root + "-compared" * is_base] if self.root else []
        return root + [*self.same, *(word for name, values in self.different.items()
                                     for word in (f"--{name}", values[is_base]))]

    def compared_options(self):
        return [*self.options_of(False), *(word for name, (_, value) in self.different.items()
                                           for word in (f"--compare-{name}", value))]


def growth_load(scale):
    return ["--connections", 30, "--depth", 8, "--watchers", scale.growth_watchers]


def compare_sizes(bench, scale, stage):
    run = bench.compare(stage.workloads, stage.large, stage.base,
                        [*growth_load(scale), *scale.growth_time_options, *stage.compared_options()],
                        labels=("large", "base"))
    return {"size": stage.size, "base": stage.base_size, **run}


def heap_for(system, nodes):
    """Returns the GB of heap for each member. ZooKeeper needs some 450 bytes per znode, and free space for
    the garbage collector."""
    return 1 if system != "zookeeper" or nodes <= 100_000 else 2 if nodes <= 1_000_000 else 5


# Each of these functions yields one Stage after the other. The clusters of a Stage run until the next one is
# requested.


def node_stages(system, bench, scale, sizes):
    there = 0
    # The creation of znodes warms the large cluster up.
    with bench.cluster(system, warm_ups=4) as base, bench.cluster(
            system, heap_gb=heap_for(system, max(sizes))) as large:
        for size in sizes:
            bench.say(f"creating {size - there:,} nodes at {system}")
            root = f"/populated-{size}"
            bench.populate(large, size - there, root)
            # The base gets its few znodes again, below the root that corresponds to the large cluster's.
            bench.populate(base, scale.nodes_base, f"{root}-compared")
            yield Stage(size, scale.nodes_base, large, base,
                        {"populated": (size - there, scale.nodes_base)}, ("--keep",), root)
            there = size


def session_stages(system, bench, scale, sizes):
    with bench.cluster(system) as base, bench.cluster(system) as large:
        for size in sizes:
            yield Stage(size, scale.sessions_base, large, base,
                        {"idle-sessions": (size, scale.sessions_base)})


def watch_stages(system, bench, _, sizes):
    with bench.cluster(system) as base, bench.cluster(system, heap_gb=2) as large:
        for size in sizes:
            yield Stage(size, 1, large, base, {"idle-sessions": (100, 100), "idle-watches": (size, 1)})


def value_stages(system, bench, _, sizes):
    with bench.cluster(system) as base, bench.cluster(system) as large:
        for size in sizes:
            yield Stage(size, 100, large, base, {"size": (size, 100)}, ("--keys", 100),
                        workloads=("write", "read"))


def member_stages(system, bench, _, sizes):
    with bench.cluster(system, 1) as base:
        for size in sizes:
            with bench.cluster(system, size) as large:
                yield Stage(size, 1, large, base)


@dataclasses.dataclass(frozen=True)
class Growth:
    title: str
    unit: str  # the unit of the size
    stages: Callable
    sizes: Callable  # returns the sizes for a Scale
    seconds: tuple  # the duration for each system


GROWTHS = {
    "nodes": Growth("Znodes in the tree", "znodes", node_stages, lambda scale: scale.nodes, (130, 110)),
    "sessions": Growth("Sessions that do nothing beside", "sessions", session_stages,
                       lambda scale: scale.sessions, (65, 85)),
    "watches": Growth("Watches set beside, by 100 sessions", "watches", watch_stages,
                      lambda scale: scale.watches, (35, 65)),
    "values": Growth("Bytes of data in a node", "B", value_stages, lambda _: (1_000, 100_000), (25, 35)),
    "members": Growth("Members", "members", member_stages, lambda _: (3, 5), (50, 75)),
}


def growth_row(kind, system):
    growth = GROWTHS[kind]

    def measure(bench, scale, _):
        bench.close_pair()
        sizes = [size for size in growth.sizes(scale)
                 if kind != "nodes" or system == "quorate" or size <= scale.zookeeper_nodes]
        with contextlib.closing(growth.stages(system, bench, scale, sizes)) as stages:
            runs = [compare_sizes(bench, scale, stage) for stage in stages]
        return {"kind": kind, "system": system, "runs": runs}

    return Row(f"growth-{kind}-{system}", GROWTH, f"{growth.title}: {system}", measure,
               growth.seconds[SYSTEMS.index(system)])


# The values of mntr that show how many of the idle sessions and watches exist.
BESIDE = {"idle-sessions": "num_alive_connections", "idle-watches": "watch_count"}


def profile_side(bench, scale, work, stage, is_base):
    beside = {BESIDE[name]: values[is_base] for name, values in stage.different.items() if name in BESIDE}
    return profiles.profile(bench, scale, work, stage.base if is_base else stage.large,
                            [*growth_load(scale), *stage.options_of(is_base)], beside)


def profile_growth(bench, scale, kind, stage, work):
    """Returns (the result of a workload at both clusters, the documents of bench). The clusters take turns,
    so that a temporary slowdown of the machine is not mistaken for an effect of growth."""
    base, large = [], []
    for is_base in (True, False, False, True):
        (base if is_base else large).append(profile_side(bench, scale, work, stage, is_base))
    runs = [profile["run"] for profile in base + large]
    base, large = profiles.keep_most(profiles.put_together(base), profiles.put_together(large))
    return {"kind": kind, "work": work, "size": stage.size, "base_size": stage.base_size, "base": base,
            "large": large}, runs


def growth_where_row(kind, sizes_of, works_of, seconds):
    """Returns a row of workloads that grow by more than at ZooKeeper, with profiles of Quorate alone."""
    growth = GROWTHS[kind]

    def measure(bench, scale, _):
        bench.close_pair()
        measured = []
        with contextlib.closing(
                growth.stages("quorate", bench, scale, sizes_of(growth.sizes(scale)))) as stages:
            for stage in stages:
                measured += [profile_growth(bench, scale, kind, stage, work)
                             for work in works_of(stage.size)]
        return {"points": [point for point, _ in measured],
                "runs": [run for _, runs in measured for run in runs]}

    return Row(f"growth-where-{kind}", GROWTH_WHERE, f"{growth.title}: what takes the time", measure,
               seconds)


# --- 4. Tail


def measure_tail(bench, scale, results):
    """Measures a steady load during which both systems take snapshots and cut their logs."""
    rate = round(best_rate_of_zookeeper(results) / 4)
    bench.close_pair()
    count = scale.tail_snap_count
    with bench.cluster("quorate", settings=[
            f"snapCount={count}", f"logSegmentBytes={4 << 20}"]) as ours, bench.cluster(
                "zookeeper", settings=[f"snapCount={count}", "preAllocSize=4096",
                                       "autopurge.purgeInterval=1"]) as theirs:
        for cluster in (ours, theirs):
            bench.populate(cluster, scale.tail_nodes, "/populated")
        before = [snapshots(cluster) for cluster in (ours, theirs)]
        seconds = scale.tail_minutes * 60 / 2
        run = bench.compare(["open-loop"], ours, theirs, [
            "--connections", 30, "--rate", rate, "--read-share", 0.5, "--keys", 10_000,
            "--seconds", seconds, "--slice-seconds", seconds / 4,
            "--warm-up-seconds", scale.warm_up_seconds])
        taken = [snapshots(cluster) - earlier for cluster, earlier in zip((ours, theirs), before)]
    return {"runs": [run], "rate": rate, "snap_count": count, "nodes": scale.tail_nodes,
            "minutes": scale.tail_minutes, "snapshots": taken}


def snapshots_of_members(cluster):
    return [round(measuring.metric(cluster.address(i), "cnt_snapshottime") or 0)
            for i in cluster.numbers()]


def snapshots(cluster):
    """Returns the number of snapshots that all members of a cluster have taken."""
    return sum(snapshots_of_members(cluster))


# --- 5. Checkpoints


def measure_checkpoints(bench, scale, _):
    """Measures two clusters of Quorate with a large tree and a steady load of writes, of which one takes a
    checkpoint every few seconds and the other none. Repeats it with the data on the disk and in memory."""
    check_memory_directory()
    bench.close_pair()
    rate, count = scale.checkpoint_rate, scale.checkpoint_rate * 4
    points = []
    for place, directory in (("disk", bench.data), ("memory", measuring.MEMORY_DIRECTORY)):
        with bench.cluster("quorate", settings=[f"snapCount={count}"], directory=directory) as often, \
                bench.cluster("quorate", settings=[f"snapCount={NEVER}"], directory=directory) as never:
            points.append({"place": place, **compare_checkpoints(bench, scale, rate, often, never)})
    return {"runs": points, "rate": rate, "snap_count": count, "nodes": scale.checkpoint_nodes,
            "load_seconds": scale.checkpoint_seconds}


def compare_checkpoints(bench, scale, rate, often, never):
    for cluster in (often, never):
        bench.say(f"creating {scale.checkpoint_nodes:,} nodes")
        bench.populate(cluster, scale.checkpoint_nodes, "/populated")
    # A checkpoint is also taken after some 64 MiB of log, so the measured writes have to fit in less.
    before, more = snapshots_of_members(never), 0
    while any(now == then for now, then in zip(snapshots_of_members(never), before)):
        if more == 50:
            raise Failure("a cluster takes no checkpoint, however much is written")
        more += 1
        bench.populate(never, 20_000, f"/more-{more}")
    before = [snapshots(cluster) for cluster in (often, never)]
    run = bench.compare(["open-loop"], often, never, [
        "--connections", 30, "--rate", rate, "--read-share", 0, "--keys", 100_000,
        "--seconds", scale.checkpoint_seconds, "--slice-seconds", min(10, scale.checkpoint_seconds / 2),
        "--warm-up-seconds", scale.warm_up_seconds], labels=("with", "without"))
    taken = [snapshots(cluster) - earlier for cluster, earlier in zip((often, never), before)]
    return {**run, "snapshots": taken}


# --- 6. Memory and restart


def measure_memory_of(system, bench, scale, shape, sizes):
    points, there = [], 0
    with bench.cluster(system, size=1, heap_gb=4) as cluster:
        [pid] = cluster.pids()
        empty = measuring.resident_bytes(pid)
        for size in sizes:
            bench.say(f"creating {size - there:,} nodes at {system}")
            bench.populate(cluster, size - there, f"/populated-{size}",
                           ["--shape", shape, "--name-bytes", 24])
            there = size
            [pid] = cluster.pids()
            point = {"nodes": size, "loaded_bytes": measuring.resident_bytes(pid) - empty}
            if system == "zookeeper":
                point["heap_bytes"] = measuring.java_heap_bytes(pid)
            seconds = [measuring.restart_seconds(cluster) for _ in range(scale.restarts)]
            [pid] = cluster.pids()
            point["restart_seconds"] = seconds
            point["restarted_bytes"] = measuring.resident_bytes(pid) - empty
            points.append(point)
    return points


def memory_row(shape, sizes_of, seconds, budget):
    def measure(bench, scale, _):
        bench.close_pair()
        sizes = sizes_of(scale)
        return {"shape": shape,
                "points": {system: measure_memory_of(system, bench, scale, shape, sizes)
                           for system in SYSTEMS}}

    return Row(f"memory-{shape}", MEMORY, f"memory and restart, {shape}", measure, seconds, budget)


ROWS = [
    *BUDGET_ROWS,
    *LIMIT_ROWS,
    linearizable_row(1, {}),
    linearizable_row(32, {"cpu": 3}),
    tls_row("write", {"cpu": 1.6}),
    tls_row("read", {"cpu": 2}),
    Row("tls-failover-kill", TLS, "the leader is killed (SIGKILL)", measure_kill_with_tls, 200, {"pause_ms": 300}),
    *ETCD_ROWS,
    Row("herd", HERD, "all members are killed and started again", measure_herd, 110),
    where_row("write-1x1", "write, 1 x 1", "write", ["--connections", 1]),
    where_row("write-30x1", "write, 30 x 1", "write", ["--connections", 30]),
    where_row("write-30x32", "write, 30 x 32", "write", ["--connections", 30, "--depth", 32]),
    where_row("connect", "connect and close, 10 at a time", "connect", ["--connections", 10]),
    where_row("watch", "one write, 1,000 watchers: events", "watch", ["--watchers", 1000]),
    Row("slowest-writes", SLOWEST, "writes, 30 connections", measure_slowest, 110, needs="open-loop"),
    Row("idle", IDLE, "100 sessions that do nothing", measure_idle, 45),
    *(growth_row(kind, system) for kind in GROWTHS for system in SYSTEMS),
    growth_where_row("nodes", lambda sizes: sizes[:1], lambda _: ("write", "read", "connect"), 95),
    growth_where_row("sessions", lambda sizes: sizes[-1:], lambda _: ("connect",), 35),
    growth_where_row("watches", lambda sizes: sizes, lambda _: ("connect",), 35),
    growth_where_row("values", lambda sizes: sizes,
                     lambda size: ("write",) if size <= 1_000 else ("write", "read"), 70),
    Row("tail", TAIL, "steady load while snapshots are taken", measure_tail, 620,
        needs="write-30x32"),
    Row("checkpoints", CHECKPOINTS, "a steady load with and without checkpoints", measure_checkpoints,
        300),
    memory_row("flat", lambda scale: scale.memory_nodes, 75,
               {"bytes": 300, "restart_seconds": 0.5}),
    memory_row("directories", lambda scale: scale.memory_nodes[-1:], 45, {"bytes": 300}),
    memory_row("chains", lambda scale: scale.memory_nodes[-1:], 45, {"bytes": 300}),
]
BY_NAME = {row.name: row for row in ROWS}
