# SPDX-License-Identifier: Apache-2.0
"""Tests `quorate certs`: what it makes serves a server, Kazoo and ZooKeeper's shell, is its owner's alone, and is never
replaced."""

import contextlib
import json
import os
import shutil
import socket
import ssl
import stat
import subprocess
import tempfile

import client_tls
import harness
import quorate_cli
from kazoo.exceptions import NoAuthError
from kazoo.security import make_acl


@contextlib.contextmanager
def directory():
    made = tempfile.mkdtemp(prefix="quorate-certs-")
    try:
        yield os.path.join(made, "certs")
    finally:
        shutil.rmtree(made, ignore_errors=True)


def certs(*arguments, status=0):
    """Runs `quorate certs`. Returns its standard output; with a status other than 0, its errors."""
    result = quorate_cli.run("certs", *arguments)
    assert result.returncode == status, f"{arguments}: {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout if status == 0 else result.stderr


class Identity:
    """A key with its certificate, and the CA, as client_tls.kazoo takes them."""

    def __init__(self, path, name):
        self.path, self.certificate = os.path.join(path, f"{name}.pem"), os.path.join(path, "ca.pem")
        self.pair = (self.path, self.path)


def settings(path, host):
    """Returns the lines for clients that `quorate certs create` prints for a zoo.cfg, with one port for all."""
    document = json.loads(certs("create", path, host, "--json", "--p12"))
    lines = document["certificates"][0]["configuration"]
    return [line for line in lines if line.startswith("ssl.")] + ["client.portUnification=true"]


def test_what_it_makes_serves():
    with directory() as path:
        lines = settings(path, f"{harness.HOST},localhost")
        certs("client", path, "alice", "bob", "--p12")
        alice, bob = (Identity(path, f"client-{name}") for name in ("alice", "bob"))
        with harness.Cluster("quorate", 1, lines) as cluster:
            with client_tls.kazoo(cluster.hosts(), alice.pair, alice) as client:
                client.create("/private", b"secret", acl=[make_acl("x509", "CN=alice", all=True)])
                assert client.get("/private")[0] == b"secret"
            with client_tls.kazoo(cluster.hosts(), bob.pair, bob) as client:
                try:
                    client.get("/private")
                    raise AssertionError("bob reads what is alice's")
                except NoAuthError:
                    pass
            names_are_checked(cluster.address(1), alice)
            words = client_tls.zookeeper_shell(cluster.hosts(), {
                "keyStore.location": os.path.join(path, "client-alice.p12"),
                "keyStore.passwordPath": os.path.join(path, "password"),
                "trustStore.location": os.path.join(path, "ca.p12"),
                "trustStore.passwordPath": os.path.join(path, "password")}, "get /private")
            assert "secret" in words, words
            cluster.check_alive()


def names_are_checked(address, client):
    """Checks that the server's certificate is valid for the names that were given, and for no other one."""
    host, port = address.rsplit(":", 1)
    for name, is_good in ((host, True), ("localhost", True), ("127.0.0.2", False), ("example.com", False)):
        context = ssl.create_default_context(cafile=client.certificate)
        context.load_cert_chain(client.path)
        try:
            with socket.create_connection((host, int(port)), client_tls.PATIENCE_SECONDS) as raw, \
                    context.wrap_socket(raw, server_hostname=name):
                assert is_good, name
        except ssl.SSLCertVerificationError as error:
            assert not is_good, f"{name}: {error}"


def test_java_trusts_what_it_makes():
    if shutil.which("keytool") is None:
        raise harness.Skipped("there is no keytool")
    with directory() as path:
        certs("create", path, "zk1", "--p12")
        for store, kind in (("ca", "trustedCertEntry"), ("zk1", "PrivateKeyEntry")):
            result = subprocess.run(
                ["keytool", "-list", "-keystore", os.path.join(path, f"{store}.p12"), "-storepass:file",
                 os.path.join(path, "password")], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                check=False)
            assert kind in result.stdout, result.stdout + result.stderr


def test_files_are_the_owners_alone_whatever_the_umask_is():
    with directory() as path:
        before = os.umask(0)
        try:
            certs("create", path, "zk1", "--p12")
            certs("client", path, "alice")
        finally:
            os.umask(before)
        modes = {name: stat.S_IMODE(os.stat(os.path.join(path, name)).st_mode) for name in os.listdir(path)}
        assert set(modes) == {"ca.key", "ca.pem", "ca.p12", "zk1.pem", "zk1.p12", "client-alice.pem", "password"}, modes
        assert set(modes.values()) == {0o600}, modes
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o700


def test_no_file_is_replaced_and_members_can_be_added():
    with directory() as path:
        certs("create", path, "zk1")
        files = {name: contents(os.path.join(path, name)) for name in os.listdir(path)}
        assert "zk1.pem is there already" in certs("create", path, "zk2", "zk1", status=1)
        assert not os.path.exists(os.path.join(path, "zk2.pem"))  # nothing of it was made
        certs("create", path, "zk2,10.0.0.2")
        certs("client", path, "alice")
        for name, content in files.items():
            assert contents(os.path.join(path, name)) == content, name
        for name in ("zk2", "client-alice"):
            subprocess.run(["openssl", "verify", "-x509_strict", "-CAfile", os.path.join(path, "ca.pem"),
                            os.path.join(path, f"{name}.pem")], check=True, capture_output=True, timeout=60)
        os.remove(os.path.join(path, "ca.key"))
        assert "ca.key" in certs("create", path, "zk3", status=1)
        assert not os.path.exists(os.path.join(path, "ca.key"))
        assert "there is no CA" in certs("client", os.path.dirname(path), "bob", status=1)


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def test_wrong_names_are_wrong_usage():
    with directory() as path:
        for arguments in (("create", path, "zk1:2181"), ("create", path, "a b"), ("create", path, "zk1,"),
                          ("create", path), ("create", path, "zk1", "--days", "0"), ("client", path, "../x"),
                          ("client", path, "CN=x"), ("create", path, "ca")):
            certs(*arguments, status=2)
        assert not os.path.exists(path)
        assert "--days" in certs("create", path, "zk1", "--days", "20", "--ca-days", "10", status=2)


def test_a_wrong_password_leaves_no_files():
    with directory() as path:
        short = os.path.join(os.path.dirname(path), "short")
        with open(short, "w", encoding="utf-8") as file:
            file.write("12345\n")
        os.chmod(short, 0o600)
        assert "shorter than 6" in certs("create", path, "zk1", "--p12", "--password-file", short, status=2)
        assert os.listdir(path) == []
        certs("create", path, "zk1")
        before = sorted(os.listdir(path))
        certs("client", path, "alice", "--p12", "--password-file", short, status=2)
        assert sorted(os.listdir(path)) == before


def test_a_client_has_no_member_s_name_and_others_cannot_write_to_the_directory():
    with directory() as path:
        certs("create", path, "zk1,10.0.0.1")
        assert "the member of" in certs("client", path, "zk1", status=1)
        assert not os.path.exists(os.path.join(path, "client-zk1.pem"))
        os.chmod(path, 0o770)
        assert "chmod 700" in certs("client", path, "alice", status=1)


def test_show_says_what_is_in_a_store():
    with directory() as path:
        certs("create", path, "zk1,10.0.0.1", "--p12", "--days", "20")
        shown = certs("show", os.path.join(path, "zk1.pem"))
        for text in ("CN=zk1", "DNS:zk1, IP:10.0.0.1", "server, client", "days left", "its private key is here"):
            assert text in shown, shown
        assert "BEGIN" not in shown
        password = ("--password-file", os.path.join(path, "password"))
        document = json.loads(certs("--json", "show", os.path.join(path, "zk1.p12"), *password))
        assert [each["uses"] for each in document["certificates"]] == [["server", "client"], ["CA"]], document
        shown = certs("show", os.path.join(path, "ca.p12"), *password)
        assert "CA" in shown and "private" not in shown, shown
        assert "password" in certs("show", os.path.join(path, "ca.p12"), status=1)
        certs("show", os.path.join(path, "zk1.pem"), "--valid-for", "19")
        assert "renew" in certs("show", os.path.join(path, "zk1.pem"), "--valid-for", "21", status=1)
