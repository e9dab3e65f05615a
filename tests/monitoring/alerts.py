# SPDX-License-Identifier: Apache-2.0
"""Tests deploy/monitoring: the rules with promtool and with a real Prometheus over real clusters, and the queries of our
dashboard and of ZooKeeper's, which zookeeper_queries.json holds.

The tests with Prometheus show that alerts fire. Their alerts have no delay, so that others fire too on a slow or busy machine,
for a scrape that takes too long or a disk. That an alert does not fire is tested by promtool."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile

import full_disk
import harness
import https
import metrics
import web
import zkwire as zk
from client_tls import place

FOLDER = os.path.join(harness.ROOT, "deploy/monitoring")
RUNBOOK = os.path.join(harness.ROOT, "docs/operations/alerts.md")
DASHBOARD = os.path.join(FOLDER, "dashboards/quorate.json")
ZOOKEEPER_QUERIES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "zookeeper_queries.json")
CLUSTER = "tested"
PROMTOOL_SECONDS = 300
TRY_SECONDS = 900  # more than all waits of the program together
TRY_LINES = 500  # more than its output, which has four lines for each alert that fires
# The reasons for which a query returns nothing on a fast machine only, and may have data on a slow or busy one.
ON_A_FAST_MACHINE = ("no alert fires", "the alert of a cluster that is well, on a fast machine")
# Why a query of our dashboard returns nothing here, by a part of it.
EMPTY = {
    "ALERTS{": "no alert fires",
    "snapshottime_sum": "no member has written a checkpoint",
    "quorate_certificate_expiry_timestamp_seconds": "the members have no certificates",
}
VARIABLES = {"$cluster": CLUSTER, "$instance": ".*", "$__rate_interval": "30s"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def alert_names():
    return re.findall(r"- alert: (\w+)", read(os.path.join(FOLDER, "alerts.yml")))


def promtool(*arguments):
    done = subprocess.run(["promtool", *arguments], cwd=FOLDER, capture_output=True, text=True, check=False,
                          timeout=PROMTOOL_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_the_rules_and_their_tests_pass():
    promtool("check", "config", "prometheus.yml")
    promtool("check", "rules", "alerts.yml", "recording.yml")
    promtool("test", "rules", "alerts_test.yml")


def test_the_alert_of_the_guide_is_evaluated():
    guide = read(os.path.join(harness.ROOT, "docs/guides/monitoring.md"))
    alert = re.search(r"^    (quorate_top_client_requests_per_second\{.*)$", guide, re.MULTILINE).group(1)
    assert f"({alert})" in read(os.path.join(FOLDER, "alerts_test.yml")), alert


def test_each_alert_has_a_test_and_a_section_of_the_runbook():
    names = alert_names()
    assert names and len(set(names)) == len(names), names
    tested = re.findall(r'- name: "(\w+)"', read(os.path.join(FOLDER, "alerts_test.yml")))
    assert sorted(tested) == sorted(names), set(tested) ^ set(names)
    assert re.findall(r"^### (\w+)$", read(RUNBOOK), re.MULTILINE) == names
    links = re.findall(r"runbook_url: (\S+)", read(os.path.join(FOLDER, "alerts.yml")))
    assert links == [f"docs/operations/alerts.md#{name.lower()}" for name in names], links
    return f"{len(names)} alerts"


def test_the_rules_and_the_dashboard_use_no_unknown_metric():
    known = set(re.findall(r"^\| `(\w+)`", read(os.path.join(harness.ROOT, "docs/reference/metrics.md")), re.MULTILINE))
    known |= {f"{name}_{end}" for name in known for end in ("sum", "count")} | {"up", "ALERTS"}
    rules = "".join(read(os.path.join(FOLDER, name)) for name in ("alerts.yml", "recording.yml"))
    used = set(re.findall(r"(?<![\w:])([a-zA-Z]\w*)\{", rules))
    used |= {name for query in dashboard_queries() for name in re.findall(r"(\w+)\{", query)}
    assert len(used) > 40 and not used - known, used - known


def rules_without_delay(cluster):
    """Writes the rules, with no alert waiting before it fires, into the cluster's directory. Returns the paths."""
    made = []
    for name in ("recording.yml", "alerts.yml"):
        made.append(os.path.join(cluster.parent, name))
        with open(made[-1], "w", encoding="utf-8") as file:
            file.write(re.sub(r"^( +for:) \S+$", r"\1 0s", read(os.path.join(FOLDER, name)), flags=re.MULTILINE))
    return made


def answer_of(cluster, path):
    """Returns the data of an answer of Prometheus's API. Asks until there is one."""
    answers = []

    def is_answered():
        with contextlib.suppress(OSError):
            answers.append(web.request(cluster.ports.base + metrics.PROMETHEUS_OFFSET, path))
        return answers and answers[-1].status == 200
    metrics.wait_for(f"Prometheus answers {path}", is_answered)
    return json.loads(answers[-1].text)["data"]


def result_of(evaluate, expression):
    """Returns the result of an expression that `evaluate` of metrics.prometheus() gives. Asks until there is one."""
    results = []

    def is_answered():
        results.append(evaluate(expression))
        return results[-1] is not None
    metrics.wait_for(f"Prometheus evaluates {expression}", is_answered)
    return results[-1]


def firing(cluster):
    """Returns the alerts that fire, as (name, instance); instance is "" for an alert of the whole cluster."""
    return {(alert["labels"]["alertname"], alert["labels"].get("instance", ""))
            for alert in answer_of(cluster, "/api/v1/alerts")["alerts"] if alert["state"] == "firing"}


def rules_are_evaluated(cluster):
    """Returns whether all rules have been evaluated; raises if one has an error."""
    rules = [rule for group in answer_of(cluster, "/api/v1/rules")["groups"] for rule in group["rules"]]
    wrong = [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] == "err"]
    assert not wrong, wrong
    return len(rules) > len(alert_names()) and all(rule["health"] == "ok" for rule in rules)


@contextlib.contextmanager
def watched(cluster):
    """Runs Prometheus with the rules over the cluster. Yields the function that evaluates an expression."""
    with metrics.prometheus(cluster, rules_without_delay(cluster), {"cluster": CLUSTER}) as evaluate:
        metrics.wait_for("all members are up",
                         lambda: sorted((evaluate("up") or {}).values()) == [1.0] * len(cluster.numbers()))
        yield evaluate


def test_a_killed_member_raises_alerts_that_end_when_it_is_back():
    with harness.Cluster("quorate", 3, web.STEADY) as cluster, watched(cluster):
        web.await_serving(cluster)
        leader = cluster.leader()
        victim = cluster.others(leader)[0]
        name = {i: f"{harness.HOST}:{web.port(cluster, i)}" for i in cluster.numbers()}
        expected = {("QuorateMemberDown", name[victim]), ("QuorateFollowersNotSynced", name[leader]),
                    ("QuorateNoFailureTolerated", "")}
        no_leader = ("QuorateNoLeader", "")
        metrics.wait_for("none of the alerts fires before",
                         lambda: rules_are_evaluated(cluster) and not (expected | {no_leader}) & firing(cluster))
        cluster.kill(victim)
        metrics.wait_for("the alerts of a dead member fire", lambda: expected <= firing(cluster))
        other = cluster.others(leader, victim)[0]
        cluster.kill(other)
        metrics.wait_for("the alert of a lost majority fires", lambda: no_leader in firing(cluster))
        cluster.restart(victim)
        cluster.restart(other)
        names = {alert for alert, _ in expected} | {"QuorateNoLeader", "QuorateMemberNotReady", "QuorateTwoLeaders"}
        metrics.wait_for("the alerts end", lambda: not names & {alert for alert, _ in firing(cluster)})
        assert rules_are_evaluated(cluster)
        assert "QuorateRestartLoop" not in {alert for alert, _ in firing(cluster)}, "a member was restarted just once"


def test_a_certificate_that_expires_tomorrow_raises_both_alerts():
    with place() as made:
        made.server = made.authority.issue("server", "server", "/O=Example/CN=server", days=1)
        settings = https.https_settings(made, admin__portUnification="true")
        with harness.Cluster("quorate", 1, settings) as cluster, watched(cluster):
            instance = f"{harness.HOST}:{web.port(cluster)}"
            expected = {("QuorateCertificateExpires", instance), ("QuorateCertificateExpiresNow", instance)}
            metrics.wait_for("the alerts fire", lambda: expected <= firing(cluster))


def test_a_full_disk_raises_alerts_that_end_when_there_is_space():
    with full_disk.DiskCluster("quorate", 1) as cluster, watched(cluster):
        instance = f"{harness.HOST}:{web.port(cluster)}"
        full = {("QuorateDiskFull", instance), ("QuorateWritesRefused", instance)}
        metrics.wait_for("all rules are evaluated", lambda: rules_are_evaluated(cluster))
        assert not full & firing(cluster)
        cluster.disks[1].fill(full_disk.LEFT_BYTES)
        metrics.wait_for("the alerts fire", lambda: full <= firing(cluster))
        cluster.disks[1].free_space()
        metrics.wait_for("the alerts end", lambda: not full & firing(cluster))


def test_try_shows_an_alert_and_leaves_nothing_behind():
    ports = harness.Reservation(3)
    directory = tempfile.mkdtemp(prefix="quorate-try-")
    try:
        problem, output = harness.run_in_group([os.path.join(FOLDER, "try"), "--base-port", str(ports.base)], TRY_SECONDS,
                                               directory, TRY_LINES)
        assert not problem, f"{problem}\n{output}"
        assert "firing: QuorateMemberDown (warning)" in output and "QuorateMemberDown has ended" in output, output
        assert not os.listdir(directory), os.listdir(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        ports.release()


def dashboard():
    return json.loads(read(DASHBOARD))


def dashboard_queries():
    return [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ())]


def test_the_dashboard_takes_its_data_source_from_a_variable():
    board = dashboard()
    variables = {variable["name"]: variable["type"] for variable in board["templating"]["list"]}
    assert variables == {"datasource": "datasource", "cluster": "query", "instance": "query"}, variables
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        if panel["type"] == "row":
            continue
        for part in (panel, *panel["targets"]):
            assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]
        place_ = panel["gridPos"]
        assert place_["x"] + place_["w"] <= 24, panel["title"]


def queries():
    """Returns [query, why it returns nothing here or None] of our dashboard and of those for ZooKeeper."""
    ours = [(query, next((why for part, why in EMPTY.items() if part in query), None)) for query in dashboard_queries()]
    theirs = [(entry["query"], entry.get("empty")) for entry in json.loads(read(ZOOKEEPER_QUERIES))]
    assert len(ours) > 60 and len(theirs) > 60
    return ours + theirs


def test_the_queries_of_the_dashboards_have_data():
    with harness.Cluster("quorate", 3, web.STEADY) as cluster, watched(cluster) as evaluate:
        web.await_serving(cluster)
        for member in cluster.numbers():
            with zk.Connection(cluster.address(member)) as connection:
                connection.call(zk.CREATE, zk.request_create(f"/by-{member}", b"x"))
        wanted = []
        for query, empty in queries():
            for name, value in VARIABLES.items():
                query = query.replace(name, value)
            wanted.append((query, empty))
        missing = [query for query, empty in wanted if not empty]

        def all_have_data():
            missing[:] = [query for query in missing if not evaluate(query)]
            return not missing
        try:
            # rate() needs two scrapes of each member.
            metrics.wait_for("all queries have data", all_have_data)
        except AssertionError as error:
            raise AssertionError(f"queries without data: {missing}") from error
        unexpected = [(query, empty) for query, empty in wanted
                      if empty and result_of(evaluate, query) and empty not in ON_A_FAST_MACHINE]
        assert not unexpected, f"queries with data that are expected to have none: {unexpected}"
        return f"{len(wanted)} queries"
