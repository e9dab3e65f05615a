# SPDX-License-Identifier: Apache-2.0
"""Tests `quorate doctor` and `quorate top` with real servers."""

import json
import subprocess

import harness
import quorate_cli
import server as servers
import web
import zkwire as zk

JUST_STARTED = "was started"


def _doctor(where, *arguments):
    """Returns the exit status, and the findings without those of servers that were started just now, as all were."""
    status, output, errors = servers.quorate("--server", where, "--json", "doctor", "--seconds", 1, *arguments)
    assert not errors, errors
    answer = json.loads(output)
    assert all(finding["advice"] for finding in answer["findings"]), answer
    return status, answer, [finding for finding in answer["findings"] if JUST_STARTED not in finding["what"]]


def test_the_doctor_finds_nothing_in_a_good_cluster_and_names_what_is_wrong():
    with harness.Cluster(settings=web.STEADY) as cluster:
        where = cluster.command("grpc")
        leader = cluster.leader()
        victim = cluster.others(leader)[0]

        def is_healthy():
            status, answer, findings = _doctor(where)
            return status == 3 and answer["answered"] == 3 and not findings
        cluster.wait_until("nothing is wrong", is_healthy)

        cluster.kill(victim)
        seen = []

        def is_missed():
            seen[:] = _doctor(where)
            names = {(finding["severity"], finding["subject"]) for finding in seen[2]}
            return {("problem", f"127.0.0.1:{cluster.ports.base + 100 + victim}"), ("problem", f"member {victim}"),
                    ("warning", "the cluster")} <= names
        cluster.wait_until("the member is missed", is_missed)
        assert seen[0] == 1 and (seen[1]["asked"], seen[1]["answered"]) == (3, 2), seen
        status, output, _ = servers.quorate("--server", where, "doctor", "--seconds", 1)
        assert status == 1 and "PROBLEM  " in output and "one more loss stops all writes" in output, output

        cluster.restart(victim)
        cluster.wait_until("nothing is wrong again", is_healthy)

        def is_told():
            """A doctor that asks one server only names the members that it did not ask."""
            _, answer, findings = _doctor(cluster.grpc(cluster.leader()))
            return answer["asked"] == 1 and [one["what"] for one in findings] == ["was not asked"] * 2
        cluster.wait_until("other members are missed", is_told)


def test_top_shows_what_clients_do():
    with harness.Cluster(settings=web.STEADY) as cluster:
        where = cluster.command("grpc")
        leader = cluster.leader()
        with zk.Connection(cluster.address(leader)) as connection:
            process = subprocess.Popen([quorate_cli.PROGRAM, "--server", where, "--json", "top", "--interval", "1"],
                                       stdout=subprocess.PIPE, text=True)
            try:
                rates = {}
                while rates.get("writes_per_second", 0) < 10 or rates.get("reads_per_second", 0) < 10:
                    for i in range(50):
                        connection.call(zk.CREATE, zk.request_create("/top-", b"x", 2))
                        connection.call(zk.EXISTS, zk.request_path_watch("/", False))
                    page = json.loads(process.stdout.readline())
                    rates = {name: value for name, value in page["servers"][leader - 1].items() if value is not None}
                    assert rates["member"] == leader, page
                    assert {one["role"] for one in page["servers"]} == {"leader", "follower"}, page
                assert rates["connections"] >= 1 and "write_p99_ms" in rates and rates["memory_bytes"] > 0, rates
            finally:
                process.kill()
                process.communicate()
        status, output, _ = servers.quorate("--server", where, "top", "--count", 1, "--interval", 1)
        assert status == 0 and f"leader {leader}" in output and "WRITES/S" in output, output
        status, _, errors = servers.quorate("--server", "127.0.0.1:1", "top", "--count", 1)
        assert status == 1 and "none of the servers answered" in errors, errors
