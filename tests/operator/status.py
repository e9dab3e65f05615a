# SPDX-License-Identifier: Apache-2.0
"""Tests `quorate status` and its exit status."""

import json
import os

import harness
import server as servers


def _servers(cluster):
    return cluster.command("grpc")


def test_the_exit_status_tells_healthy_degraded_and_leaderless_clusters_apart():
    with harness.Cluster() as cluster:
        status, output, errors = servers.quorate("--server", _servers(cluster), "status")
        assert (status, errors) == (0, ""), (status, output, errors)
        leader = cluster.leader()
        down, last = cluster.others(leader)
        cluster.kill(down)
        status, output, errors = servers.quorate("--server", _servers(cluster), "--json", "status")
        assert status == 3, (status, output, errors)
        assert ["error" in one for one in json.loads(output)["servers"]] == [i == down for i in (1, 2, 3)]
        cluster.kill(last)
        cluster.wait_until("the cluster has no leader", lambda: cluster.command("leader", check=False).returncode != 0)
        status, output, errors = servers.quorate("--server", _servers(cluster), "status")
        assert status == 1 and "the cluster has no leader" in errors, (status, output, errors)
        cluster.kill(leader)
        status, output, errors = servers.quorate("--server", _servers(cluster), "status")
        assert status == 1 and "none of the servers answered" in errors, (status, output, errors)


def test_servers_can_be_named_in_the_environment_and_errors_are_json_on_request():
    nobody = {"QUORATE_SERVER": "127.0.0.1:1"}
    status, output, errors = servers.quorate("status", environment=nobody)
    assert status == 1 and "127.0.0.1:1" in output and "none of the servers answered" in errors, errors
    status, output, errors = servers.quorate("--json", "status", environment=nobody)
    error = json.loads(errors)["error"]
    assert status == 1 and error["command"] == "quorate status" and error["code"] == "UNAVAILABLE", error
    assert json.loads(output)["servers"][0]["server"] == "127.0.0.1:1"


def test_a_client_port_in_place_of_a_grpc_port_is_named_at_once():
    with harness.Cluster(size=1) as cluster:
        where = cluster.address(1)
        for words, wanted in ((("shell", "ls", "/"), 2), (("status",), 1), (("members",), 1)):
            status, _, errors = servers.quorate("--server", where, *words)
            assert status == wanted, (status, errors)
            assert f"{where} is a port for ZooKeeper clients (clientPort); --server takes gRPC ports" in errors, errors


def test_it_names_the_setting_of_a_member_that_holds_the_cluster_version_back():
    kept = 9
    with harness.Cluster(settings=[f"clusterVersionMax={kept}"]) as cluster:
        def answers():
            _, output, errors = servers.quorate("--server", _servers(cluster), "--json", "status")
            assert errors == "", errors
            return json.loads(output)["servers"]
        newest = {one["program_version"] for one in answers()}.pop()
        assert newest > kept, newest
        for member in (1, 2):
            path = os.path.join(cluster.member_dir(member), "zoo.cfg")
            with open(path, encoding="utf-8") as file:
                lines = file.readlines()
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(line for line in lines if not line.startswith("clusterVersionMax="))
            cluster.restart(member)
        wanted = (f"The cluster version is {kept}; version {newest} waits until it is understood by member 3. "
                  f"Member 3 is kept at version {kept} by clusterVersionMax.\n")
        cluster.wait_until("the status names the member and its setting",
                           lambda: wanted in servers.quorate("--server", _servers(cluster), "status")[1])
