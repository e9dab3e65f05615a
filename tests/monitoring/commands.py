# SPDX-License-Identifier: Apache-2.0
"""Compares the commands over HTTP with those of Debian's ZooKeeper: names, fields, their order, and kinds of values."""

import json
import os
import re
import subprocess

import harness
import web
import zkwire as zk

SERVER = os.environ.get("QUORATED", harness.SERVERS["quorate"])
# What only Java has, and what differs by nature: lists of properties, of metrics, and of the environment.
OPEN_ENDED = ("environment", "system_properties", "monitor", "initial_configuration")
# What only Quorate has.
OWN = ("latencies", "slow_requests", "top_requests")
# What ZooKeeper has since 3.9, and Debian's does not.
NEWER = ("restore", "snapshot")
# ZooKeeper shows a digest only each 128 changes; its addresses have ten ways to say the same; and the order of the
# fields of its beans changes from one start to the next.
KNOWN_DIFFERENCES = {
    ("hash", "digests"), ("zabstate", "quorum_address"), ("zabstate", "election_address"),
}


def shape(value, command, path=()):
    """Returns the keys and the kinds of values, without what depends on the moment."""
    if (command, *path) in KNOWN_DIFFERENCES:
        return "..."
    if isinstance(value, dict):
        # Keys that are ids or times stand for themselves; those of beans are unordered.
        if value and all(key.lstrip("-").isdigit() or key.startswith("/") for key in value):
            # ZooKeeper keeps, for a while, times at which no session expires any longer.
            known = next((one for one in value.values() if one), next(iter(value.values())))
            return {"(id)": shape(known, command, (*path, "(id)"))}
        return {key: shape(value[key], command, (*path, key)) for key in sorted(value)}
    if isinstance(value, list):
        return [shape(value[0], command, path)] if value else []
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return type(value).__name__
    return "number"


def zookeeper(size):
    return harness.Cluster("zookeeper", size, ["admin.serverAddress=127.0.0.1"],
                           environment={"ZOOKEEPER_ADMIN_SERVER": "1"})


def primary_names(cluster):
    text = web.get(cluster, "/commands").text
    return [line.split(">")[1].split("<")[0] for line in text.splitlines() if line.startswith("<a ")]


def with_client(cluster, member):
    """Opens a session that has an ephemeral and a watch."""
    connection = zk.Connection(cluster.address(member))
    connection.call(zk.CREATE, zk.request_create(f"/watched-{member}", b"x", 1))
    connection.call(4, zk.request_path_watch(f"/watched-{member}", True))
    return connection


def shapes(cluster, member):
    """Returns {command: its shape, and its top-level fields in their order}."""
    found = {}
    with with_client(cluster, member):
        for name in primary_names(cluster):
            if name in NEWER:
                continue
            fields = web.command(cluster, name + "?traceMask=9", member)
            assert list(fields)[-2:] == ["command", "error"] or "error" in list(fields)[:1], (name, fields)
            if name not in OPEN_ENDED:
                found[name] = list(fields), shape(fields, name)
    return found


def compare(size):
    with zookeeper(size) as theirs, harness.Cluster("quorate", size, web.STEADY) as ours:
        web.await_serving(ours)
        theirs.wait_until("ZooKeeper serves", lambda: all(
            web.command(theirs, "srvr", i)["error"] is None for i in theirs.numbers()))
        assert [name for name in primary_names(ours) if name not in OWN + NEWER] == primary_names(theirs)
        assert set(OWN + NEWER) <= set(primary_names(ours))
        pairs = [(ours.leader(), theirs.leader())]
        if size > 1:
            pairs.append((ours.followers()[0], theirs.followers()[0]))
        for own, other in pairs:
            expected, got = shapes(theirs, other), shapes(ours, own)
            for name in expected:
                assert got[name] == expected[name], f"{name}:\n{got[name]}\n{expected[name]}"
        # What monitoring reads is there under the same name.
        for own, other in pairs:
            missing = set(web.command(theirs, "monitor", other)) - set(web.command(ours, "monitor", own))
            # Sets of summaries have one for each namespace or follower.
            missing = {name for name in missing if not re.search(r"_per_namespace$|_\d_learner_handler_|_\d_ack_", name)}
            assert not missing, missing
        return f"{len(expected)} commands"


def test_a_server_alone_answers_as_zookeeper():
    return compare(1)


def test_the_members_of_a_cluster_answer_as_zookeepers():
    return compare(3)


def shared_aliases_heads_and_paths_are_zookeepers(cluster):
    text = web.get(cluster, "/commands/ruok").text
    assert text == '{\n  "command" : "ruok",\n  "error" : null\n}', text
    for alias, name in (("mntr", "monitor"), ("cons", "connections"), ("config", "configuration"),
                        ("isro", "is_read_only"), ("lsnp", "last_snapshot"), ("lead", "leader")):
        assert web.command(cluster, alias)["command"] == name
    head = web.get(cluster, "/commands/ruok", method="HEAD")
    assert (head.status, head.text, head.headers["Content-Length"]) == (200, "", str(len(text))), head
    for method, status in (("TRACE", 403), ("POST", 405), ("PUT", 405), ("DELETE", 405)):
        assert web.get(cluster, "/commands/ruok", method=method).status == status, method
    assert web.get(cluster, "/commands/nope").status == 200
    assert web.command(cluster, "nope")["error"] == "Unknown command: nope"
    assert web.get(cluster, "/nope").status == 404
    # As the probe of a well-known chart does.
    probe = f"curl -s {harness.HOST}:{web.port(cluster)}/commands/ruok | grep error | grep null"
    assert subprocess.run(probe, shell=True, capture_output=True, check=False).returncode == 0


def shared_monitor_agrees_with_mntr(cluster):
    member = cluster.leader()
    words = cluster.monitor(member)
    fields = web.command(cluster, "monitor", member)
    assert set(words) <= set(fields), set(words) - set(fields)
    for name in ("znode_count", "quorum_size", "synced_followers", "max_file_descriptor_count", "server_state", "version"):
        assert str(fields[name]) == words[name], name


def shared_statistics_are_reset(cluster):
    with zk.Connection(cluster.address(1)) as connection:
        connection.call(zk.CREATE, zk.request_create("/reset-statistics", b"x"))
        assert web.command(cluster, "srvr")["server_stats"]["packets_received"] > 0
        assert web.command(cluster, "srst")["error"] is None
        assert web.command(cluster, "srvr")["server_stats"]["packets_received"] == 0


def test_a_port_that_is_taken_ends_the_server_with_status_4():
    with harness.Cluster("quorate", 1) as cluster:
        place = cluster.member_dir(1)
        config = f"{cluster.parent}/second.cfg"
        with open(config, "w", encoding="ascii") as file:
            file.write(f"dataDir={cluster.parent}/second\nclientPort={cluster.ports.base + 50}\n"
                       f"clientPortAddress={harness.HOST}\nadmin.serverAddress={harness.HOST}\n"
                       f"admin.serverPort={web.port(cluster)}\n")
        ended = subprocess.run([SERVER, config], capture_output=True, text=True, timeout=60,
                               check=False)
        assert ended.returncode == 4, (ended.returncode, ended.stdout, place)
        assert "set admin.serverPort to a free port" in ended.stdout, ended.stdout
        with open(config, "a", encoding="ascii") as file:
            file.write("admin.enableServer=false\n")
        process = subprocess.Popen([SERVER, config], stdout=subprocess.PIPE, text=True)
        try:
            assert any("listening for ZooKeeper clients" in line for line in process.stdout)
        finally:
            process.terminate()
            process.wait()


def shared_a_field_with_bytes_of_clients_is_escaped(cluster):
    path = '/"quotes"\\\u00e4'
    with zk.Connection(cluster.address(1)) as connection:
        connection.call(zk.CREATE, zk.request_create(path, b"x", 1))
        paths = web.command(cluster, "dump")["session_id_to_ephemeral_paths"]
        assert [path] in list(paths.values()), json.dumps(paths)
