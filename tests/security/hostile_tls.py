# SPDX-License-Identifier: Apache-2.0
"""Attacks the TLS of each port of a cluster: clients', gRPC's, members' and HTTP's. Who has no good certificate gets
nowhere, and takes neither the memory nor the descriptors of a server; changed certificates are used on each port."""

import contextlib
import functools
import os
import resource
import select
import shutil
import socket
import ssl
import subprocess
import time

import bystander
import certificates
import client_tls
import grpc
import harness
import member_tls
import native
from kazoo.client import KazooClient

PORTS = {"clients": 0, "gRPC": 100, "members": 200, "HTTP": 300}
HALF_HELLO = b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03"
HALF_HANDSHAKES = 10_000
DESCRIPTORS = 1500
# Of the servers. Connections whose clients have proved nothing may take an eighth of it.
MEMORY_MIB = 2048
MEBIBYTE = 1 << 20
# gRPC has a time limit of 20 s for handshakes; the other ones are configured.
SHORT_LIMITS = {"limits.firstRequestTimeoutMs": 3000, "admin.idleTimeout": 3000,
                "ssl.quorum.handshakeDetectionTimeoutMillis": 3000}
LIMIT_SECONDS = 40
STATUS = "/quorate.v1.ClusterService/Status"


class ClusterAuthority(certificates.Authority):
    """The authority of a cluster that `tools/cluster start --tls` has made."""

    def __init__(self, cluster):  # pylint: disable=super-init-not-called
        self.directory, self.name, self.environment = os.path.join(cluster.parent, "own"), "ca", None
        certs = os.path.join(cluster.dir, "certs")
        self.certificate, self.key = os.path.join(certs, "ca.pem"), os.path.join(certs, "ca.key")
        self.admin = os.path.join(certs, "client-admin.pem")
        os.makedirs(self.directory, exist_ok=True)


@contextlib.contextmanager
def secured(size=3, **settings):
    """Yields (authority, cluster): a cluster with mutual TLS on all ports."""
    lines = [f"{key}={value}" for key, value in settings.items()]
    with harness.Cluster("quorate", size, lines, tls=True) as cluster:
        yield ClusterAuthority(cluster), cluster
        cluster.check_alive()


@contextlib.contextmanager
def kazoo(cluster, authority):
    client = KazooClient(cluster.hosts(), timeout=10, use_ssl=True, ca=authority.certificate, keyfile=authority.admin,
                         certfile=authority.admin)
    client.start(timeout=client_tls.PATIENCE_SECONDS)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def port_of(cluster, name, member=1):
    return cluster.ports.base + PORTS[name] + member


def context_of(authority, store=None, name="clients"):
    context = ssl.create_default_context(cafile=authority.certificate)
    if name == "gRPC":
        context.set_alpn_protocols(["h2"])
    if store:
        context.load_cert_chain(store)
    return context


def accepts(cluster, name, authority, store=None):
    """Returns whether a port serves a connection with this certificate; None stands for none. Waits for an answer, or the end."""
    request = {"clients": b"srvr", "HTTP": b"GET /commands/ruok HTTP/1.1\r\nHost: a\r\n\r\n",
               "members": member_tls.hello()}.get(name)
    try:
        with socket.create_connection((harness.HOST, port_of(cluster, name)), client_tls.PATIENCE_SECONDS) as raw, \
                context_of(authority, store, name).wrap_socket(raw, server_hostname=harness.HOST) as connection:
            if request:
                connection.sendall(request)
            return bool(connection.recv(1 << 16))
    except TimeoutError:
        raise AssertionError(f"the port of {name} neither answers nor closes") from None
    except (ssl.SSLError, ConnectionError):
        return False


def descriptors(cluster, member=1):
    return len(os.listdir(f"/proc/{cluster.pids()[member - 1]}/fd"))


def shown(cluster, name, authority):
    """Returns the certificate that a port shows."""
    with socket.create_connection((harness.HOST, port_of(cluster, name)), client_tls.PATIENCE_SECONDS) as raw, \
            context_of(authority, authority.admin, name).wrap_socket(raw, server_hostname=harness.HOST) as connection:
        return connection.getpeercert(binary_form=True)


def half_handshakes(port, count):
    """Opens connections from many addresses and sends the begin of a hello on each. Returns those that came about."""
    opened = []
    for number in range(count):
        raw = socket.socket()
        opened.append(raw)
        raw.settimeout(client_tls.PATIENCE_SECONDS)
        with contextlib.suppress(OSError):
            raw.bind((f"127.0.{1 + number // 250}.{1 + number % 250}", 0))
            raw.connect((harness.HOST, port))
            raw.sendall(HALF_HELLO[:number % len(HALF_HELLO) + 1])
    return opened


def ten_thousand_half_handshakes(name, notes):
    with secured(**SHORT_LIMITS, memoryLimitMb=MEMORY_MIB) as (authority, cluster):
        with kazoo(cluster, authority) as client:
            client.create("/a", b"")
            leader, before = cluster.leader(), descriptors(cluster)
            memory = bystander.Memory(cluster)
            opened = half_handshakes(port_of(cluster, name), HALF_HANDSHAKES)
            try:
                longest = 0
                for _ in range(100):
                    started = time.monotonic()
                    client.set("/a", b"x")
                    longest = max(longest, time.monotonic() - started)
                assert longest < 2, f"{name}: a write took {longest:.1f} s"
                held, growth = descriptors(cluster) - before, memory.note(MEMORY_MIB // 8 + 64)
                notes.append(f"{name}: {held} held, {growth}, writes <= {longest:.2f} s")
                # A new client is served beside them, and on each other port, too.
                with kazoo(cluster, authority) as other:
                    assert other.get("/a")[0] == b"x"
                for each in PORTS:
                    served = functools.partial(accepts, cluster, each, authority, store_for(cluster, each, authority))
                    if each == name == "gRPC":
                        # It closes none for a newer one before that one is a second old. All here are of one address.
                        harness.wait_for("gRPC closes an older connection for a new one", served, LIMIT_SECONDS)
                        assert descriptors(cluster) > before + 20, "only after the half handshakes were over"
                    else:
                        assert served(), f"{name}: {each} is closed"
                # The server ends them: their clients do not.
                harness.wait_for(f"the half handshakes of {name} are over",
                                 lambda: descriptors(cluster) <= before + 20, LIMIT_SECONDS)
            finally:
                for raw in opened:
                    raw.close()
            assert cluster.leader() == leader, f"{name}: the leader has changed"
            client.set("/a", b"y")


def store_for(cluster, name, authority):
    """Returns a store with which a port accepts a connection."""
    return os.path.join(cluster.dir, "certs", f"{harness.HOST}.pem") if name == "members" else authority.admin


def test_ten_thousand_half_handshakes_at_the_port_of_clients_hold_nobody_up():
    notes = []
    ten_thousand_half_handshakes("clients", notes)
    return notes[0]


def test_ten_thousand_half_handshakes_at_the_port_of_grpc_hold_nobody_up():
    notes = []
    ten_thousand_half_handshakes("gRPC", notes)
    return notes[0]


def test_ten_thousand_half_handshakes_at_the_port_of_members_hold_nobody_up():
    notes = []
    ten_thousand_half_handshakes("members", notes)
    return notes[0]


def test_ten_thousand_half_handshakes_at_the_port_of_http_hold_nobody_up():
    notes = []
    ten_thousand_half_handshakes("HTTP", notes)
    return notes[0]


def test_half_handshakes_at_one_port_leave_descriptors_to_the_others():
    with secured() as (authority, cluster):
        leader = cluster.leader()
        resource.prlimit(cluster.pids()[0], resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        before = descriptors(cluster)
        notes = []
        for name in PORTS:
            opened = half_handshakes(port_of(cluster, name), 2 * DESCRIPTORS)
            try:
                notes.append(f"{name} {descriptors(cluster) - before}")
                assert descriptors(cluster) < DESCRIPTORS * 9 // 10, notes
                for other in PORTS:
                    if other != name:
                        assert accepts(cluster, other, authority, store_for(cluster, other, authority)), f"{name}, {other}"
                with kazoo(cluster, authority) as client:
                    client.ensure_path("/a")
                # Its links to the others are made again.
                follower = [member for member in cluster.others(1) if member != leader][0]
                cluster.kill(follower)
                cluster.restart(follower)
            finally:
                for raw in opened:
                    raw.close()
            # And the port serves again when they are gone.
            harness.wait_for(f"the half handshakes of {name} are over", lambda: descriptors(cluster) <= before + 20,
                             LIMIT_SECONDS)
            assert accepts(cluster, name, authority, store_for(cluster, name, authority)), name
        assert cluster.leader() == leader
        return ", ".join(notes)


def large_certificate(authority):
    """Returns a store with a certificate of the authority that has more than 1 MB."""
    key, request, certificate = (os.path.join(authority.directory, f"large.{end}") for end in ("key", "csr", "crt"))
    certificates.run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=large",
                     "-keyout", key, "-out", request)
    extensions = os.path.join(authority.directory, "large.ext")
    with open(extensions, "w", encoding="ascii") as file:
        file.write("extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=@names\n[names]\nIP.1=127.0.0.1\n")
        file.writelines(f"DNS.{number}={'n' * 60}.{'n' * 60}.{number:08}.example.com\n" for number in range(7000))
    certificates.run("openssl", "x509", "-req", "-in", request, "-CA", authority.certificate, "-CAkey", authority.key,
                     "-CAcreateserial", "-days", "30", "-extfile", extensions, "-out", certificate)
    assert os.path.getsize(certificate) > MEBIBYTE
    store = os.path.join(authority.directory, "large.pem")
    with open(store, "wb") as file:
        for part in (key, certificate):
            with open(part, "rb") as source:
                shutil.copyfileobj(source, file)
    return store


def test_no_port_takes_a_certificate_that_is_bad():
    with secured() as (authority, cluster):
        other = certificates.Authority(authority.directory, "other")
        bad = {"none": None, "of another authority": other.issue("stranger", "member", "/CN=stranger")[2],
               "expired": authority.issue("expired", "member", "/CN=expired", days=-1)[2],
               "for servers alone": authority.issue("server", "server", "/CN=server")[2],
               "of 1 MB": large_certificate(authority)}
        memory = bystander.Memory(cluster)
        for name in PORTS:
            assert accepts(cluster, name, authority, store_for(cluster, name, authority)), f"{name}: a good certificate"
            for why, store in bad.items():
                assert not accepts(cluster, name, authority, store), f"{name}: a certificate that is {why}"
        # Its size is a limit, not its content: it takes no memory when it comes again and again.
        for _ in range(20):
            for name in PORTS:
                assert not accepts(cluster, name, authority, bad["of 1 MB"])
        note = memory.note(100)
        with kazoo(cluster, authority) as client:
            client.create("/a", b"")
        return note


def test_failed_handshakes_at_the_port_of_http_are_counted_logged_and_recorded():
    with secured(1, **{"audit.enable": "true", "auditFile": "../audit.log"}) as (authority, cluster):
        def failed():
            with socket.create_connection((harness.HOST, port_of(cluster, "clients")), client_tls.PATIENCE_SECONDS) as raw, \
                    context_of(authority, authority.admin).wrap_socket(raw, server_hostname=harness.HOST) as connection:
                connection.sendall(b"mntr")
                text = b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()
            return int(text.partition("\nzk_unsuccessful_handshake\t")[2].partition("\n")[0])

        before = failed()
        assert accepts(cluster, "HTTP", authority, authority.admin)
        assert failed() == before
        stranger = certificates.Authority(authority.directory, "other").issue("stranger", "client", "/CN=stranger")[2]
        assert not accepts(cluster, "HTTP", authority, stranger)
        cluster.wait_until("the handshake is counted", lambda: failed() == before + 1)
        logged = f"the TLS handshake with {harness.HOST} failed: the client's certificate is refused: "

        def recorded():
            with open(f"{cluster.dir}/audit.log", encoding="utf-8") as file:
                return [line for line in file if line.endswith("\n") and "operation=authenticate" in line]

        # Both files are written a moment after the failure.
        cluster.wait_until("the failure is logged", lambda: logged in cluster.log(1))
        cluster.wait_until("the failure is recorded", recorded)
        assert cluster.log(1).count(logged) == 1, cluster.log(1)
        lines = recorded()
        assert len(lines) == 1, lines
        assert "result=failure" in lines[0] and "x509: the client's certificate" in lines[0], lines


def s_client_command(cluster, name, authority, *arguments):
    own = store_for(cluster, name, authority)
    return ["openssl", "s_client", "-connect", f"{harness.HOST}:{port_of(cluster, name)}", "-CAfile", authority.certificate,
            "-cert", own, "-key", own, *arguments]


def s_client(cluster, name, authority, *arguments, typed="", encoding="latin-1"):
    """Runs openssl s_client on a port. Returns (exit status, output)."""
    result = subprocess.run(s_client_command(cluster, name, authority, *arguments), input=typed, encoding=encoding,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=client_tls.PATIENCE_SECONDS, check=False)
    return result.returncode, result.stdout


def renegotiation(cluster, name, authority, *arguments):
    """Lets openssl s_client ask for a renegotiation, and returns its output. s_client takes data of the server during a
    handshake for an error, so the frame with which the gRPC port begins is awaited before."""
    with subprocess.Popen(s_client_command(cluster, name, authority, *arguments), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        output = b""
        while name == "gRPC" and b"\0" not in output:
            assert select.select([process.stdout], [], [], client_tls.PATIENCE_SECONDS)[0], f"nothing of {name}: {output}"
            piece = os.read(process.stdout.fileno(), 1 << 16)
            assert piece, f"{name}: {output}"
            output += piece
        rest, _ = process.communicate(b"R\nQ\n", timeout=client_tls.PATIENCE_SECONDS)
    return (output + rest).decode("latin-1")


def test_no_port_renegotiates_or_speaks_an_old_version():
    with secured() as (authority, cluster):
        alpn = {"gRPC": ("-alpn", "h2")}
        for name in PORTS:
            status, output = s_client(cluster, name, authority, "-tls1_2", *alpn.get(name, ()))
            assert status == 0 and "Verify return code: 0 (ok)" in output, f"{name}: {output}"
            assert "Secure Renegotiation IS supported" in output, f"{name}: {output}"  # which is the extension alone
            output = renegotiation(cluster, name, authority, "-tls1_2", *alpn.get(name, ()))
            assert "RENEGOTIATING" in output and "no renegotiation" in output, f"{name}: {output}"
            assert output.count("verify return:1") <= 2, f"{name}: {output}"  # the chain of one handshake
            for version in ("-tls1", "-tls1_1"):
                status, output = s_client(cluster, name, authority, version, "-cipher", "ALL:@SECLEVEL=0",
                                          *alpn.get(name, ()))
                assert status != 0 and "Cipher is (NONE)" in output, f"{name} {version}: {output}"
            for garbage in (b"\x16" + os.urandom(3000), b"\x16\x03\x01\xff\xff" + bytes(70_000), b"\x16", b"\x80\x2e\x01\x03",
                            os.urandom(20_000), b"\x15\x03\x03\x00\x02\x02\x28", b"\x14\x03\x03\x00\x01\x01"):
                with socket.create_connection((harness.HOST, port_of(cluster, name)), client_tls.PATIENCE_SECONDS) as raw:
                    with contextlib.suppress(OSError):
                        raw.sendall(garbage)
                        raw.shutdown(socket.SHUT_WR)
                        while raw.recv(1 << 16):
                            pass
            assert accepts(cluster, name, authority, store_for(cluster, name, authority)), name


# --- Revocation ------------------------------------------------------------------------------------------------------


def revocation_list(authority, *revoked):
    """Returns a list of the authority, in PEM, that has the certificates."""
    directory = authority.path("lists")
    os.makedirs(directory, exist_ok=True)
    configuration = os.path.join(directory, "openssl.cnf")
    database = os.path.join(directory, "index.txt")
    with open(configuration, "w", encoding="ascii") as file:
        file.write(f"[ca]\ndefault_ca=own\n[own]\ndatabase={database}\ndefault_md=sha256\ndefault_crl_days=30\n")
    with open(database, "w", encoding="ascii"):
        pass
    base = ("openssl", "ca", "-config", configuration, "-cert", authority.certificate, "-keyfile", authority.key)
    for certificate in revoked:
        certificates.run(*base, "-revoke", certificate)
    return certificates.run(*base, "-gencrl")


def publish(path, text):
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(text)
    os.replace(path + ".new", path)


def test_revoked_certificates_are_refused_on_each_port_as_soon_as_the_list_says_so():
    place = member_tls.Place()
    try:
        authority = place.authority
        _, certificate, store = authority.issue("alice", "member", "/CN=alice")
        bob = authority.issue("bob", "member", "/CN=bob")[2]
        publish(authority.certificate + ".crl", revocation_list(authority))
        keys = {**place.stores(), "sslQuorum": "true", "ssl.quorum.crl": "true", "sslQuorumReloadCertFiles": "true",
                "client.certReload": "true", "ssl.crl": "true", "client.portUnification": "true",
                "ssl.keyStore.location": place.members[0], "ssl.trustStore.location": authority.certificate,
                "admin.forceHttps": "true", "admin.needClientAuth": "true"}
        with harness.Cluster("quorate", 3, [f"{key}={value}" for key, value in keys.items()]) as cluster:
            ports = [name for name in PORTS if name != "gRPC"]  # which is refused with ssl.crl
            for name in ports:
                assert accepts(cluster, name, authority, store), name
            publish(authority.certificate + ".crl", revocation_list(authority, certificate))
            for name in ports:
                harness.wait_for(f"{name}: the certificate is revoked",
                                 lambda name=name: not accepts(cluster, name, authority, store), client_tls.PATIENCE_SECONDS)
                assert accepts(cluster, name, authority, bob), name
            assert "certificate revoked" in cluster.log(1), cluster.log(1)
            cluster.check_alive()
    finally:
        shutil.rmtree(place.directory, ignore_errors=True)


# --- Changed certificates --------------------------------------------------------------------------------------------


def http_answer(connection):
    """Sends a request on an open connection, and returns the first line of the answer."""
    connection.sendall(b"GET /commands/ruok HTTP/1.1\r\nHost: a\r\n\r\n")
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = connection.recv(1 << 16)
        assert piece, "the connection was closed"
        answer += piece
    return answer.split(b"\r\n")[0]


def test_changed_certificates_are_used_on_each_port_and_no_connection_is_dropped():
    with secured(**{"client.certReload": "true", "sslQuorumReloadCertFiles": "true"}) as (authority, cluster):
        with open(authority.admin, "rb") as file:
            own = file.read()
        with open(authority.certificate, "rb") as file:
            secure = grpc.ssl_channel_credentials(file.read(), own, own)
        states, events = [], []
        with kazoo(cluster, authority) as client, \
                grpc.secure_channel(f"{harness.HOST}:{port_of(cluster, 'gRPC')}", secure) as channel, \
                socket.create_connection((harness.HOST, port_of(cluster, "HTTP")), client_tls.PATIENCE_SECONDS) as raw, \
                context_of(authority, authority.admin).wrap_socket(raw, server_hostname=harness.HOST) as web:
            client.add_listener(events.append)
            client.create("/a", b"")
            call = channel.unary_unary(STATUS, native.cluster.StatusRequest.SerializeToString,
                                       native.cluster.StatusResponse.FromString)
            assert call(native.cluster.StatusRequest(), timeout=client_tls.PATIENCE_SECONDS).member == 1
            channel.subscribe(lambda state: states.append(state.name))
            assert http_answer(web) == b"HTTP/1.1 200 OK"
            leader = cluster.leader()
            links = [cluster.log(member).count("connected to server") for member in cluster.numbers()]
            before = {name: shown(cluster, name, authority) for name in PORTS}
            store = os.path.join(cluster.dir, "certs", f"{harness.HOST}.pem")
            fresh = authority.issue("fresh", "member", "/CN=fresh")[2]
            shutil.copy(fresh, store + ".new")
            os.replace(store + ".new", store)
            for name in PORTS:
                harness.wait_for(f"{name} shows the new certificate",
                                 lambda name=name: shown(cluster, name, authority) != before[name],
                                 client_tls.PATIENCE_SECONDS)
            client.set("/a", b"1")
            assert call(native.cluster.StatusRequest(), timeout=client_tls.PATIENCE_SECONDS).member == 1
            assert http_answer(web) == b"HTTP/1.1 200 OK"
            assert not events, events
            assert set(states) <= {"READY"}, states
            assert cluster.leader() == leader
            assert links == [cluster.log(member).count("connected to server") for member in cluster.numbers()]
