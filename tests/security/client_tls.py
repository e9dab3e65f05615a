# SPDX-License-Identifier: Apache-2.0
"""Tests TLS of ZooKeeper clients, with clients that nobody here wrote: Kazoo, ZooKeeper's shell, and openssl."""

import contextlib
import glob
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time

import certificates
import harness
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_acl

PATIENCE_SECONDS = 20
JARS = "/usr/share/java"
SHELL_JARS = ("zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop", "commons-cli", "jline", "log4j-1.2",
              "snappy-java", "metrics-core")


class Place:
    """A directory with an authority, the server's certificate, and those of two clients."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="quorate-tls-")
        self.authority = certificates.Authority(self.directory)
        self.server = self.authority.issue("server", "server", "/O=Example/CN=server")
        self.alice = self.authority.issue("alice", "client", "/C=US/O=Example/OU=dev/CN=alice")
        self.admin = self.authority.issue("admin", "client", "/O=Example/CN=admin")

    def path(self, name):
        return os.path.join(self.directory, name)

    def settings(self, **more):
        """Returns lines of a configuration with the PEM stores. In names of `more`, "__" stands for a dot."""
        keys = {"ssl.keyStore.location": self.server[2], "ssl.trustStore.location": self.authority.certificate,
                "client.portUnification": "true", "X509AuthenticationProvider.superUser": "CN=admin,O=Example"}
        keys.update({name.replace("__", "."): value for name, value in more.items()})
        return [f"{key}={value}" for key, value in keys.items() if value is not None]


@contextlib.contextmanager
def place():
    made = Place()
    try:
        yield made
    finally:
        shutil.rmtree(made.directory, ignore_errors=True)


@contextlib.contextmanager
def served(size=1, **more):
    """Yields (place, cluster) whose servers take clients with and without TLS on their client ports."""
    with place() as made, harness.Cluster("quorate", size, made.settings(**more)) as cluster:
        yield made, cluster
        cluster.check_alive()


@contextlib.contextmanager
def kazoo(hosts, certificate=None, authority=None, **options):
    """Yields a client that uses TLS if `authority` is given."""
    if authority is not None:
        options.update(use_ssl=True, ca=authority.certificate, verify_certs=True)
    if certificate is not None:
        options.update(keyfile=certificate[0], certfile=certificate[1])
    client = KazooClient(hosts, timeout=10, **options)
    client.start(timeout=PATIENCE_SECONDS)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def refused(address, certificate, authority):
    """Returns whether a client with this certificate gets no answer to a four-letter word."""
    context = ssl.create_default_context(cafile=authority.certificate)
    if certificate is not None:
        context.load_cert_chain(certificate[1], certificate[0])
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), PATIENCE_SECONDS) as raw, \
                context.wrap_socket(raw, server_hostname=host) as client:
            client.sendall(b"srvr")
            # With TLS 1.3 a client learns that its certificate is refused when it reads.
            answer = client.recv(1 << 16)
    except (ssl.SSLError, ConnectionError):
        return True
    assert not answer or answer.startswith(b"Zookeeper version"), answer
    return not answer


def openssl(address, *arguments, text="ruok"):
    """Sends a four-letter word with openssl. Returns (exit status, output)."""
    result = subprocess.run(["openssl", "s_client", "-connect", address, "-quiet", *arguments], input=text,
                            capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    return result.returncode, result.stdout + result.stderr


def test_a_client_with_a_certificate_has_its_identity_on_every_member():
    with served(3) as (made, cluster):
        everything = make_acl("x509", "CN=alice,OU=dev,O=Example,C=US", all=True)
        with kazoo(cluster.hosts(), made.alice, made.authority) as alice:
            alice.create("/private", b"secret", acl=[everything])
            value = b"x" * 900_000  # many records of TLS
            alice.create("/large", value)
            assert alice.get("/large")[0] == value
            assert alice.get("/private")[0] == b"secret"
        for member in cluster.numbers():
            with kazoo(cluster.address(member), made.alice, made.authority) as alice:
                alice.sync("/")
                assert alice.get("/private")[0] == b"secret"
                assert alice.get("/large")[0] == value
            with kazoo(cluster.address(member)) as plain:
                assert plain.exists("/private") is not None
                try:
                    plain.get("/private")
                    raise AssertionError("a client without a certificate reads what is alice's")
                except NoAuthError:
                    pass
            with kazoo(cluster.address(member), made.admin, made.authority) as admin:
                assert admin.get("/private")[0] == b"secret"  # the super user


def test_certificates_are_needed_or_not_as_the_configuration_says():
    with place() as made:
        other = certificates.Authority(made.directory, "other")
        stranger = other.issue("stranger", "client", "/CN=stranger")
        expired = made.authority.issue("expired", "client", "/CN=expired", days=-1)
        # Whether a client gets a session: without a certificate, with a good one, and with a bad one.
        for auth, expected in (("need", (False, True, False)), ("want", (True, True, False)), ("none", (True, True, True))):
            with harness.Cluster("quorate", 1, made.settings(ssl__clientAuth=auth)) as cluster:
                got = tuple(not refused(cluster.hosts(), certificate, made.authority)
                            for certificate in (None, made.alice, stranger))
                assert got == expected, f"{auth}: {got}"
                if auth == "need":
                    assert refused(cluster.hosts(), expired, made.authority)
                    failed = cluster.monitor(1)["unsuccessful_handshake"]
                    assert int(failed) >= 3, failed
                    assert "the TLS handshake with 127.0.0.1 failed: " in cluster.log(1), cluster.log(1)
                cluster.check_alive()


def test_the_address_of_a_client_is_compared_with_its_certificate():
    with place() as made:
        here = made.authority.issue("here", "client", "/CN=here", names="IP:127.0.0.1")
        elsewhere = made.authority.issue("elsewhere", "client", "/CN=elsewhere", names="IP:192.0.2.1,DNS:localhost")
        for verified, expected in ((None, (True, True, True)), ("true", (True, False, True)), ("false", (True, True, True))):
            lines = made.settings(ssl__clientHostnameVerification="true" if verified else None,
                                  ssl__hostnameVerification=verified, ssl__clientAuth="want")
            with harness.Cluster("quorate", 1, lines) as cluster:
                got = tuple(not refused(cluster.hosts(), certificate, made.authority)
                            for certificate in (here, elsewhere, None))
                assert got == expected, f"{verified}: {got}\n{cluster.log(1)}"
                if not all(expected):
                    cluster_log_has(cluster, "the certificate CN=elsewhere is not for the host 127.0.0.1, but for "
                                    "192.0.2.1, localhost (ssl.clientHostnameVerification)")
                    values = cluster.monitor(1)
                    assert int(values["unsuccessful_handshake"]) == int(values["auth_failed_count"]) == 1, values
                cluster.check_alive()


def test_connections_to_ports_without_tls_are_counted():
    with place() as made:
        with harness.Cluster("quorate", 1, made.settings(client__portUnification=None)) as cluster:
            before = int(cluster.monitor(1)["non_mtls_local_conn_count"])
            with kazoo(cluster.hosts()) as client:
                client.exists("/")
            values = cluster.monitor(1)
            # Those of the client, and the one of this request.
            assert int(values["non_mtls_local_conn_count"]) >= before + 2, values
            assert int(values["non_mtls_remote_conn_count"]) == 0, values


def test_stores_of_every_kind_serve():
    if shutil.which("keytool") is None:
        raise harness.Skipped("there is no keytool")
    with place() as made:
        p12 = certificates.pkcs12(made.directory, "server", *made.server[:2], made.authority)
        password_file = made.path("password")
        with open(password_file, "w", encoding="ascii") as file:
            file.write(certificates.PASSWORD + "\n")
        trust_p12 = certificates.trust_store(made.directory, "trust", made.authority, "PKCS12")
        jks = certificates.jks(made.directory, "server", p12)
        trust_jks = certificates.trust_store(made.directory, "trust", made.authority, "JKS")
        for keys, trust in ((p12, trust_p12), (jks, trust_jks)):
            more = {"ssl__keyStore__location": keys, "ssl__keyStore__passwordPath": password_file,
                    "ssl__trustStore__location": trust, "ssl__trustStore__password": certificates.PASSWORD}
            with harness.Cluster("quorate", 1, made.settings(**more)) as cluster:
                assert not refused(cluster.hosts(), made.alice, made.authority), f"{keys}\n{cluster.log(1)}"
                assert certificates.PASSWORD not in cluster.log(1)


def test_a_port_of_its_own_takes_tls_alone():
    port = harness.Reservation(1)
    try:
        address = f"{harness.HOST}:{port.base + 1}"
        with served(client__portUnification="false", secureClientPort=port.base + 1) as (made, cluster):
            assert not refused(address, made.alice, made.authority)
            assert refused(cluster.hosts(), made.alice, made.authority)
            with kazoo(cluster.hosts()) as plain:
                plain.create("/a", b"1")
            with socket.create_connection((harness.HOST, port.base + 1), PATIENCE_SECONDS) as raw:
                raw.sendall(b"ruok\n\n")  # as long as the head of a record
                raw.settimeout(PATIENCE_SECONDS)
                with contextlib.suppress(ConnectionError):
                    assert b"imok" not in raw.recv(100)
    finally:
        port.release()


def test_versions_ciphers_and_words():
    with served(ssl__enabledProtocols="TLSv1.2", ssl__clientAuth="none", **{
            "ssl__ciphersuites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,NO_SUCH_CIPHER"}) as (made, cluster):
        address = cluster.address(1)
        status, output = openssl(address, "-CAfile", made.authority.certificate, "-verify_return_error", text="srvr")
        assert status == 0 and "Zookeeper version" in output, output
        assert openssl(address, "-tls1_3")[0] != 0
        assert openssl(address, "-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256")[0] != 0
        assert "NO_SUCH_CIPHER" in cluster.log(1)


def test_changed_certificates_are_used_without_a_restart():
    with served(client__certReload="true") as (made, cluster):
        with kazoo(cluster.hosts(), made.alice, made.authority) as alice:
            alice.create("/a", b"1")
            other = certificates.Authority(made.directory, "next")
            server = other.issue("server", "server", "/CN=server")
            shutil.copy(other.certificate, made.authority.certificate + ".new")
            shutil.copy(server[2], made.server[2] + ".new")
            # First a store that is broken: it changes nothing.
            with open(made.server[2] + ".bad", "w", encoding="ascii") as file:
                file.write("-----BEGIN PRIVATE KEY-----\nAAAA\n")
            good = made.path("good.pem")
            shutil.copy(made.server[2], good)
            os.replace(made.server[2] + ".bad", made.server[2])
            cluster_log_has(cluster, "the changed stores of TLS cannot be used")
            assert not refused(cluster.hosts(), made.alice, made.authority)
            old = made.path("old-ca.pem")
            shutil.copy(made.authority.certificate, old)
            os.replace(made.server[2] + ".new", made.server[2])
            os.replace(made.authority.certificate + ".new", made.authority.certificate)
            cluster_log_has(cluster, "the stores of TLS have changed")
            bob = other.issue("bob", "client", "/CN=bob")
            deadline = time.monotonic() + PATIENCE_SECONDS
            while refused(cluster.hosts(), bob, other):
                assert time.monotonic() < deadline, cluster.log(1)
            assert alice.get("/a")[0] == b"1"  # its connection is the one from before


def cluster_log_has(cluster, text):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while text not in cluster.log(1):
        assert time.monotonic() < deadline, f"no {text!r} in\n{cluster.log(1)}"
        time.sleep(0.05)


def zookeeper_shell(hosts, ssl_properties, line):
    """Runs a command of ZooKeeper's shell over TLS. Returns its output."""
    jars = [os.path.join(JARS, f"{name}.jar") for name in SHELL_JARS]
    # Debian's netty-all.jar lacks parts of Netty.
    netty = [jar for jar in glob.glob(f"{JARS}/netty-*.jar") if "Final" not in jar and "-all" not in jar]
    if not netty:
        raise harness.Skipped("there is no Netty")
    jars = [jar for jar in jars if os.path.exists(jar)] + glob.glob(f"{JARS}/jline*.jar") + netty
    options = {"client.secure": "true", "clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
               **{f"ssl.{name}": value for name, value in ssl_properties.items()}}
    command = ["java", *(f"-Dzookeeper.{key}={value}" for key, value in options.items()), "-cp", ":".join(jars),
               "org.apache.zookeeper.ZooKeeperMain", "-waitforconnection", "-server", hosts]
    result = subprocess.run([*command, *line.split()], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=60, check=False)
    return result.stdout + result.stderr


def test_the_shell_of_zookeeper_uses_tls_and_its_certificate_is_an_identity():
    with served() as (made, cluster):
        p12 = certificates.pkcs12(made.directory, "alice", *made.alice[:2], made.authority)
        stores = {"PKCS12": (p12, certificates.trust_store(made.directory, "trust12", made.authority, "PKCS12")),
                  "JKS": (certificates.jks(made.directory, "alice", p12),
                          certificates.trust_store(made.directory, "trust", made.authority, "JKS"))}
        admin = certificates.pkcs12(made.directory, "admin", *made.admin[:2], made.authority)
        for kind, (keys, trust) in stores.items():
            options = {"keyStore.location": keys, "keyStore.password": certificates.PASSWORD,
                       "trustStore.location": trust, "trustStore.password": certificates.PASSWORD}
            path = f"/by-{kind}"
            for line, expected in ((f"create {path} secret auth::cdrwa", f"Created {path}"), (f"get {path}", "secret"),
                                   (f"getAcl {path}", "'x509,'CN=alice"), ("whoami", "x509")):
                words = zookeeper_shell(cluster.hosts(), options, line)
                assert expected in words, f"{kind}: {words}"
            with kazoo(cluster.hosts()) as plain:
                try:
                    plain.get(path)
                    raise AssertionError("a client without a certificate reads what is alice's")
                except NoAuthError:
                    pass
            options["keyStore.location"] = admin
            assert "secret" in zookeeper_shell(cluster.hosts(), options, f"get {path}"), "the super user"


def test_the_c_library_of_debian_has_neither_tls_nor_sasl():
    """docs/guides/c.md says so. If a later build has them, it has to be tested here."""
    libraries = glob.glob("/usr/lib/*/libzookeeper_?t.so.2")
    assert len(libraries) >= 2, f"the C library of Debian (libzookeeper-mt2, libzookeeper-st2) is not installed: {libraries}"
    for library in libraries:
        symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, timeout=60,
                                 check=True).stdout.split()
        assert "zookeeper_init" in symbols, library
        assert not {"zookeeper_init_ssl", "zookeeper_init_sasl", "zoo_sasl_make_basic_callbacks"} & set(symbols), library
        needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, timeout=60, check=True).stdout
        assert "libssl" not in needed and "libsasl" not in needed, needed


def test_properties_in_the_environment_are_settings_too():
    with place() as made:
        settings = [line for line in made.settings() if not line.startswith("ssl.")]
        options = " ".join(f"-Dzookeeper.{line}" for line in made.settings() if line.startswith("ssl."))
        environment = {"SERVER_JVMFLAGS": f"-Xmx1g {options} -Dzookeeper.ssl.clientAuth=want",
                       "JVMFLAGS": "-Dzookeeper.ssl.clientAuth=need"}  # comes later
        with harness.Cluster("quorate", 1, settings, environment=environment) as cluster:
            assert not refused(cluster.hosts(), made.alice, made.authority)
            assert refused(cluster.hosts(), None, made.authority)
        for option, expected in (("ssl.clientAth=need", "ssl.clientAth"), ("ssl.clientAuth=needed", "ssl.clientAuth"),
                                 ("ssl.ocsp=true", "ssl.ocsp"), ("secureClientPort=2", "secureClientPort"),
                                 ("quorum.auth.enableSasl=true", "memberSecretFile"),
                                 ("ssl.quorum.enabledProtocols=TLSv1", "TLSv1.2 or TLSv1.3")):
            with harness.Cluster("quorate", 1, settings, start=False,
                                 environment={"SERVER_JVMFLAGS": f"{options} -Dzookeeper.{option}"}) as cluster:
                try:
                    cluster.start()
                    raise AssertionError(f"the server starts with {option}")
                except RuntimeError as error:
                    assert expected in cluster.log(1) + str(error), cluster.log(1)


def test_half_handshakes_hold_nobody_up():
    with served(**{"netty__server__outstandingHandshake__limit": "50",
                   "ssl__handshakeDetectionTimeoutMillis": "1000"}) as (made, cluster):
        host, port = cluster.address(1).rsplit(":", 1)
        idle = []
        try:
            for number in range(300):
                raw = socket.create_connection((host, int(port)), PATIENCE_SECONDS)
                idle.append(raw)
                # A record that promises more, or nothing at all.
                with contextlib.suppress(OSError):
                    raw.sendall(b"\x16\x03\x01\x40\x00\x01" if number % 2 else b"")
            with kazoo(cluster.hosts()) as plain:  # may wait for the time of detection
                plain.create("/plain", b"")
            assert int(cluster.monitor(1)["tls_handshake_exceeded"]) > 0
        finally:
            for raw in idle:
                raw.close()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while int(cluster.monitor(1)["outstanding_tls_handshake"]) > 1:
            assert time.monotonic() < deadline, cluster.monitor(1)
        assert not refused(cluster.hosts(), made.alice, made.authority)
        for garbage in (b"\x16" + os.urandom(3000), b"\x16\x03\x01\xff\xff" + bytes(70_000), b"\x16"):
            with socket.create_connection((host, int(port)), PATIENCE_SECONDS) as raw:
                with contextlib.suppress(OSError):
                    raw.sendall(garbage)
                    raw.shutdown(socket.SHUT_WR)
                    raw.settimeout(PATIENCE_SECONDS)
                    while raw.recv(1 << 16):
                        pass
        assert not refused(cluster.hosts(), made.alice, made.authority)
