# SPDX-License-Identifier: Apache-2.0
"""Tests who is shown as sending the most requests: by `quorate top`, over HTTP, and in metrics."""

import json

import harness
import server as servers
import web
import zkwire as zk

REQUESTS = 300


def _top(where):
    status, output, errors = servers.quorate("--server", where, "--json", "top", "--count", 1, "--interval", 1)
    assert status == 0 and not errors, errors
    return json.loads(output)


def _flood(connection, path, requests):
    for _ in range(requests):
        connection.call(zk.GET_DATA, zk.request_path_watch(path, False))


def test_who_floods_is_named_with_its_session_and_its_paths():
    with harness.Cluster(settings=web.STEADY) as cluster:
        web.await_serving(cluster)
        with zk.Connection(cluster.address(1)) as busy, zk.Connection(cluster.address(2)) as quiet:
            for path in ("/flood", "/flood/jobs", "/flood/jobs/one"):
                busy.call(zk.CREATE, zk.request_create(path, b"x"))
            _flood(busy, "/flood/jobs/one", REQUESTS)
            quiet.call(zk.CREATE, zk.request_create("/quiet", b"x"))
            where = cluster.grpc(*cluster.numbers())
            shown = _top(where)
            first = shown["busiest_clients"][0]
            assert (first["member"], first["session"]) == (1, f"0x{busy.session[0]:x}"), shown
            # A minute has at most 70 s here, because it is counted by steps of 10 s.
            assert first["per_second"] >= REQUESTS / 71, first
            assert shown["hottest_paths"][0]["name"] == "/flood/jobs", shown
            assert f"0x{quiet.session[0]:x}" in [one["session"] for one in shown["busiest_clients"][1:]], shown
            status, output, _ = servers.quorate("--server", where, "top", "--count", 1, "--interval", 1)
            assert status == 0 and "CLIENT " in output and "/flood/jobs  " in output, output
        answer = web.command(cluster, "top_requests")
        assert answer["clients"][0]["session"] == f"0x{busy.session[0]:x}", answer
        assert [one["name"] for one in answer["operations"]][0] == "getData", answer
        assert answer["paths"][0]["name"] == "/flood/jobs" and answer["per_second"] >= REQUESTS / 71, answer
        text = web.get(cluster, "/metrics").text
        rates = [float(line.split()[1]) for line in text.splitlines()
                 if line.startswith("quorate_top_client_requests_per_second{rank=\"1\"} ")]
        assert len(rates) == 1 and rates[0] >= REQUESTS / 71, rates
        # Names are for administrators, and metrics are for everyone.
        assert "/flood" not in text, text


def test_the_latencies_of_the_last_minutes_count_what_was_requested():
    with harness.Cluster(size=1) as cluster:
        web.await_serving(cluster)
        with zk.Connection(cluster.address(1)) as connection:
            connection.call(zk.CREATE, zk.request_create("/a", b"x"))
            _flood(connection, "/a", REQUESTS)
        minute, five = web.command(cluster, "latencies")["windows"]
        assert (minute["seconds"], five["seconds"]) == (60, 300), (minute, five)
        for window in (minute, five):
            assert window["reads"]["count"] == REQUESTS and window["writes"]["count"] >= 1, window
            writes = window["writes"]
            assert 0 < writes["avg_ms"] <= writes["max_ms"] and writes["p50_ms"] <= writes["p99_ms"] <= writes["max_ms"], window
        words = dict(line.split("\t") for line in zk.four_letter(cluster.address(1), "mntr").splitlines())
        assert int(words["zk_quorate_write_latency_1m_max_us"]) > 0, words
        assert float(words["zk_quorate_requests_1m_per_second"]) > 0, words
