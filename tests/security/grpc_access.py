# SPDX-License-Identifier: Apache-2.0
"""Tests who reaches the gRPC port and what they may do there: TLS and certificates, administrators by certificate,
token, password and Unix socket, this machine and another one, and what the command line says when it is refused."""

import base64
import contextlib
import os
import shutil
import stat
import subprocess
import time

import certificates
import far_away
import grpc
import harness
import native
import quorate_cli
from client_tls import PATIENCE_SECONDS, Place, cluster_log_has, place

SUPER_DIGEST = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="  # of super:secret
TOKEN = "0123456789abcdef0123456789abcdef"
OTHER_TOKEN = "fedcba9876543210fedcba9876543210"
ADMIN = "CN=admin,O=Example"
# The suites that OpenSSL has for TLS 1.3.
TLS13 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
DENIED = ("UNAUTHENTICATED", "PERMISSION_DENIED")
BACKUP = "/quorate.v1.ClusterService/Backup"


def write(path, text, mode=0o600):
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(path + ".new", mode)
    os.replace(path + ".new", path)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


def grpc_address(cluster, member=1):
    return cluster.command("grpc").split(",")[member - 1]


def settings(made, **more):
    """Returns a configuration with TLS for gRPC, and one port for ZooKeeper clients with and without TLS."""
    return made.settings(**{"grpcTls": "true", **more})


def credentials(authority, certificate=None):
    """Returns gRPC's credentials of a client that trusts `authority`, with the (key, certificate, ...) if given."""
    own = (read(certificate[0]), read(certificate[1])) if certificate else (None, None)
    return grpc.ssl_channel_credentials(read(authority.certificate), *own)


@contextlib.contextmanager
def channel(address, secure=None):
    options = [("grpc.use_local_subchannel_pool", 1)]
    made = grpc.secure_channel(address, secure, options) if secure else grpc.insecure_channel(address, options)
    try:
        yield made
    finally:
        made.close()


def code_of(error):
    return error.code().name


def backup(address, secure=None, metadata=()):
    """Asks for a backup. Returns ("OK" or the code, the message)."""
    with channel(address, secure) as made:
        call = made.unary_stream(BACKUP, native.cluster.BackupRequest.SerializeToString,
                                 native.cluster.BackupResponse.FromString)
        try:
            parts = list(call(native.cluster.BackupRequest(), timeout=PATIENCE_SECONDS, metadata=metadata))
            assert parts[-1].WhichOneof("part") == "end", parts[-1]
            return "OK", ""
        except grpc.RpcError as error:
            return code_of(error), error.details()


def status(address, secure=None, metadata=()):
    with channel(address, secure) as made:
        call = made.unary_unary("/quorate.v1.ClusterService/Status", native.cluster.StatusRequest.SerializeToString,
                                native.cluster.StatusResponse.FromString)
        return call(native.cluster.StatusRequest(), timeout=PATIENCE_SECONDS, metadata=metadata)


def serves(address, secure=None):
    """Returns whether a client with these credentials gets an answer at all."""
    try:
        return status(address, secure).member > 0
    except grpc.RpcError as error:
        assert code_of(error) == "UNAVAILABLE", error
        return False


def bearer(token):
    return (("authorization", f"Bearer {token}"),)


def basic(text):
    return (("authorization", "Basic " + base64.b64encode(text.encode()).decode()),)


def test_certificates_are_needed_or_not_as_the_configuration_says():
    with place() as made:
        other = certificates.Authority(made.directory, "other")
        clients = (None, made.alice, other.issue("stranger", "client", "/CN=stranger"),
                   made.authority.issue("late", "client", "/CN=late", days=-1))
        for auth, expected in (("need", (False, True, False, False)), ("want", (True, True, False, False)),
                               ("none", (True, True, True, True))):
            # The key for gRPC wins over that for ZooKeeper clients.
            lines = settings(made, grpcTlsClientAuth=auth, ssl__clientAuth="want" if auth == "need" else "need")
            with harness.Cluster("quorate", 1, lines) as cluster:
                address = grpc_address(cluster)
                got = tuple(serves(address, credentials(made.authority, client)) for client in clients)
                assert got == expected, f"{auth}: {got}\n{cluster.log(1)}"
                assert not serves(address), "a client without TLS is served"
                assert not serves(address, credentials(other, made.alice)), "the client trusts a stranger"
                cluster.check_alive()


def test_failed_handshakes_are_counted():
    with place() as made, harness.Cluster("quorate", 1, settings(made)) as cluster:
        def failed():
            return int(cluster.monitor(1)["unsuccessful_handshake"])

        before = failed()
        assert serves(grpc_address(cluster), credentials(made.authority, made.alice))
        assert failed() == before
        assert not serves(grpc_address(cluster), credentials(made.authority)), "a client without a certificate is served"
        cluster.wait_until("the handshake is counted", lambda: failed() > before)
        cluster_log_has(cluster, "gRPC: Handshake failed")


def test_the_configured_ciphers_are_those_of_grpc():
    def connects(address, made, *arguments):
        result = subprocess.run(["openssl", "s_client", "-connect", address, "-alpn", "h2", "-CAfile", made.authority.certificate,
                                 "-cert", made.alice[1], "-key", made.alice[0], *arguments], stdin=subprocess.DEVNULL,
                                capture_output=True, timeout=PATIENCE_SECONDS, check=False)
        return result.returncode == 0

    ciphers = ",".join(("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", *TLS13))
    with place() as made, harness.Cluster("quorate", 1, settings(made, ssl__ciphersuites=ciphers)) as cluster:
        address = grpc_address(cluster)
        assert serves(address, credentials(made.authority, made.alice))
        assert connects(address, made, "-tls1_3")
        assert connects(address, made, "-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384")
        assert not connects(address, made, "-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256")
        cluster.check_alive()


def test_administrators_prove_themselves_in_each_way():
    with place() as made:
        tokens = write(made.path("tokens"), f"ops:{TOKEN}\n")
        socket = made.path("grpc.sock")
        lines = settings(made, grpcTlsClientAuth="want", administrator__subjects=f"CN=nobody;{ADMIN}",
                         administratorTokenFile=tokens, grpcUnixSocket=socket,
                         X509AuthenticationProvider__superUser="CN=other,O=Example",
                         DigestAuthenticationProvider__superDigest=SUPER_DIGEST)
        other = made.authority.issue("other", "client", "/O=Example/CN=other")
        with harness.Cluster("quorate", 1, lines) as cluster:
            address = grpc_address(cluster)
            nobody = credentials(made.authority)
            alice = credentials(made.authority, made.alice)
            assert backup(address, nobody)[0] == "UNAUTHENTICATED"
            code, why = backup(address, alice)
            assert code == "PERMISSION_DENIED" and "x509:CN=alice,OU=dev,O=Example,C=US is not" in why, why
            assert "administratorTokenFile" in why and "grpcUnixSocket" in why, why
            for secure, metadata in ((credentials(made.authority, made.admin), ()),
                                     (credentials(made.authority, other), ()),
                                     (nobody, bearer(TOKEN)), (alice, bearer(TOKEN)), (nobody, basic("super:secret"))):
                assert backup(address, secure, metadata) == ("OK", ""), metadata
            assert backup(f"unix:{socket}") == ("OK", "")
            for metadata in (bearer(OTHER_TOKEN), bearer(TOKEN[1:]), basic("super:wrong"), basic("alice:secret")):
                code, why = backup(address, nobody, metadata)
                assert code == "UNAUTHENTICATED" and TOKEN[1:] not in why and "wrong" not in why, why
            # A certificate does not make up for a wrong token.
            assert backup(address, credentials(made.authority, made.admin), bearer(OTHER_TOKEN))[0] == "UNAUTHENTICATED"
            assert int(cluster.monitor(1)["quorate_administrators_refused"]) == 5
            for text in (TOKEN, OTHER_TOKEN, "secret"):
                assert text not in cluster.log(1), f"the log has {text}"
            # The token changes without a restart.
            write(tokens, f"ops:{OTHER_TOKEN}\n")
            assert backup(address, nobody, bearer(OTHER_TOKEN)) == ("OK", "")
            assert backup(address, nobody, bearer(TOKEN))[0] == "UNAUTHENTICATED"
            cluster.check_alive()


def test_callers_that_are_no_administrators_see_a_part_of_the_status():
    with place() as made, harness.Cluster(
            "quorate", 1, [f"administratorTokenFile={write(made.path('tokens'), TOKEN)}"]) as cluster:
        address = grpc_address(cluster)
        reduced, whole = status(address), status(address, metadata=bearer(TOKEN))
        assert reduced.reduced and reduced.serving and reduced.version and not reduced.cluster_id
        assert not reduced.digest and not reduced.disk_free_bytes and not reduced.data_bytes
        assert not whole.reduced and whole.disk_free_bytes and whole.digest and len(whole.cluster_id) == 16


def test_tokens_cannot_be_guessed():
    with place() as made, harness.Cluster(
            "quorate", 1, [f"administratorTokenFile={write(made.path('tokens'), TOKEN)}"]) as cluster:
        address = grpc_address(cluster)
        reasons = [backup(address, metadata=bearer(f"{number:032}"))[1] for number in range(30)]
        assert sum("too many wrong credentials" in why for why in reasons) >= 15, reasons
        assert backup(address, metadata=bearer(TOKEN))[0] in ("UNAVAILABLE", "OK")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while backup(address, metadata=bearer(TOKEN))[0] != "OK":
            assert time.monotonic() < deadline, "the right token is not taken again"


def test_only_this_machine_is_served_as_an_administrator_by_default():
    with far_away.far_away() as far, place() as made:
        with harness.Cluster("quorate", 1, ["grpcPortAddress=0.0.0.0"]) as cluster:
            port = grpc_address(cluster).rsplit(":", 1)[1]
            assert "no administrators are configured" in cluster.log(1)
            assert "no administrator is configured; set grpcTls=true" in cluster.log(1), cluster.log(1)
            assert backup(f"127.0.0.1:{port}") == ("OK", "")
            assert backup(f"127.0.0.2:{port}") == ("OK", "")
            # To an address of its own a machine connects from that address, which others could have.
            assert backup(f"{far.here}:{port}")[0] == "PERMISSION_DENIED"
            for command in (("backup", made.path("far.backup")), ("rolling-restart", "--command", "true")):
                result = far.run(quorate_cli.PROGRAM, "--server", f"{far.here}:{port}", *command)
                assert result.returncode == 1, result.stdout + result.stderr
            result = far.run(quorate_cli.PROGRAM, "--server", f"{far.here}:{port}", "backup", made.path("far.backup"))
            assert f"ip:{far.there} is not an administrator" in result.stderr, result.stderr
            assert not os.path.exists(made.path("far.backup"))
            result = far.run(quorate_cli.PROGRAM, "--server", f"{far.here}:{port}", "status")
            assert result.returncode == 0 and "for administrators" in result.stdout, result.stdout + result.stderr
            result = far.run(quorate_cli.PROGRAM, "--server", f"{far.here}:{port}", "--token-file",
                             write(made.path("tokens"), TOKEN), "status")
            assert result.returncode == 2 and "unencrypted" in result.stderr, result.stderr


def test_an_administrator_of_another_machine_comes_with_tls():
    with far_away.far_away() as far, place() as made:
        tokens = write(made.path("tokens"), f"far:{TOKEN}\n")
        lines = settings(made, grpcPortAddress="0.0.0.0", grpcTlsClientAuth="none", administratorTokenFile=tokens)
        with harness.Cluster("quorate", 1, lines) as cluster:
            port = grpc_address(cluster).rsplit(":", 1)[1]
            assert "unencrypted" not in cluster.log(1)
            words = (quorate_cli.PROGRAM, "--server", f"{far.here}:{port}", "--tls", "--ca", made.authority.certificate,
                     "--server-name", "localhost")
            result = far.run(*words, "--token-file", tokens, "backup", made.path("far.backup"))
            assert result.returncode == 0, result.stderr
            result = far.run(*words, "backup", made.path("other.backup"))
            assert result.returncode == 1 and "administrator" in result.stderr, result.stderr
            assert backup(f"localhost:{port}", credentials(made.authority))[0] == "UNAUTHENTICATED"


def test_the_unix_socket_is_for_the_owner_and_survives_a_crash():
    with place() as made:
        socket = made.path("grpc.sock")
        with harness.Cluster("quorate", 1, [f"grpcUnixSocket={socket}",
                                            f"DigestAuthenticationProvider.superDigest={SUPER_DIGEST}"]) as cluster:
            for _ in range(2):
                facts = os.lstat(socket)
                assert stat.S_ISSOCK(facts.st_mode) and stat.S_IMODE(facts.st_mode) == 0o600, oct(facts.st_mode)
                result = quorate_cli.run("--server", f"unix:{socket}", "backup", "--force", made.path("b"))
                assert result.returncode == 0, result.stderr
                assert backup(grpc_address(cluster))[0] == "UNAUTHENTICATED"
                cluster.kill(1)
                assert os.path.exists(socket), "SIGKILL leaves the socket"
                cluster.restart(1)
            cluster.command("stop", 1)
            assert not os.path.exists(socket)


def test_changed_certificates_are_used_and_open_connections_stay():
    with place() as made, harness.Cluster("quorate", 1, settings(
            made, grpcTlsClientAuth="none", client__certReload="true")) as cluster:
        address = grpc_address(cluster)
        before = credentials(made.authority)
        next_authority = certificates.Authority(made.directory, "next")
        server = next_authority.issue("server", "server", "/CN=server")
        with channel(address, before) as open_channel:
            call = open_channel.unary_unary("/quorate.v1.ClusterService/Status",
                                            native.cluster.StatusRequest.SerializeToString,
                                            native.cluster.StatusResponse.FromString)
            assert call(native.cluster.StatusRequest(), timeout=PATIENCE_SECONDS).member
            shutil.copy(server[2], made.server[2] + ".new")
            os.replace(made.server[2] + ".new", made.server[2])
            cluster_log_has(cluster, "new connections of gRPC use them")
            assert serves(address, credentials(next_authority))
            assert not serves(address, before)
            assert call(native.cluster.StatusRequest(), timeout=PATIENCE_SECONDS).member


def test_a_certificate_is_an_identity_over_both_protocols():
    with place() as made, harness.Cluster("quorate", 1, settings(made, ssl__clientAuth="want")) as cluster:
        address = grpc_address(cluster)
        acl = [native.types.Acl(permissions=31, scheme="x509", id="CN=alice,OU=dev,O=Example,C=US")]

        def tree(certificate=None):
            client = native.Tree(address)
            client.channel.close()
            client.channel = grpc.secure_channel(address, credentials(made.authority, certificate))
            return client

        with tree(made.alice) as alice, tree() as nobody, tree(made.admin) as admin:
            alice.create("/mine", b"secret", acl=acl)
            assert alice.get("/mine").result.data == b"secret"
            assert admin.get("/mine").result.data == b"secret"  # the super user
            try:
                nobody.get("/mine")
                raise AssertionError("a client without a certificate reads what is alice's")
            except native.Failed as failure:
                assert failure.code == "PERMISSION_DENIED", failure
        for certificate, expected in ((made.alice, 0), (None, 1)):
            own = ("--cert", certificate[1], "--key", certificate[0]) if certificate else ()
            result = quorate_cli.run("--server", address, "--ca", made.authority.certificate, *own, "shell", "get", "/mine")
            assert result.returncode == expected, f"{result.stdout}{result.stderr}"


def test_the_command_line_takes_its_options_from_everywhere():
    with place() as made:
        tokens = write(made.path("tokens"), TOKEN)
        lines = settings(made, grpcTlsClientAuth="need", administratorTokenFile=tokens)
        with harness.Cluster("quorate", 1, lines) as cluster:
            server = ("--server", grpc_address(cluster))
            key, certificate = made.alice[:2]
            file = write(made.path("config"), f"tls = true\nca = {made.authority.certificate}\ncert = {certificate}\n"
                         f"key = {key}\ntoken-file = {tokens}\n")
            variables = {"QUORATE_TLS": "true", "QUORATE_CA": made.authority.certificate, "QUORATE_CERT": certificate,
                         "QUORATE_KEY": key, "QUORATE_TOKEN_FILE": tokens}
            words = ("--tls", "--ca", made.authority.certificate, "--cert", certificate, "--key", key, "--token-file", tokens)
            for arguments, environment in ((words, {}), ((), variables), ((), {"QUORATE_CONFIG": file})):
                result = quorate_cli.run(*server, *arguments, "backup", "--force", made.path("b"), environment=environment)
                assert result.returncode == 0, result.stderr
                result = quorate_cli.run(*server, *arguments, "shell", "ls", "/", environment=environment)
                assert result.returncode == 0, result.stderr


def complains(cluster, expected, *words):
    """Checks that `quorate status` fails and says why, with the address."""
    result = quorate_cli.run("--server", grpc_address(cluster), *words, "status")
    assert result.returncode != 0, result.stdout
    text = result.stdout + result.stderr
    assert grpc_address(cluster) in text and expected in text, text


def test_the_command_line_says_what_is_wrong_with_a_certificate():
    with place() as made:
        other = certificates.Authority(made.directory, "other")
        late = made.authority.issue("late", "client", "/CN=late", days=-1)
        ca = ("--ca", made.authority.certificate)
        with harness.Cluster("quorate", 1, settings(made)) as cluster:
            complains(cluster, "takes TLS only")
            complains(cluster, "needs a client certificate", *ca)
            complains(cluster, "has expired", *ca, "--cert", late[1], "--key", late[0])
            complains(cluster, "is of an authority that is not in", "--ca", other.certificate)
            complains(cluster, "is not for elsewhere but for", *ca, "--server-name", "elsewhere")
        expired = Place()
        try:
            expired.server = expired.authority.issue("expired", "server", "/CN=server", days=-1)
            with harness.Cluster("quorate", 1, settings(expired)) as cluster:
                complains(cluster, "has expired", "--ca", expired.authority.certificate)
        finally:
            shutil.rmtree(expired.directory, ignore_errors=True)
        with harness.Cluster("quorate", 1) as cluster:
            complains(cluster, "does not take TLS", *ca)
            for words, expected in ((("--ca", made.path("none")), "cannot be read"),
                                    ((*ca, "--cert", late[1]), "name both files"),
                                    (("--token-file", write(made.path("t"), TOKEN, 0o644)), "chmod 600")):
                result = quorate_cli.run("--server", grpc_address(cluster), *words, "status")
                assert result.returncode == 2 and expected in result.stderr, result.stderr


def test_what_cannot_be_kept_is_refused_at_the_start():
    with place() as made:
        public = write(made.path("public"), TOKEN, 0o644)
        short = write(made.path("short"), "0123456789")
        for lines, expected in (
                ((f"administratorTokenFile={public}",), ("administratorTokenFile", "chmod 600")),
                ((f"administratorTokenFile={short}",), ("administratorTokenFile", "line 1", "10 characters")),
                (("administratorTokenFile=/nonexistent",), ("administratorTokenFile", "cannot be read")),
                ((f"grpcUnixSocket={public}",), ("grpcUnixSocket", "no socket")),
                (settings(made, ssl__crl="true"), ("ssl.crl", "gRPC")),
                (settings(made, ssl__clientHostnameVerification="true"), ("ssl.clientHostnameVerification", "gRPC")),
                (settings(made, ssl__ciphersuites="TLS_AES_256_GCM_SHA384"), ("ssl.ciphersuites", "gRPC")),
                (settings(made, ssl__ciphersuites=",".join(TLS13)), ("ssl.ciphersuites", "gRPC", "TLSv1.2")),
                (settings(made, ssl__enabledProtocols="TLSv1.3"), ("ssl.enabledProtocols", "gRPC"))):
            cluster = harness.Cluster("quorate", 1, lines, start=False)
            try:
                cluster.start()
                raise AssertionError(f"the server starts with {lines}")
            except RuntimeError as error:
                assert all(text in cluster.log(1) + str(error) for text in expected), f"{error}\n{cluster.log(1)}"
                assert TOKEN not in cluster.log(1) and "0123456789" not in cluster.log(1)
            finally:
                cluster.remove()
