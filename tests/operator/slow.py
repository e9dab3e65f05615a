# SPDX-License-Identifier: Apache-2.0
"""Tests `quorate slow`: it names the stage in which slow requests have spent their time."""

import json

import administration
import server as servers
import web
import zkwire as zk
from disk_control import slow_disk_cluster

# A sync takes between half of this time and all of it.
SYNC_MS = 400
SLOW = 1  # the member whose disk is slow


def _slow(where, *arguments):
    status, output, errors = servers.quorate("--server", where, "--json", "slow", *arguments)
    assert status == 0 and not errors, errors
    return json.loads(output)


def _write_slowly(cluster, control, member, path):
    """Writes at `member` while the disk is slow. Returns what `quorate slow` shows of that write."""
    control.set(sync_ms=SYNC_MS)
    try:
        with zk.Connection(cluster.address(member)) as connection:
            # Opening the session was slow, too, but that is not among the requests that are recorded.
            connection.call(zk.CREATE, zk.request_create(path, b"x"))
    finally:
        control.set()
    shown = _slow(cluster.grpc(*cluster.numbers()), "--member", member)["requests"]
    found = [request for request in shown if request["path"] == path]
    assert len(found) == 1, found
    request = found[0]
    assert (request["member"], request["operation"]) == (member, "create"), request
    # Each stage is rounded down.
    stages = request["stages_us"]
    assert 0 <= request["us"] - sum(stages.values()) < len(stages) and request["us"] >= SYNC_MS * 1000 / 2, request
    return request


def test_the_log_write_of_a_server_with_a_slow_disk_is_named():
    with slow_disk_cluster(SLOW, 1, web.STEADY) as (cluster, control):
        where = cluster.command("grpc")
        with zk.Connection(cluster.address(1)) as connection:
            connection.call(zk.CREATE, zk.request_create("/fast", b"x"))
        request = _write_slowly(cluster, control, 1, "/slow")
        assert request["longest_stage"] == "log_write", request
        assert request["stages_us"]["log_write"] >= SYNC_MS * 1000 / 2, request
        assert list(request["stages_us"]) == ["queue", "log_write", "commit", "apply", "answer"], request
        status, output, _ = servers.quorate("--server", where, "slow")
        line = next(line for line in output.splitlines() if line.endswith("  /slow"))
        assert status == 0 and "  log_write  " in line and "  create  " in line, output
        assert "ms or longer since its start" in output, output
        # The same over HTTP, and as metrics.
        answer = web.command(cluster, "slow_requests")
        assert [one["longest_stage"] for one in answer["requests"] if one["path"] == "/slow"] == ["log_write"], answer
        assert answer["counts"]["create"] >= 1 and answer["threshold_ms"] == 100, answer
        text = web.get(cluster, "/metrics").text
        for sample in ('quorate_slow_requests_total{operation="create"} ', 'quorate_request_stage_seconds_count{stage="apply"} ',
                       'quorate_request_stage_p99_1m_seconds{stage="log_write"} ',
                       'quorate_request_stage_p99_5m_seconds{stage="log_write"} '):
            assert sample in text, sample
        seconds = float(text.split('quorate_request_stage_p99_1m_seconds{stage="log_write"} ')[1].split()[0])
        assert seconds >= SYNC_MS / 2000, seconds
        status, _, errors = servers.quorate("--server", where, "slow", "--member", "9")
        assert status == 1 and "member 9 is none of the servers that answer" in errors, errors


def test_the_leaders_disk_and_that_of_a_follower_are_told_apart():
    with slow_disk_cluster(SLOW, 3, web.STEADY) as (cluster, control):
        others = cluster.others(SLOW)

        def lead(member):
            """Makes `member` lead."""
            if cluster.leader() != member:
                administration.transfer_leadership(cluster.grpc(cluster.leader()), member)
            return cluster.leader() == member
        cluster.wait_until("another member leads", lambda: lead(others[0]))
        # From now on, each write needs the slow disk.
        cluster.kill(others[1])
        request = _write_slowly(cluster, control, others[0], "/follower-is-slow")
        assert request["longest_stage"] == "commit", request
        cluster.wait_until("the slow member leads", lambda: lead(SLOW))
        request = _write_slowly(cluster, control, SLOW, "/leader-is-slow")
        assert request["longest_stage"] == "log_write", request
        # A follower does not know the stages at its leader.
        request = _write_slowly(cluster, control, others[0], "/seen-by-a-follower")
        assert request["longest_stage"] == "commit" and "log_write" not in request["stages_us"], request
        # All members that answer are shown together, in the order of the answers, and the one that does not is named.
        status, output, _ = servers.quorate("--server", cluster.grpc(*cluster.numbers()), "slow")
        shown = [path for path in (line.rsplit(" ", 1)[-1] for line in output.splitlines()) if path.startswith("/")]
        assert status == 0 and shown == ["/follower-is-slow", "/leader-is-slow", "/seen-by-a-follower"], output
        assert cluster.grpc(others[1]) + ": " in output, output


def test_nothing_is_recorded_with_a_threshold_of_0():
    with slow_disk_cluster(SLOW, 1, [*web.STEADY, "slowRequestThresholdMs=0"]) as (cluster, control):
        control.set(sync_ms=SYNC_MS)
        with zk.Connection(cluster.address(1)) as connection:
            connection.call(zk.CREATE, zk.request_create("/slow", b"x"))
        control.set()
        answer = _slow(cluster.command("grpc"))
        assert answer["requests"] == [] and answer["servers"][0]["threshold_ms"] == 0, answer
        _, output, _ = servers.quorate("--server", cluster.command("grpc"), "slow")
        assert "member 1: slow requests are not recorded (slowRequestThresholdMs=0)" in output, output
