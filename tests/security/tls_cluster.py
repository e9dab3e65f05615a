# SPDX-License-Identifier: Apache-2.0
"""Tests `tools/cluster start --tls`: all ports of such a cluster require TLS and a certificate of its CA, and the commands
of tools/cluster, `quorate` and clients work with it."""

import contextlib
import os
import socket
import ssl

import client_tls
import harness
import quorate_cli

CLIENTS, GRPC, MEMBERS, HTTP = 0, 100, 200, 300  # the offsets of the ports


class Files:
    """The certificates of a cluster, as client_tls.kazoo takes them."""

    def __init__(self, cluster):
        self.certificate = os.path.join(cluster.dir, "certs/ca.pem")
        self.own = os.path.join(cluster.dir, "certs/client-admin.pem")
        self.pair = (self.own, self.own)


def answers(port, files, certificate, protocol=None, request=b"srvr"):
    """Returns whether a port answers on a connection with this certificate; None: without one."""
    context = ssl.create_default_context(cafile=files.certificate)
    if protocol:
        context.set_alpn_protocols([protocol])
    if certificate:
        context.load_cert_chain(certificate)
    try:
        with socket.create_connection((harness.HOST, port), client_tls.PATIENCE_SECONDS) as raw, \
                context.wrap_socket(raw, server_hostname=harness.HOST) as connection:
            connection.sendall(request)
            connection.settimeout(client_tls.PATIENCE_SECONDS)
            # With TLS 1.3, a refusal of the certificate comes when the client reads.
            return bool(connection.recv(1 << 16))
    except (ssl.SSLError, ConnectionError):
        return False


def no_port_serves_without_a_certificate(cluster, files):
    for offset in (CLIENTS, GRPC, MEMBERS, HTTP):
        port = cluster.ports.base + offset + 1
        assert not answers(port, files, None, "h2" if offset == GRPC else None), f"offset {offset}"
        with socket.create_connection((harness.HOST, port), client_tls.PATIENCE_SECONDS) as raw:
            raw.settimeout(client_tls.PATIENCE_SECONDS)
            with contextlib.suppress(ConnectionError):
                plain = {CLIENTS: b"ruok", HTTP: b"GET / HTTP/1.0\r\n\r\n"}
                raw.sendall(plain.get(offset, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
                raw.shutdown(socket.SHUT_WR)
                received = b"".join(iter(lambda: raw.recv(1 << 16), b""))
                assert b"imok" not in received and b"200 OK" not in received, received
    assert answers(cluster.ports.base + CLIENTS + 1, files, files.own)
    assert answers(cluster.ports.base + GRPC + 1, files, files.own, "h2")
    assert answers(cluster.ports.base + HTTP + 1, files, files.own, request=b"GET / HTTP/1.1\r\n\r\n")


def test_every_port_requires_a_certificate_and_every_command_works():
    with harness.Cluster("quorate", 3, tls=True) as cluster:
        files = Files(cluster)
        no_port_serves_without_a_certificate(cluster, files)
        assert cluster.hosts() == cluster.command("hosts")
        table = cluster.command("status")
        assert table.count("follower") == 2 and table.count("leader") == 1, table
        status = cluster.command("cli", "status")
        assert "leader" in status, status
        # Without the certificate of an administrator nobody gets a backup.
        certs = os.path.join(cluster.dir, "certs")
        done = quorate_cli.run("certs", "client", certs, "alice")
        assert done.returncode == 0, done.stderr
        alice = os.path.join(certs, "client-alice.pem")
        backup = os.path.join(cluster.parent, "backup")
        done = quorate_cli.run("--server", cluster.command("grpc"), "--tls", "--ca", files.certificate, "--cert", alice,
                               "--key", alice, "backup", backup)
        assert done.returncode == 1 and not os.path.exists(backup), done.stderr
        cluster.command("cli", "backup", backup)
        leader = cluster.leader()
        with client_tls.kazoo(cluster.hosts(), files.pair, files) as client:
            client.create("/a", b"1")
            cluster.kill(leader)
            cluster.wait_until("another member leads", lambda: cluster.command("leader", check=False).returncode == 0)
            client.retry(client.set, "/a", b"2")
            cluster.restart(leader)
            client.retry(client.set, "/a", b"3")
        cluster.check_alive()


def test_a_stopped_cluster_keeps_its_certificates_and_data():
    with harness.Cluster("quorate", 1, tls=True) as cluster:
        files = Files(cluster)
        with client_tls.kazoo(cluster.hosts(), files.pair, files) as client:
            client.create("/a", b"1")
        with open(files.own, "rb") as file:
            own = file.read()
        cluster.command("down")
        cluster.command("start")  # --tls is kept
        with open(files.own, "rb") as file:
            assert file.read() == own
        with client_tls.kazoo(cluster.hosts(), files.pair, files) as client:
            assert client.get("/a")[0] == b"1"
