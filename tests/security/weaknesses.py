# SPDX-License-Identifier: Apache-2.0
"""Tests that weaknesses which ZooKeeper had are none here, from outside, with Kazoo. docs/security.md lists them."""

import os
import subprocess
import tempfile

import client_tls
import harness
import zkwire as zk
from kazoo.exceptions import NoAuthError
from kazoo.security import make_acl, make_digest_acl

OWNER = "owner:secret"
ADD_WATCH, PERSISTENT_RECURSIVE = 106, 1


def refuses(function, *arguments):
    try:
        function(*arguments)
    except NoAuthError:
        return True
    return False


def test_a_client_cannot_claim_another_address():  # CVE-2024-51504
    with harness.Cluster("quorate", 1) as cluster, client_tls.kazoo(cluster.hosts()) as client:
        client.create("/elsewhere", b"x", acl=[make_acl("ip", "10.9.9.9", all=True)])
        client.create("/here", b"x", acl=[make_acl("ip", harness.HOST, all=True)])
        client.add_auth("ip", "10.9.9.9")
        assert refuses(client.get, "/elsewhere")
        assert client.get("/here")[0] == b"x"


def test_hashes_of_passwords_are_for_administrators_of_the_znode():  # CVE-2019-0201
    with harness.Cluster("quorate", 1) as cluster, client_tls.kazoo(cluster.hosts()) as owner, \
            client_tls.kazoo(cluster.hosts()) as other:
        owner.add_auth("digest", OWNER)
        everything = make_digest_acl(*OWNER.split(":"), all=True)
        owner.create("/private", b"", acl=[everything])
        owner.create("/shown", b"", acl=[everything, make_acl("world", "anyone", read=True)])
        assert refuses(other.get_acls, "/private")
        [masked] = [acl.id.id for acl in other.get_acls("/shown")[0] if acl.id.scheme == "digest"]
        assert masked == "owner:x", masked
        assert owner.get_acls("/private")[0][0].id.id == everything.id.id


def test_watches_tell_nothing_of_what_a_client_may_not_read():  # CVE-2024-23944
    with harness.Cluster("quorate", 1) as cluster, client_tls.kazoo(cluster.hosts()) as owner, \
            zk.Connection(cluster.address(1)) as other:
        owner.add_auth("digest", OWNER)
        private = [make_digest_acl(*OWNER.split(":"), all=True)]
        owner.create("/top", b"")
        other.call(ADD_WATCH, zk.request_path_number("/top", PERSISTENT_RECURSIVE))
        owner.create("/top/private", b"", acl=private)
        owner.set("/top/private", b"1")
        owner.create("/top/private/child", b"", acl=private)
        owner.delete("/top/private/child")
        owner.create("/top/public", b"")
        # Events come in the order of the changes.
        event = other.wait_event()
        assert event.path == "/top/public", event


def test_costly_words_are_refused_unless_they_are_allowed():  # CVE-2017-5637
    with harness.Cluster("quorate", 1, ["4lw.commands.whitelist=srvr"]) as cluster:
        for word in ("wchc", "wchp", "wchs", "cons", "dump", "mntr", "conf", "envi", "ruok", "stmk", "crst"):
            answer = zk.four_letter(cluster.address(1), word)
            assert "is not in the whitelist" in answer or not answer, f"{word}: {answer}"
        assert "Mode: standalone" in zk.four_letter(cluster.address(1), "srvr")


def test_what_is_asked_for_and_missing_stops_the_start():  # CVE-2023-44981, CVE-2026-24281
    program = os.environ.get("QUORATED") or harness.SERVERS["quorate"]
    with tempfile.TemporaryDirectory(prefix="quorate-weaknesses-") as parent:
        config = os.path.join(parent, "zoo.cfg")
        for line in ("quorum.auth.enableSasl=true", "ssl.allowReverseDnsLookup=true",
                     "ssl.context.supplier.class=com.example.Contexts", "authProvider.1=com.example.Provider"):
            with open(config, "w", encoding="ascii") as file:
                file.write(f"dataDir={parent}/data\nclientPort=1\n{line}\n")
            done = subprocess.run([program, config], capture_output=True, text=True, timeout=60, check=False)
            said = done.stdout + done.stderr
            assert done.returncode == 2 and line.split("=")[0] in said and "unsupported value" in said, f"{line}: {said}"
        assert not os.path.exists(os.path.join(parent, "data"))
