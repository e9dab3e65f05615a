# SPDX-License-Identifier: Apache-2.0
"""Tests the paths of health while members are killed and come back."""

import harness
import web


def status(cluster, member, path):
    return web.get(cluster, f"/health/{path}", member).status


def test_health_follows_the_state_of_the_cluster():
    with harness.Cluster("quorate", 3, web.STEADY) as cluster:
        web.await_serving(cluster)
        leader = cluster.leader()
        first, second = cluster.others(leader)
        for member in cluster.numbers():
            assert status(cluster, member, "live") == status(cluster, member, "startup") == 200
            head = web.get(cluster, "/health/ready", member, method="HEAD")
            assert head.status == 200 and not head.text
        cluster.wait_until("the leader may stop", lambda: status(cluster, leader, "safe-to-stop") == 200)
        cluster.wait_until("a follower may stop",
                           lambda: status(cluster, leader, f"safe-to-stop?member={first}") == 200)
        # A follower does not know how far the others are.
        answer = web.get(cluster, "/health/safe-to-stop", first)
        assert answer.status == 503 and f"ask member {leader}, with ?member={first}" in answer.text, answer

        cluster.kill(first)
        cluster.wait_until("nobody else may stop", lambda: status(cluster, leader, "safe-to-stop") == 503)
        reason = "1 voters are up to date, and 2 of 3 are needed"
        cluster.wait_until("the leader says why", lambda: reason in web.get(
            cluster, f"/health/safe-to-stop?member={second}", leader).text)
        assert status(cluster, leader, f"safe-to-stop?member={second}") == 503
        assert status(cluster, leader, "ready") == 200

        cluster.kill(second)
        cluster.wait_until("without a majority it is not ready", lambda: status(cluster, leader, "ready") == 503)
        assert status(cluster, leader, "live") == 200
        cluster.restart(first)
        cluster.wait_until("with a majority it is ready", lambda: status(cluster, leader, "ready") == 200)
        cluster.restart(second)
        web.await_serving(cluster)


def test_the_only_server_is_ready_and_never_safe_to_stop():
    with harness.Cluster("quorate", 1) as cluster:
        web.await_serving(cluster)
        answer = web.get(cluster, "/health/safe-to-stop")
        assert (answer.status, answer.text) == (503, "it is the only server\n"), answer
