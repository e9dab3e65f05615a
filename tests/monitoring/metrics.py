# SPDX-License-Identifier: Apache-2.0
"""Tests the page of metrics: its form with Prometheus's own checker, its values, and a real Prometheus that reads it."""

import contextlib
import json
import os
import re
import subprocess
import urllib.parse

import commands
import harness
import web
import zkwire as zk

PROVIDER = "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"
METRICS_OFFSET = 350  # of the ports that tests choose; tools/cluster leaves them free
PROMETHEUS_OFFSET = 390
# For conditions that Prometheus has to see. On a busy machine its start alone, which reads a program of 100 MB from the disk,
# takes longer than what is waited for elsewhere, and a scrape or an evaluation may fail several times.
PROMETHEUS_SECONDS = 120
SAMPLE = re.compile(r'^(\w+)(?:\{([^}]*)\})? (\S+)$')
# Names that dashboards and alerts for ZooKeeper use.
EXPECTED = """quorum_size uptime election_time_count election_time_sum znode_count ephemerals_count watch_count
approximate_data_size packets_received packets_sent bytes_received_count num_alive_connections outstanding_requests
avg_latency min_latency max_latency proposal_latency_count server_write_committed_time_ms_count
local_write_committed_time_ms_sum commit_count proposal_count snap_count diff_count global_sessions local_sessions
connection_drop_count connection_rejected unrecoverable_error_count digest_mismatches_count open_file_descriptor_count
max_file_descriptor_count fsynctime_sum snapshottime_sum jvm_pause_time_ms_sum leader_unavailable_time_count
process_cpu_seconds_total process_start_time_seconds process_open_fds process_resident_memory_bytes
readlatency_count""".split()
LEADER_ONLY = ("leader_uptime", "learners", "synced_followers", "synced_observers", "pending_syncs")


def samples(text):
    """Returns {name: {labels: value}} of a page."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = SAMPLE.match(line)
        assert match, line
        found.setdefault(match.group(1), {})[match.group(2) or ""] = float(match.group(3))
    return found


def page(cluster, member=1, query=""):
    answer = web.get(cluster, "/metrics" + query, member)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return answer.text


def shared_promtool_finds_no_error(cluster):
    for member in cluster.numbers():
        text = page(cluster, member)
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        # It also suggests other names for ZooKeeper's metrics (status 3), but ours have to be as it likes them.
        assert checked.returncode in (0, 3), checked.stderr
        ours = [line for line in checked.stderr.splitlines() if line.startswith("quorate_certificate")]
        assert not ours, ours
    return f"{len(samples(text))} names"


def shared_the_names_of_dashboards_are_there(cluster):
    leader = cluster.leader()
    cluster.wait_until("the leader has two followers",
                       lambda: samples(page(cluster, leader))["synced_followers"] == {"": 2})
    for member in cluster.numbers():
        found = samples(page(cluster, member))
        assert not set(EXPECTED) - set(found), set(EXPECTED) - set(found)
        present = [name for name in LEADER_ONLY if name in found]
        assert present == (list(LEADER_ONLY) if member == leader else []), (member, leader, present)
        assert set(found["readlatency"]) == {'quantile="0.5"', 'quantile="0.9"', 'quantile="0.99"'}
        assert set(found["fsynctime"]) == {'quantile="0.5"'}
        assert found["quorate_role"][f'role="{"leader" if member == leader else "follower"}"'] == 1
        if member == leader:
            assert len(found["quorate_member_match_index"]) == 3, found["quorate_member_match_index"]
    only = samples(page(cluster, 1, "?name[]=znode_count&name[]=fsynctime"))
    assert set(only) == {"znode_count", "fsynctime", "fsynctime_count", "fsynctime_sum"}, only


def shared_values_agree_with_mntr_and_count(cluster):
    member = cluster.leader()
    with zk.Connection(cluster.address(member)) as connection:
        for i in range(20):
            connection.call(zk.CREATE, zk.request_create(f"/counted-{i}", b"x"))
            connection.call(4, zk.request_path_watch(f"/counted-{i}", False))
        words, found = cluster.monitor(member), samples(page(cluster, member))
        for name in ("znode_count", "ephemerals_count", "approximate_data_size", "quorum_size", "synced_followers",
                     "global_sessions", "digest_mismatches_count", "quorate_raft_term"):
            assert float(words[name]) == found[name][""], name
        for name in ("readlatency", "updatelatency"):
            assert float(words[f"cnt_{name}"]) == found[f"{name}_count"][""] >= 20, name
            assert float(words[f"sum_{name}"]) == found[f"{name}_sum"][""], name
        assert found["readlatency"]['quantile="0.99"'] >= found["readlatency"]['quantile="0.5"'] >= 0
        for operation in ("create", "getData"):
            label = f'operation="{operation}"'
            buckets = [value for labels, value in found["quorate_request_latency_seconds_bucket"].items()
                       if labels.startswith(label + ",")]
            assert buckets == sorted(buckets) and len(buckets) == 17, buckets
            assert buckets[-1] == found["quorate_request_latency_seconds_count"][label] >= 20, operation
        # A write waits for the disks of a majority, so its time is not zero.
        assert found["quorate_request_latency_seconds_sum"]['operation="create"'] > 0


def shared_types_are_those_of_zookeeper(cluster):
    types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", page(cluster, cluster.leader()), re.MULTILINE))
    for name, kind in (("packets_received", "gauge"), ("avg_latency", "gauge"), ("znode_count", "gauge"),
                       ("commit_count", "counter"), ("readlatency", "summary"), ("fsynctime", "summary"),
                       ("diff_count", "counter"), ("leader_uptime", "gauge")):
        assert types[name] == kind, (name, types[name])


def test_the_port_of_the_prometheus_provider_has_metrics_alone():
    settings = [PROVIDER, "metricsProvider.httpHost=127.0.0.1"]
    with harness.Cluster("quorate", 1, settings, start=False) as cluster:
        where = cluster.ports.base + METRICS_OFFSET
        cluster.settings += [f"metricsProvider.httpPort={where}", "admin.enableServer=false"]
        cluster.start()
        cluster.leader()
        assert "znode_count" in samples(web.request(where, "/metrics").text)
        assert web.request(where, "/commands/ruok").status == 404
        try:
            web.get(cluster, "/commands/ruok")
            raise AssertionError("admin.enableServer=false, and the port is open")
        except ConnectionRefusedError:
            pass


def test_each_metric_of_zookeepers_monitor_is_on_the_page():
    with commands.zookeeper(1) as theirs, harness.Cluster("quorate", 1) as ours:
        theirs.wait_until("ZooKeeper serves", lambda: web.command(theirs, "srvr")["error"] is None)
        web.await_serving(ours)
        found = samples(page(ours))
        names = {name for name in web.command(theirs, "monitor")
                 if name not in ("version", "server_state", "command", "error")}
        parts = re.compile(r"^(avg|min|max|cnt|sum|p50|p95|p99|p999)_")
        missing = [name for name in names if name not in found and parts.sub("", name) not in found]
        assert not missing, sorted(missing)
        return f"{len(names)} names"


def wait_for(what, condition):
    """Waits until the condition holds, which must be within PROMETHEUS_SECONDS."""
    harness.wait_for(what, condition, PROMETHEUS_SECONDS)


@contextlib.contextmanager
def prometheus(cluster, rules=(), labels=None):
    """Runs Prometheus, which reads the metrics of all members, gives them `labels`, and evaluates the files `rules`. Yields
    a function that evaluates an expression, and returns {instance: value}; None if Prometheus does not answer, and may do so
    when it is asked again."""
    where = cluster.ports.base + PROMETHEUS_OFFSET
    targets = [f"{harness.HOST}:{web.port(cluster, i)}" for i in cluster.numbers()]
    config = os.path.join(cluster.parent, "prometheus.yml")
    with open(config, "w", encoding="ascii") as file:
        json.dump({"global": {"scrape_interval": "300ms", "scrape_timeout": "300ms", "evaluation_interval": "300ms"},
                   "rule_files": list(rules), "scrape_configs": [
                       {"job_name": "quorate", "static_configs": [{"targets": targets, "labels": labels or {}}]}]}, file)
    with open(os.path.join(cluster.parent, "prometheus.log"), "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={cluster.parent}/prometheus",
             f"--web.listen-address={harness.HOST}:{where}"], stdout=log, stderr=subprocess.STDOUT)

    def evaluate(expression):
        try:
            answer = web.request(where, "/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        except OSError:
            return None
        assert answer.status != 400, f"{expression}: {answer.text}"  # the expression is not valid
        if answer.status != 200:
            return None
        return {item["metric"].get("instance", ""): float(item["value"][1])
                for item in json.loads(answer.text)["data"]["result"]}

    def is_ready():
        assert process.poll() is None, "Prometheus ended; see prometheus.log"
        with contextlib.suppress(OSError):
            return web.request(where, "/-/ready").status == 200
        return False

    try:
        wait_for("Prometheus is ready", is_ready)
        yield evaluate
    finally:
        process.terminate()
        process.wait()


def test_prometheus_reads_three_members_and_sees_one_go_down():
    with harness.Cluster("quorate", 3, web.STEADY) as cluster, prometheus(cluster) as evaluate:
        name = {i: f"{harness.HOST}:{web.port(cluster, i)}" for i in cluster.numbers()}
        wait_for("all members are up", lambda: evaluate("up") == dict.fromkeys(name.values(), 1.0))
        leader = cluster.leader()
        wait_for("one leader is seen, with two followers", lambda: evaluate("synced_followers") == {name[leader]: 2.0})
        victim = cluster.others(leader)[0]
        cluster.kill(victim)
        wait_for("the member is seen down", lambda: (evaluate("up") or {}).get(name[victim]) == 0)
        wait_for("the leader has one follower fewer",
                 lambda: set((evaluate("synced_followers") or {}).values()) == {1.0})
        cluster.restart(victim)
        wait_for("the member is up again", lambda: (evaluate("up") or {}).get(name[victim]) == 1)
