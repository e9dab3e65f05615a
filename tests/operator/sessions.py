# SPDX-License-Identifier: Apache-2.0
"""Tests `quorate sessions`: administrators list, show and close the sessions of clients."""

import json

import harness
import server as servers
import zkwire as zk

PATIENCE_SECONDS = 15
EPHEMERAL = 1


def _sessions(cluster, *words):
    """Runs `quorate --json sessions` against all members. Returns (exit status, the document or None, errors)."""
    status, output, errors = servers.quorate("--json", "--server", cluster.command("grpc"), "sessions", *words)
    return status, json.loads(output) if output else None, errors


def _listed(cluster):
    """Returns {id: session} of all sessions."""
    status, document, errors = _sessions(cluster, "list")
    assert status == 0 and not document["more"], errors
    return {int(session["id"], 16): session for session in document["sessions"]}


def test_sessions_are_listed_shown_and_closed_whichever_member_serves_them():
    with harness.Cluster() as cluster, zk.Connection(cluster.address(1)) as one, zk.Connection(cluster.address(2)) as two:
        one.call(zk.AUTH, zk.request_auth("digest", b"alice:wonder"), xid=-4)
        one.call(zk.CREATE, zk.request_create("/mine", b"", EPHEMERAL))
        one.exists("/mine", watch=True)
        two.call(zk.CREATE, zk.request_create("/other", b"", EPHEMERAL))
        listed = _listed(cluster)
        shown = listed[one.session_id]
        assert shown["member"] == 1 and shown["ephemerals"] == 1, shown
        client = shown["client"]
        assert client["protocol"] == "zookeeper" and client["address"] == "127.0.0.1" and client["watches"] == 1, client
        assert client["identities"] == ["ip:127.0.0.1", "digest:alice"], client
        assert listed[two.session_id]["client"]["identities"] == ["ip:127.0.0.1"], listed
        # A member that does not serve the client does not know it.
        second = cluster.command("grpc").split(",")[1]
        status, output, errors = servers.quorate("--json", "--server", second, "sessions", "list")
        assert status == 0, errors
        alone = {int(session["id"], 16): session for session in json.loads(output)["sessions"]}
        assert "client" not in alone[one.session_id] and "client" in alone[two.session_id], alone

        status, document, errors = _sessions(cluster, "show", f"0x{one.session_id:x}")
        assert status == 0 and document["ephemeral_paths"] == ["/mine"] and document["client"] == client | {
            "attached_for_ms": document["client"]["attached_for_ms"]}, (document, errors)

        # Through another member than the one that serves it.
        status, output, errors = servers.quorate("--server", second, "sessions", "close", f"{one.session_id:x}")
        assert status == 0 and f"Closed session 0x{one.session_id:x}" in output, (output, errors)
        assert not two.exists("/mine") and two.exists("/other")
        assert one.session_id not in _listed(cluster) and two.session_id in _listed(cluster)
        assert one.is_closed_by_peer(PATIENCE_SECONDS), "the connection of the closed session stays open"
        for command in ("show", "close"):
            status, _, errors = _sessions(cluster, command, f"{one.session_id:x}")
            assert status == 1 and "there is no session" in errors, (command, status, errors)
        status, _, errors = _sessions(cluster, "close", "none")
        assert status != 0 and "is not the id of a session" in errors, (status, errors)


def test_sessions_are_listed_page_by_page():
    with harness.Cluster(size=1) as cluster:
        connections = [zk.Connection(cluster.address(1)) for _ in range(5)]
        try:
            wanted = sorted(connection.session_id for connection in connections)
            listed, after = [], []
            while True:
                status, document, errors = _sessions(cluster, "list", "--limit", 2, *after)
                assert status == 0 and len(document["sessions"]) <= 2, errors
                listed += [int(session["id"], 16) for session in document["sessions"]]
                if not document["more"]:
                    break
                after = ["--after", document["sessions"][-1]["id"]]
            assert [one for one in listed if one in wanted] == wanted, (listed, wanted)
        finally:
            for connection in connections:
                connection.abandon()
