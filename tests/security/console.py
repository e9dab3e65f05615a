# SPDX-License-Identifier: Apache-2.0
"""Tests who may make changes by the web console, that pages of other sites make none, that the audit log has them, and that
bodies which mean harm do none."""

import base64
import json
import random

import audit
import harness
import web
import zkwire as zk
from client_tls import place
from grpc_access import TOKEN, write

TREE = ("create", "set", "delete")
CHANGES = {
    "create": {"path": "/a", "data": "eA==", "acl": "world"}, "set": {"path": "/a", "data": "eQ==", "version": 0},
    "delete": {"path": "/a", "version": 0}, "close-session": {"session": "0x1"}, "transfer-leadership": {"member": 0},
    "change-members": {"change": "remove", "member": 9, "line": "", "membership": 0}}
BODY_BYTES_MAX = 64 << 10


def basic(user, password="p"):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def bearer(token=TOKEN):
    return {"Authorization": f"Bearer {token}"}


def page_token(cluster, who=None, member=1, **more):
    answer = web.get(cluster, "/console/api/overview", member, headers=who or {}, **more)
    assert answer.status == 200, answer
    return json.loads(answer.text)["token"]


def page_headers(cluster, who=None, member=1, **more):
    """Returns the headers with which the page of `who` sends a change."""
    return {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin",
            "X-Quorate-Page": page_token(cluster, who, member), **(who or {}), **more}


def post(cluster, name, fields, headers, member=1, **more):
    body = fields if isinstance(fields, (str, bytes)) else json.dumps(fields)
    return web.request(web.port(cluster, member), f"/console/api/{name}", "POST", headers, body=body, **more)


def change(cluster, name, fields, who=None, member=1):
    return post(cluster, name, fields, page_headers(cluster, who, member), member)


def secured(made):
    return [f"administratorTokenFile={write(made.path('tokens'), TOKEN)}", *audit.ENABLED]


def test_changes_are_made_by_administrators_and_by_users_as_lists_allow_and_the_audit_log_has_them():
    with place() as made, harness.Cluster("quorate", 1, secured(made)) as cluster:
        web.await_serving(cluster)
        ann, bob = basic("ann"), basic("bob")
        for name, fields in CHANGES.items():
            assert change(cluster, name, fields).status == 403, name
        audit.wait_for(cluster, operation="create", znode="/a", result="failure")
        audit.wait_for(cluster, operation="closeSession", result="failure")
        made = change(cluster, "create", {"path": "/a", "data": "eA==", "acl": "readers"}, ann)
        assert made.status == 200, made
        audit.wait_for(cluster, operation="create", znode="/a", user="ann,127.0.0.1", result="success")
        # The list lets bob read alone, and an administrator's token passes no list.
        for who in (bob, bearer()):
            refused = change(cluster, "set", CHANGES["set"], who)
            assert refused.status == 403 and "does not let you" in refused.text, refused
        assert change(cluster, "set", CHANGES["set"], ann).status == 200
        # Another one has changed it meanwhile.
        for name in ("set", "delete"):
            old = change(cluster, name, CHANGES[name], ann)
            assert old.status == 409 and "was changed" in old.text, old
        with zk.Connection(cluster.address(1)) as client:
            assert client.get("/a")[0] == b"y"
        assert change(cluster, "create", {"path": "/a/b", "data": "", "acl": "world"}, ann).status == 200
        full = change(cluster, "delete", {"path": "/a", "version": 1}, ann)
        assert full.status == 409 and "children" in full.text, full
        assert change(cluster, "delete", {"path": "/a/b", "version": 0}, ann).status == 200
        assert change(cluster, "delete", {"path": "/a", "version": 1}, ann).status == 200
        audit.wait_for(cluster, operation="delete", znode="/a", user="ann,127.0.0.1", result="success")
        assert change(cluster, "create", CHANGES["create"], bearer()).status == 200
        with zk.Connection(cluster.address(1)) as client:
            session = {"session": hex(client.session_id & (1 << 64) - 1)}
            assert change(cluster, "close-session", session, ann).status == 403
            client.ping()
            assert change(cluster, "close-session", session, bearer()).status == 200
            harness.wait_for("the client is closed", lambda: client.is_closed_by_peer(0.1), harness.WAIT_SECONDS)
            assert change(cluster, "close-session", session, bearer()).status == 404
        audit.wait_for(cluster, operation="closeSession", result="success")
        cluster.check_alive()


def test_the_configuration_says_who_makes_changes():
    for who, user, administrator in (("none", 403, 403), ("administrators", 403, 200), ("proven", 200, 200)):
        with place() as made, harness.Cluster("quorate", 1, [*secured(made), f"admin.console.changes={who}"]) as cluster:
            web.await_serving(cluster)
            for number, (caller, expected) in enumerate(((None, 403), (basic("ann"), user), (bearer(), administrator))):
                answer = change(cluster, "create", {**CHANGES["create"], "path": f"/{number}"}, caller)
                assert answer.status == expected, f"{who}, {number}: {answer}"
            lead = change(cluster, "transfer-leadership", CHANGES["transfer-leadership"], bearer()).status
            assert (lead == 403) == (administrator == 403), f"{who}: {lead}"


def test_the_audit_log_names_administrators_and_has_wrong_credentials():
    with place() as made, harness.Cluster("quorate", 1, secured(made)) as cluster:
        web.await_serving(cluster)
        assert change(cluster, "create", CHANGES["create"], bearer()).status == 200
        audit.wait_for(cluster, operation="consoleChange", znode="/a", user="token:line1", ip="127.0.0.1", result="success",
                       detail="operation=create protocol=http")
        wrong = bearer("wrong" * 5)
        # What no page of this server sends is refused without a look at its credentials.
        assert post(cluster, "create", CHANGES["create"], wrong).status == 403
        assert web.get(cluster, "/console/api/overview", headers=wrong).status == 401
        audit.wait_for(cluster, operation="authenticate", ip="127.0.0.1", result="failure",
                       detail="authorization protocol=http")


def shared_no_page_of_another_site_makes_a_change(cluster):
    web.await_serving(cluster)
    good = page_headers(cluster)
    host = f"{harness.HOST}:{web.port(cluster)}"
    other = {"site": {"Sec-Fetch-Site": "cross-site"}, "same site": {"Sec-Fetch-Site": "same-site"},
             "navigation": {"Sec-Fetch-Site": "none"}, "no proof": {"Sec-Fetch-Site": ""},
             "origin": {"Origin": "http://other.example"}, "null": {"Origin": "null"},
             "rebound": {"Host": "other.example", "Origin": "http://other.example"},
             "no token": {"X-Quorate-Page": ""}, "old token": {"X-Quorate-Page": "1." + "0" * 64},
             "token of another": {"X-Quorate-Page": page_token(cluster, basic("ann"))},
             "token of another address": {"X-Quorate-Page": page_token(cluster, source="127.0.0.9")},
             "form": {"Content-Type": "application/x-www-form-urlencoded"}, "text": {"Content-Type": "text/plain"}}
    for name, fields in CHANGES.items():
        for what, headers in other.items():
            answer = post(cluster, name, fields, {**good, **headers})
            assert answer.status == (415 if what in ("form", "text") else 403), f"{name}, {what}: {answer}"
        # What asks a browser whether another site may send these headers gets no permission.
        asked = web.request(web.port(cluster), f"/console/api/{name}", "OPTIONS", {"Origin": "http://other.example"})
        assert asked.status == 405 and "Access-Control-Allow-Origin" not in asked.headers, asked
        assert web.get(cluster, f"/console/api/{name}").status == 405, name
    with zk.Connection(cluster.address(1)) as client:
        assert client.exists("/a") is None
    # The same without what is wrong is made, also by a browser that sends Origin alone.
    sent = {**good, "Origin": f"http://{host}"}
    del sent["Sec-Fetch-Site"]
    assert post(cluster, "create", CHANGES["create"], sent).status == 200
    assert post(cluster, "delete", CHANGES["delete"], good).status == 200
    return f"{len(other)} ways, {len(CHANGES)} changes"


def shared_bodies_that_mean_harm_are_refused(cluster):
    web.await_serving(cluster)
    headers = page_headers(cluster)
    deep = b'{"path":' + b"[" * 30000 + b"]" * 30000 + b"}"
    bodies = [b"", b"{", b"null", b"[]", b"1", b'""', b"{}", deep, b"\xff\xfe", b"\x00" * 1000, b"[" * BODY_BYTES_MAX,
              b'{"path":"/a","path":"/b"}', b'{"a":' * 10000 + b"1" + b"}" * 10000]
    for name, fields in CHANGES.items():
        for key in fields:
            values = (None, True, [], {}, -1, -2**63, 2**31, 2**64, 1e400, 1.5, "=", "a", "\x00", "\udc80")
            if key != "data":  # nearly every text is base64
                values += ("", "a", "/a/", "/a//b", "/a/../b", "a\n", "x" * 5000, "0x", "0xzz", "0x" + "f" * 17, "nobody")
            bodies += [json.dumps({**fields, key: value}) for value in values]
            bodies.append(json.dumps({other: value for other, value in fields.items() if other != key}))
        bodies.append(json.dumps({**fields, "more": 1}))
        for body in bodies:
            answer = post(cluster, name, body, headers)
            assert 400 <= answer.status < 500, f"{name} {body[:80]}: {answer}"
            assert json.loads(answer.text)["error"], answer
        bodies.clear()
    large = base64.b64encode(b"x" * ((40 << 10) + 1)).decode()
    assert post(cluster, "create", {**CHANGES["create"], "data": large}, headers).status == 400
    assert post(cluster, "create", b"x" * (BODY_BYTES_MAX + 1), headers).status == 413
    assert web.request(web.port(cluster), "/console/api/overview", "POST", headers, body="{}").status == 405
    for path in ("/console/api/none", "/console/api/", "/console/api/create/"):
        assert web.request(web.port(cluster), path, "POST", headers, body="{}").status == 404, path
    assert web.request(web.port(cluster), "/console%2fapi/create", "POST", headers, body="{}").status == 405
    with zk.Connection(cluster.address(1)) as client:
        assert client.children("/") == ["zookeeper"], client.children("/")
    cluster.check_alive()


def shared_random_changes_of_bodies_do_no_harm(cluster):
    web.await_serving(cluster)
    seed = random.randrange(1 << 32)
    bits = random.Random(seed)
    headers = page_headers(cluster)
    for _ in range(300):
        name = bits.choice(TREE)
        body = bytearray(json.dumps({**CHANGES[name], "path": "/random"}).encode())
        for _ in range(bits.randint(1, 6)):
            body[bits.randrange(len(body))] = bits.randrange(256)
        assert post(cluster, name, bytes(body), headers).status < 500, f"seed {seed}: {body}"
    with zk.Connection(cluster.address(1)) as client:
        for child in client.children("/"):
            if child != "zookeeper":
                client.delete(f"/{child}")
    cluster.check_alive()
    return f"seed {seed}"


def overview(cluster, who, member=1):
    return json.loads(web.get(cluster, "/console/api/overview", member, headers=who).text)


def test_members_are_changed_by_administrators_at_the_leader_and_the_audit_log_has_them():
    with place() as made, harness.Cluster("quorate", 3, [*secured(made), *web.STEADY]) as cluster:
        web.await_serving(cluster)
        leader = cluster.leader()
        leaving, other = cluster.others(leader)

        def ask(kind, member, who, at=leader, line="", membership=None):
            seen = overview(cluster, who, at)["membership_index"] if membership is None else membership
            return change(cluster, "change-members", {"change": kind, "member": member, "line": line, "membership": seen},
                          who, at)

        def roles():
            return {member["id"]: member["role"] for member in overview(cluster, bearer(), leader)["members"]}

        def await_roles(wanted):
            """Waits until the overview, which may be a moment old, shows these roles, and no change under way."""
            harness.wait_for(wanted, lambda: roles() == wanted and not overview(cluster, bearer(), leader)["changing"],
                             harness.WAIT_SECONDS)

        for who in ({}, basic("ann")):
            assert ask("remove", leaving, who).status == 403
        audit.wait_for(cluster, operation="changeMembers", result="failure", member=leader)
        seen = overview(cluster, bearer(), leader)["membership_index"]
        at_follower = ask("remove", leaving, bearer(), at=other)
        assert at_follower.status == 409 and f"member {leader}" in at_follower.text, at_follower
        led = ask("remove", leader, bearer())
        assert led.status == 409 and "leads" in led.text, led
        # Without the other one, the leader alone would be no majority of two.
        cluster.kill(other)
        harness.wait_for("the leader knows", lambda: "1 of 2 voters would be up to date" in ask(
            "remove", leaving, bearer()).text, harness.WAIT_SECONDS)
        assert roles()[leaving] == "follower"
        cluster.restart(other)
        harness.wait_for("the other one is back", lambda: ask("demote", leaving, bearer()).status == 200,
                         harness.WAIT_SECONDS)
        await_roles({leader: "leader", leaving: "observer", other: "follower"})
        # The page of this request is older than the change.
        old = ask("remove", other, bearer(), membership=seen)
        assert old.status == 409 and "after the page has shown them" in old.text, old
        assert ask("remove", leaving, bearer()).status == 200
        await_roles({leader: "leader", other: "follower"})
        # A server that does not exist is added without a vote, and does not get one.
        assert ask("add", 9, bearer(), line="127.0.0.1:1:2;3").status == 200
        await_roles({leader: "leader", other: "follower", 9: "observer"})
        absent = ask("promote", 9, bearer())
        assert absent.status in (409, 503), absent
        assert ask("remove", 9, bearer()).status == 200
        audit.wait_for(cluster, operation="changeMembers", user="token:line1", result="success", member=leader,
                       detail=f"change=demote member={leaving} protocol=http")


def test_lists_show_only_what_the_caller_may_see():
    with place() as made, harness.Cluster("quorate", 1, secured(made)) as cluster:
        web.await_serving(cluster)
        ann = basic("ann")
        start = json.loads(web.get(cluster, "/console/api/events?path=/").text)["next"]
        for path, acl in (("/open", "world"), ("/hers", "creator")):
            assert change(cluster, "create", {"path": path, "data": "", "acl": acl}, ann).status == 200
        for who, seen in ((None, ["/open"]), (ann, ["/open", "/hers"]), (bearer(), ["/open"])):
            answer = web.get(cluster, f"/console/api/events?path=/&after={start}", headers=who or {})
            assert [event["path"] for event in json.loads(answer.text)["events"]] == seen, answer
        below = web.get(cluster, f"/console/api/events?path=/open/a&after={start}")
        assert json.loads(below.text)["events"] == [], below
        for path in ("sessions", "clients", "watches?path=/"):
            answers = [web.get(cluster, f"/console/api/{path}", headers=who or {}).status for who in (None, ann, bearer())]
            assert answers == [403, 403, 200], f"{path}: {answers}"
        for path in ("sessions?limit=0", "sessions?limit=201", "sessions?after=1", "sessions?after=0x" + "f" * 17,
                     "watches", "watches?path=a", "events?path=/&after=0xzz", "events?path=/&after=-1",
                     "events?path=/&after=0x" + "f" * 16):
            assert web.get(cluster, f"/console/api/{path}", headers=bearer()).status == 400, path


def test_the_console_is_switched_off():
    with harness.Cluster("quorate", 1, ["admin.console=false"]) as cluster:
        web.await_serving(cluster)
        page = web.get(cluster, "/", headers={"Accept": "text/html"})
        assert page.headers["Content-Type"].startswith("text/plain") and "/commands" in page.text, page
        for path in ("/console/console.js", "/console/api/overview", "/console/api/node?path=/"):
            assert web.get(cluster, path).status == 404, path
        for name, fields in CHANGES.items():
            sent = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin", "X-Quorate-Page": "1.0"}
            assert post(cluster, name, fields, sent).status == 405, name
        assert web.command(cluster, "ruok")["error"] is None
