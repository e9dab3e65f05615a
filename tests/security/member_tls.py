# SPDX-License-Identifier: Apache-2.0
"""Tests TLS and the shared secret between members, with clusters of real servers: who gets in and who does not, the
switch of a running cluster, changed certificates, and strangers at the port for members."""

import contextlib
import os
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time

import certificates
import harness
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError

PATIENCE_SECONDS = 30
PEER_OFFSET = 200  # of the ports for members, in tools/cluster
WITH_TLS = "Using TLS encrypted quorum communication"
WITHOUT_TLS = "Using insecure (non-TLS) quorum communication"


class Place:
    """A directory with an authority, and a certificate for each of three members."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="quorate-member-tls-")
        self.authority = certificates.Authority(self.directory)
        self.members = [self.issue(f"member{number}") for number in (1, 2, 3)]

    def issue(self, name, authority=None, **options):
        """Returns the path of a store with a new key and a certificate of the authority."""
        return (authority or self.authority).issue(name, "member", f"/O=Example/CN={name}", **options)[2]

    def stores(self, member=1):
        return {"ssl.quorum.keyStore.location": self.members[member - 1],
                "ssl.quorum.trustStore.location": self.authority.certificate}

    def secret(self, name, text, mode=0o600):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text + "\n")
        os.chmod(path, mode)
        return path


@contextlib.contextmanager
def cluster_of(size=3, secret=None, **more):
    """Yields (place, cluster). The settings are the same for all members; "__" in a name stands for a dot."""
    made = Place()
    try:
        settings = {name.replace("__", "."): value for name, value in more.items()}
        if {"sslQuorum", "portUnification"} & set(settings):
            settings.update(made.stores())
        if secret is not None:
            settings["memberSecretFile"] = made.secret("secret", secret)
        with harness.Cluster("quorate", size, [f"{key}={value}" for key, value in settings.items()]) as cluster:
            yield made, cluster
    finally:
        shutil.rmtree(made.directory, ignore_errors=True)


def configure(cluster, member, changes):
    """Changes keys in the configuration of a member; None removes one."""
    path = os.path.join(cluster.member_dir(member), "zoo.cfg")
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file.read().splitlines() if line.split("=", 1)[0] not in changes]
    lines += [f"{key}={value}" for key, value in changes.items() if value is not None]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def restart(cluster, member, changes):
    cluster.command("stop", member)
    configure(cluster, member, changes)
    cluster.restart(member)


def log_has(cluster, member, text, begin=0):
    """Waits until the log of the member, from a position on, has the text."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while text not in cluster.log(member)[begin:]:
        assert time.monotonic() < deadline, f"no {text!r} in the log of member {member}:\n{cluster.log(member)[begin:]}"
        time.sleep(0.05)


@contextlib.contextmanager
def kazoo(hosts):
    client = KazooClient(hosts, timeout=10)
    client.start(timeout=PATIENCE_SECONDS)
    try:
        yield client
    finally:
        client.stop()
        client.close()


class Writer:
    """Creates znodes, one after another, until it is stopped. Knows which were acknowledged, and the longest time from
    one acknowledgement to the next."""

    def __init__(self, cluster):
        self.client = KazooClient(cluster.hosts(), timeout=10, randomize_hosts=True)
        self.client.start(timeout=PATIENCE_SECONDS)
        self.client.ensure_path("/w")
        self.acknowledged, self.longest, self.error = 0, 0.0, None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        last = time.monotonic()
        while not self.stopping.is_set():
            try:
                self.client.create(f"/w/{self.acknowledged:06}", b"x" * 100)
            except NodeExistsError:
                pass  # acknowledged now: the connection broke before the answer came
            except KazooException:
                if time.monotonic() - last > PATIENCE_SECONDS:
                    self.error = "no write was acknowledged for a long time"
                    return
                time.sleep(0.02)
                continue
            self.acknowledged += 1
            self.longest, last = max(self.longest, time.monotonic() - last), time.monotonic()
            time.sleep(0.002)

    def wait_for_more(self, count=20):
        deadline, enough = time.monotonic() + PATIENCE_SECONDS, self.acknowledged + count
        while self.acknowledged < enough:
            assert self.error is None and time.monotonic() < deadline, self.error
            time.sleep(0.01)

    def finish(self):
        """Checks that all acknowledged znodes are there. Returns their number and the longest gap."""
        self.stopping.set()
        self.thread.join()
        assert self.error is None, self.error
        self.client.sync("/w")
        names = set(self.client.get_children("/w"))
        missing = [name for name in (f"{i:06}" for i in range(self.acknowledged)) if name not in names]
        self.client.stop()
        self.client.close()
        assert not missing, missing
        return f"{self.acknowledged} writes, at most {self.longest:.1f} s apart"


def peer_address(cluster, member):
    return harness.HOST, cluster.ports.base + PEER_OFFSET + member


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def hello():
    """Returns a hello (rpc/peer/frame.h) that a member answers: with a challenge, or with why it refuses it."""
    version, sender, receiver, nonce = 0, 99, 1, b"n" * 32
    payload = struct.pack("<IIII", version, sender, receiver, 0) + struct.pack("<IQI", version, 1, len(nonce)) + nonce
    frame = struct.pack("<BI", 1, len(payload)) + payload
    return struct.pack("<II", 4 + len(frame), crc32c(frame)) + frame


def handshake(cluster, member, authority, store=None):
    """Makes a handshake as a member with this store would. Returns whether the member accepts it."""
    context = ssl.create_default_context(cafile=authority.certificate)
    if store:
        context.load_cert_chain(store)
    try:
        with socket.create_connection(peer_address(cluster, member), PATIENCE_SECONDS) as raw, \
                context.wrap_socket(raw, server_hostname=harness.HOST) as client:
            # With TLS 1.3 a client learns that its certificate is refused when it reads.
            client.sendall(hello())
            return client.recv(100) != b""
    except (ssl.SSLError, ConnectionError):
        return False


def said_to(cluster, member, data):
    """Returns what a member answers to these bytes before it closes the connection."""
    answer = b""
    with socket.create_connection(peer_address(cluster, member), PATIENCE_SECONDS) as raw:
        with contextlib.suppress(OSError):
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
            while piece := raw.recv(1 << 16):
                answer += piece
    return answer


def refused_start(lines, *words):
    """Checks that a server with these lines refuses to start, and says these words."""
    with tempfile.TemporaryDirectory(prefix="quorate-start-") as directory:
        path = os.path.join(directory, "zoo.cfg")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join([f"dataDir={directory}/data", "clientPort=1", *lines]) + "\n")
        program = os.environ.get("QUORATED", harness.SERVERS["quorate"])
        result = subprocess.run([program, path], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                                timeout=PATIENCE_SECONDS)
        text = result.stdout + result.stderr
        assert result.returncode != 0, text
        for word in words:
            assert word in text, f"{word!r} is not in {text}"


# --- TLS ---


def test_members_serve_over_tls_alone():
    with cluster_of(sslQuorum="true") as (made, cluster):
        value = b"x" * 900_000  # several batches, and many records of TLS
        with kazoo(cluster.hosts()) as client:
            for number in range(20):
                client.create(f"/{number}", value)
        for member in cluster.numbers():
            with kazoo(cluster.address(member)) as client:
                client.sync("/")
                assert client.get("/19")[0] == value
            assert WITH_TLS in cluster.log(member) and "Port unification disabled" in cluster.log(member)
            assert "error" not in cluster.log(member), cluster.log(member)
            assert handshake(cluster, member, made.authority, made.members[0])
            assert not handshake(cluster, member, made.authority)
            assert said_to(cluster, member, b"\x35\0\0\0" + bytes(53)) == b""
        # A member that was away comes back over TLS.
        cluster.kill(3)
        cluster.restart(3)
        with kazoo(cluster.address(3)) as client:
            client.sync("/")
            assert client.get("/19")[0] == value
        cluster.check_alive()


def stays_out(cluster, member, changes, own_words, words_of_others, shown=""):
    """Restarts a member with changes with which the others refuse it. Checks that it serves nobody, that the others
    serve, and that both say why; `own_words` and `words_of_others` are parts of the logs, and
    `shown` of what `quorate members` shows. The member is down afterwards."""
    cluster.command("stop", member, check=False)  # it may be down
    configure(cluster, member, changes)
    begins = {number: len(cluster.log(number)) for number in cluster.numbers()}
    others = cluster.others(member)
    cluster.command("launch", member)
    try:
        log_has(cluster, member, own_words, begins[member])
        if words_of_others:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not any(words_of_others in cluster.log(other)[begins[other]:] for other in others):
                assert time.monotonic() < deadline, f"no {words_of_others!r} in\n{cluster.log(others[0])[begins[others[0]]:]}"
                time.sleep(0.05)
        with kazoo(",".join(cluster.address(other) for other in others)) as client:
            client.ensure_path("/others")
        if shown:
            cluster.wait_until(f"quorate members shows {shown!r}", lambda: shown in cluster.command("cli", "members"))
        assert "server_state" not in cluster.monitor(member)
        assert "connected to server" not in cluster.log(member)[begins[member]:]
    finally:
        cluster.kill(member)


def test_members_with_unfit_certificates_stay_out_and_everyone_says_why():
    with cluster_of(sslQuorum="true") as (made, cluster):
        member = cluster.followers()[0]
        store = "ssl.quorum.keyStore.location"
        other = certificates.Authority(made.directory, "other")
        stays_out(cluster, member, {store: made.issue("foreign", other)},
                  "the other end refuses the connection", "certificate is refused")
        stays_out(cluster, member, {store: made.issue("elsewhere", names="DNS:elsewhere.example.com,IP:127.0.0.9")},
                  "is not for the host 127.0.0.1, but for elsewhere.example.com, 127.0.0.9",
                  "is not for the host 127.0.0.1, but for elsewhere.example.com, 127.0.0.9",
                  shown="the certificate CN=elsewhere,O=Example is not for the host 127.0.0.1")
        stays_out(cluster, member, {store: made.issue("old", days=-1)}, "certificate expired",
                  "the client's certificate is refused: certificate has expired")
        stays_out(cluster, member, {store: made.members[0], "ssl.quorum.trustStore.location": other.certificate},
                  "the server's certificate is refused", "")
        stays_out(cluster, member, {"ssl.quorum.trustStore.location": made.authority.certificate, "sslQuorum": "false"},
                  WITHOUT_TLS, "it does not use TLS")
        # With a certificate that fits it is back. The status of the others told why it was away.
        configure(cluster, member, {"sslQuorum": "true"})
        cluster.restart(member)
        with kazoo(cluster.address(member)) as client:
            client.sync("/")
            assert client.exists("/others")
        cluster.check_alive()


def switch(cluster, writer, steps):
    for changes in steps:
        for member in cluster.numbers():
            begin = len(cluster.log(member))
            restart(cluster, member, changes)
            tls = changes["sslQuorum"] == "true"
            log_has(cluster, member, WITH_TLS if tls else WITHOUT_TLS, begin)
            log_has(cluster, member, f"Port unification {'enabled' if changes['portUnification'] == 'true' else 'disabled'}",
                    begin)
            writer.wait_for_more()


def test_a_running_cluster_is_switched_to_tls_and_back_under_writes():
    with cluster_of() as (made, cluster):
        writer = Writer(cluster)
        steps = [dict(sslQuorum="false", portUnification="true", **made.stores()),
                 {"sslQuorum": "true", "portUnification": "true"}, {"sslQuorum": "true", "portUnification": "false"}]
        switch(cluster, writer, steps)
        for member in cluster.numbers():
            assert said_to(cluster, member, b"\x35\0\0\0" + bytes(53)) == b""
            assert handshake(cluster, member, made.authority, made.members[0])
        back = [steps[1], steps[0], {"sslQuorum": "false", "portUnification": "false"}]
        switch(cluster, writer, back)
        for member in cluster.numbers():
            assert not handshake(cluster, member, made.authority, made.members[0])
        note = writer.finish()
        assert writer.longest < 10, note
        cluster.check_alive()
        return note


def test_changed_certificates_are_used_without_a_restart():
    with cluster_of(sslQuorum="true", sslQuorumReloadCertFiles="true") as (made, cluster):
        store, trust = made.stores().values()
        # First a certificate that cannot be used: it changes nothing.
        good = store + ".good"
        shutil.copy(store, good)
        with open(store + ".bad", "w", encoding="ascii") as file:
            file.write("-----BEGIN PRIVATE KEY-----\nAAAA\n")
        os.replace(store + ".bad", store)
        for member in cluster.numbers():
            log_has(cluster, member, "the changed stores of TLS cannot be used")
        assert handshake(cluster, 1, made.authority, good)
        following = certificates.Authority(made.directory, "next")
        shutil.copy(made.issue("fresh", following), store + ".new")
        shutil.copy(following.certificate, trust + ".new")
        os.replace(trust + ".new", trust)
        os.replace(store + ".new", store)
        for member in cluster.numbers():
            log_has(cluster, member, "the stores of TLS have changed")
            cluster.wait_until("the new authority counts",
                               lambda member=member: handshake(cluster, member, following, store))
            assert not handshake(cluster, member, following, good)
        # Connections from now on have the new certificates.
        member = cluster.followers()[0]
        cluster.kill(member)
        cluster.restart(member)
        with kazoo(cluster.address(member)) as client:
            client.create("/a", b"")
        cluster.check_alive()


# --- The secret ---


def test_a_secret_keeps_others_out():
    with cluster_of(secret="a secret of the members") as (made, cluster):
        member = cluster.followers()[0]
        stays_out(cluster, member, {"memberSecretFile": made.secret("other", "a secret of somebody else")},
                  "the secret (memberSecretFile) of this server is another one",
                  "the secret (memberSecretFile) of this server is another one")
        stays_out(cluster, member, {"memberSecretFile": None}, "servers have to prove a secret here",
                  "servers have to prove a secret here")
        configure(cluster, member, {"memberSecretFile": os.path.join(made.directory, "secret")})
        cluster.restart(member)
        for number in cluster.numbers():
            assert "a secret of the members" not in cluster.log(number)
        cluster.check_alive()


def test_a_secret_is_introduced_and_changed_under_writes():
    with cluster_of() as (made, cluster):
        first, second = made.secret("first", "the first secret of all"), made.secret("second", "the second secret of all")
        writer = Writer(cluster)
        for changes in ({"memberSecretFile": first, "memberSecretRequired": "false"}, {"memberSecretRequired": "true"},
                        {"memberSecretRequired": "false"}, {"memberSecretFile": second}, {"memberSecretRequired": "true"},
                        {"memberSecretRequired": "false"}, {"memberSecretFile": None, "memberSecretRequired": None}):
            for member in cluster.numbers():
                restart(cluster, member, changes)
                writer.wait_for_more()
        note = writer.finish()
        assert writer.longest < 10, note
        cluster.check_alive()
        return note


def test_tls_and_a_secret_together():
    with cluster_of(sslQuorum="true", secret="a secret of the members") as (made, cluster):
        member = cluster.followers()[0]
        stays_out(cluster, member, {"memberSecretFile": None}, "servers have to prove a secret here", "")
        configure(cluster, member, {"memberSecretFile": os.path.join(made.directory, "secret")})
        cluster.restart(member)
        cluster.check_alive()


# --- Strangers ---


def flood(cluster, authority, stopping, kind):
    """Connects to all members' ports for members, again and again, and counts."""
    context = ssl.create_default_context(cafile=authority.certificate)
    kept, count = [], 0
    while not stopping.is_set():
        for member in cluster.numbers():
            with contextlib.suppress(OSError):
                raw = socket.create_connection(peer_address(cluster, member), PATIENCE_SECONDS)
                count += 1
                if kind == "handshake":  # whole, without a certificate
                    raw.settimeout(PATIENCE_SECONDS)
                    with context.wrap_socket(raw, server_hostname=harness.HOST):
                        pass
                elif kind == "garbage":
                    raw.sendall((b"\x16" if count % 2 else b"") + os.urandom(3000))
                    raw.close()
                else:  # half a handshake, or nothing
                    if count % 2:
                        raw.sendall(b"\x16\x03\x01\x40\x00\x01")
                    kept.append(raw)
        while len(kept) > 300:
            kept.pop(0).close()
    for raw in kept:
        raw.close()


def test_strangers_at_the_port_for_members_hold_nobody_up():
    # The strangers take so much of the processors that a leader may be silent for the usual election timeout.
    with cluster_of(sslQuorum="true", portUnification="true", electionTimeoutMs="3000") as (made, cluster):
        leader, writer = cluster.leader(), Writer(cluster)
        stopping = threading.Event()
        threads = [threading.Thread(target=flood, args=(cluster, made.authority, stopping, kind), daemon=True)
                   for kind in ("handshake", "garbage", "half")]
        try:
            for thread in threads:
                thread.start()
            end = time.monotonic() + 5
            while time.monotonic() < end:
                writer.wait_for_more()
            # A member finds the others although strangers are there.
            member = cluster.others(leader)[0]
            cluster.kill(member)
            cluster.restart(member)
            writer.wait_for_more()
        finally:
            stopping.set()
            for thread in threads:
                thread.join()
        note = writer.finish()
        assert cluster.leader() == leader, "the leader has changed"
        for number in cluster.numbers():
            assert int(cluster.monitor(number)["open_file_descriptor_count"]) < 200
        cluster.check_alive()
        return note


# --- Starts that are refused ---


def test_a_start_without_what_the_keys_ask_for_is_refused():
    made = Place()
    try:
        stores = [f"{key}={value}" for key, value in made.stores().items()]
        refused_start(["sslQuorum=true"], "ssl.quorum.keyStore.location", "it is missing")
        refused_start(["sslQuorum=true", stores[0]], "ssl.quorum.trustStore.location", "it is missing")
        refused_start(["sslQuorum=true", stores[0] + "x", stores[1]], "ssl.quorum.*", stores[0].split("=")[1] + "x")
        refused_start(["sslQuorum=true", *stores, "ssl.quorum.ocsp=true"], "ssl.quorum.ocsp", "ssl.quorum.crl")
        refused_start([*stores, "ssl.quorum.context.supplier.class=a.B"], "ssl.quorum.context.supplier.class")
        refused_start(["ssl.quorum.unheardOf=1"], "ssl.quorum.unheardOf")
        refused_start(["quorum.auth.enableSasl=true"], "quorum.auth.enableSasl", "ssl.quorum.*", "memberSecretFile")
        refused_start(["memberSecretRequired=true"], "memberSecretRequired", "memberSecretFile")
        for text, mode, word in (("0123456789abcdef", 0o640, "chmod 600"), ("0123456789abcdef", 0o604, "chmod 600"),
                                 ("short", 0o600, "only 5 bytes")):
            path = made.secret("unfit", text, mode)
            refused_start([f"memberSecretFile={path}"], "memberSecretFile", path, word)
        refused_start(["memberSecretFile=/no/such/file"], "memberSecretFile", "/no/such/file")
    finally:
        shutil.rmtree(made.directory, ignore_errors=True)
