# SPDX-License-Identifier: Apache-2.0
"""Tests the log lines about ordinary events: sessions, connections and leader changes."""

import json
import re

import harness
import web
import zkwire as zk

# What a line of log.format=json has, and in which form.
JSON_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
JSON_EVENT = re.compile(r"[a-z_]+$")
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d (debug|info|warning|error|critical) \S")
SETTINGS = ["tickTime=500", "minSessionTimeout=1000"]


def _wait_for(cluster, members, pattern):
    """Waits until the log of one of `members` has a line that matches `pattern`."""
    cluster.wait_until(f"logged: {pattern}", lambda: any(re.search(pattern, cluster.log(i)) for i in members))


def test_sessions_that_open_move_and_expire_are_in_the_log():
    with harness.Cluster(settings=SETTINGS) as cluster:
        leader = cluster.leader()
        one, other = cluster.others(leader)
        with zk.Connection(cluster.address(one), timeout_ms=10000) as connection:
            session = connection.session
            opened = rf"info session opened session=0x{session[0]:x} timeout_ms=10000$"
            cluster.wait_until("the session is opened", lambda: re.search(opened, cluster.log(one), re.M))
            with zk.Connection(cluster.address(other), session=session):
                moved = rf"info session moved to this server session=0x{session[0]:x} timeout_ms=\d+$"
                cluster.wait_until("the session is moved", lambda: re.search(moved, cluster.log(other), re.M))
                assert not re.search(opened, cluster.log(other), re.M)
        silent = zk.Connection(cluster.address(one), timeout_ms=1000)
        number = silent.session[0]
        silent.abandon()
        _wait_for(cluster, cluster.numbers(), rf"info session expires: .* session=0x{number:x}\n")


def test_leaders_and_connections_that_come_and_go_are_in_the_log():
    with harness.Cluster(settings=SETTINGS) as cluster:
        base = cluster.ports.base
        for one in cluster.numbers():
            for other in cluster.others(one):
                _wait_for(cluster, [one], rf"info connected to server {other} at 127.0.0.1:{base + 200 + other}\n")
        leader = cluster.leader()
        others = cluster.others(leader)
        cluster.command("pause", leader)
        _wait_for(cluster, others, rf"warning no leader \(term \d+\): server {leader}, which led, was silent for \d+ ms\n")
        cluster.wait_until("another leader", lambda: cluster.command("leader", check=False).stdout.strip() in
                           map(str, others))
        cluster.command("resume", leader)
        cluster.restart(leader)
        leader = cluster.leader()
        others = cluster.others(leader)
        cluster.kill(leader)
        for one in others:
            _wait_for(cluster, [one], rf"info connection to server {leader} at \S+ lost: ")
        # The line depends on what the member notices first.
        _wait_for(cluster, others, rf"no leader \(term \d+\): (the connection to server {leader}, which led, is lost: |"
                                   rf"server {leader}, which led, was silent|another server .* of server {leader}\n)")
        for member in cluster.numbers():
            for line in cluster.log(member).splitlines():
                assert LINE.match(line), line


def _json_lines(cluster):
    """Returns the lines of all members, after a check of their form."""
    lines = []
    for member in cluster.numbers():
        for line in cluster.log(member).splitlines():
            entry = json.loads(line)
            assert list(entry)[:4] == ["time", "level", "event", "message"] and set(entry) <= {
                "time", "level", "event", "message", "fields"}, line
            assert JSON_TIME.match(entry["time"]) and JSON_EVENT.match(entry["event"]), line
            assert entry["level"] in ("info", "warning", "error", "critical"), line
            assert all(isinstance(value, str) for value in entry.get("fields", {}).values()), line
            lines.append(entry)
    return lines


def test_each_line_is_an_object_with_a_stable_event():
    with harness.Cluster(settings=[*SETTINGS, "log.format=json"]) as cluster:
        web.await_serving(cluster)
        leader = cluster.leader()
        with zk.Connection(cluster.address(leader), timeout_ms=10000) as connection:
            number = connection.session[0]
        cluster.wait_until("the session is logged", lambda: f"0x{number:x}" in cluster.log(leader))
        cluster.kill(leader)
        cluster.wait_until("another leader", lambda: cluster.command("leader", check=False).stdout.strip() in
                           map(str, cluster.others(leader)))
        cluster.restart(cluster.others(leader)[0])
        lines = _json_lines(cluster)
        events = [line["event"] for line in lines]
        for event in ("program_started", "server_starting", "listening_zookeeper", "listening_grpc", "session_opened",
                      "leading", "following", "stopped"):
            assert event in events, (event, sorted(set(events)))
        # Every message has a name, except for the line that says who is an administrator.
        others = [line["message"] for line in lines if line["event"] == "other"]
        assert others and all(text.startswith("no administrators are configured") for text in others), others
        opened = [line["fields"] for line in lines if line["event"] == "session_opened"]
        assert {"session": f"0x{number:x}", "timeout_ms": "10000"} in opened, opened
