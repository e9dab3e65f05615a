# SPDX-License-Identifier: Apache-2.0
"""Tests `quorate status` and its exit status."""

import json

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
