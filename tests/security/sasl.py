# SPDX-License-Identifier: Apache-2.0
"""Tests SASL of ZooKeeper clients and required authentication, with clients that nobody here wrote (Kazoo, ZooKeeper's
shell), with a key distribution centre of MIT Kerberos, and in comparison with ZooKeeper."""

import base64
import contextlib
import hashlib
import os
import re
import shutil
import struct
import subprocess
import tempfile

import harness
import kdc
import zkwire as zk
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionClosedError, ConnectionLoss, NoAuthError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import make_acl

PATIENCE_SECONDS = 20
JARS = "/usr/share/java"
SHELL_JARS = ("zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop", "commons-cli")
PROVIDER = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
USERS = {"super": "admin-secret", "bob": "bob secret", "alice": "a\"l\\ice"}
SASL, PING, WHO_AM_I = 102, zk.PING, 107
REQUIRED_AUTH_MISSING = -124
# The challenges of Java and of Cyrus SASL, which names the protection that is the default.
CHALLENGES = (rb'realm="zk-sasl-md5",nonce="([^"]{40,})",charset=utf-8,algorithm=md5-sess',
              rb'nonce="([^"]{40,})",realm="zk-sasl-md5",qop="auth",charset=utf-8,algorithm=md5-sess')


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Place:
    """A directory with JAAS files."""

    def __init__(self, directory):
        self.directory = directory
        users = "\n  ".join(f"user_{name}={quoted(password)}" for name, password in USERS.items())
        self.server = self.write("server.jaas", f"""
Server {{
  org.apache.zookeeper.server.auth.DigestLoginModule required
  {users};
}};
""")

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o600)
        return path

    def client(self, user, password):
        return self.write(f"{user}.jaas", f"""
Client {{
  org.apache.zookeeper.server.auth.DigestLoginModule required
  username={quoted(user)} password={quoted(password)};
}};
""")


@contextlib.contextmanager
def place():
    directory = tempfile.mkdtemp(prefix="quorate-sasl-")
    try:
        yield Place(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def flags(server, jaas, **properties):
    """Returns the environment of a server with the JAAS file and other properties of Java."""
    options = " ".join(f"-D{key}={value}" for key, value in
                       {"java.security.auth.login.config": jaas, **properties}.items())
    if server == "zookeeper":
        return {"ZOOKEEPER_JAVA_OPTIONS": f"-Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC {options}"}
    return {"JVMFLAGS": options}


@contextlib.contextmanager
def served(*settings, size=1, server="quorate"):
    with place() as made, harness.Cluster(server, size, [PROVIDER, *settings],
                                          environment=flags(server, made.server)) as cluster:
        yield made, cluster
        cluster.check_alive()


@contextlib.contextmanager
def kazoo(hosts, user=None, password=None, **options):
    if user is not None:
        options["sasl_options"] = {"mechanism": "DIGEST-MD5", "username": user,
                                   "password": USERS[user] if password is None else password}
    client = KazooClient(hosts, timeout=10, **options)
    client.start(timeout=PATIENCE_SECONDS)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def is_refused(hosts, user, password):
    """Returns whether Kazoo fails to authenticate. It says that it is connected before it tries."""
    try:
        with kazoo(hosts, user, password) as client:
            client.exists("/")
            return False
    except (AuthFailedError, ConnectionLoss, ConnectionClosedError, SessionExpiredError, KazooTimeoutError):
        return True


def has_no_access(function, *arguments):
    try:
        function(*arguments)
        return False
    except NoAuthError:
        return True


# --- DIGEST-MD5 by hand ------------------------------------------------------------------------------------------


def md5(data):
    return hashlib.md5(data).digest()


def response(nonce, user, password, uri="zookeeper/zk-sasl-md5", authzid=None, method="AUTHENTICATE"):
    secret = md5(f"{user}:zk-sasl-md5:".encode() + password.encode()) + f":{nonce}:client".encode()
    if authzid is not None:
        secret += f":{authzid}".encode()
    return md5(":".join((md5(secret).hex(), nonce, "00000001", "client", "auth",
                         md5(f"{method}:{uri}".encode()).hex())).encode()).hex()


class Exchange:
    """SASL on a connection of its own; each step returns the error and the token of the reply, or "closed"."""

    def __init__(self, address):
        self.connection = zk.Connection(address)
        self.nonce = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.abandon()

    def request(self, operation, body=b"", xid=None):
        try:
            sent = self.connection.submit(operation, body, xid)
            reply = self.connection.receive()
        except (zk.Closed, OSError):
            return "closed"
        assert reply.xid == sent, (reply, sent)
        return reply

    def send(self, token):
        reply = self.request(SASL, zk.buffer(token))
        if reply == "closed":
            return reply
        assert reply.zxid == 0, reply
        answer = zk.Reader(reply.body).buffer() if reply.body else "no body"
        return reply.err, answer

    def begin(self, token=b""):
        err, challenge = self.send(token)
        found = next(filter(None, (re.fullmatch(form, challenge) for form in CHALLENGES)), None)
        assert err == 0 and found, (err, challenge)
        assert len(base64.b64decode(found[1])) >= 30, challenge
        self.nonce = found[1].decode()

    def answer(self, user="bob", password=USERS["bob"], authzid=None, **replaced):
        fields = {"charset": "utf-8", "username": f'"{user}"', "realm": '"zk-sasl-md5"', "nonce": f'"{self.nonce}"',
                  "nc": "00000001", "cnonce": '"client"', "digest-uri": '"zookeeper/zk-sasl-md5"', "maxbuf": "65536",
                  "response": response(self.nonce, user, password, authzid=authzid), "qop": "auth"}
        if authzid is not None:
            fields["authzid"] = f'"{authzid}"'
        fields.update({key.replace("_", "-"): value for key, value in replaced.items()})
        return self.send(",".join(f"{key}={value}" for key, value in fields.items() if value is not None).encode())

    def who(self):
        reply = self.request(WHO_AM_I)
        reader = zk.Reader(reply.body)
        return sorted((reader.ustring(), reader.ustring()) for _ in range(reader.take(">i")))

    def is_closed(self):
        return self.connection.is_closed_by_peer(PATIENCE_SECONDS)


def transcript(address):
    """Returns the answers to attempts of many kinds, for a comparison of servers."""
    found = []

    def attempt(name, *, first=b"", **arguments):
        with Exchange(address) as exchange:
            exchange.begin(first)
            result = exchange.answer(**arguments)
            if isinstance(result, tuple) and isinstance(result[1], bytes) and result[1].startswith(b"rspauth="):
                user = arguments.get("user", "bob")
                right = response(exchange.nonce, user, arguments.get("password", USERS["bob"]),
                                 authzid=arguments.get("authzid"), method="")
                assert result[1] == b"rspauth=" + right.encode(), result
                result = "rspauth", exchange.who()
            else:
                result = result, exchange.is_closed()
            found.append((name, result))

    attempt("right")
    attempt("right, of alice", user="alice", password=USERS["alice"])
    attempt("with authzid", authzid="bob")
    attempt("with the authzid of another one", authzid="alice")
    attempt("wrong password", password="wrong")
    attempt("no realm", realm=None)
    attempt("other realm", realm='"other"')
    attempt("other nonce", nonce='"AAAA"')
    attempt("no qop", qop=None)
    attempt("other qop", qop="auth-int")
    attempt("other nc", nc="00000002")
    attempt("no nc", nc=None)
    attempt("no cnonce", cnonce=None)
    attempt("no maxbuf", maxbuf=None)
    attempt("no charset", charset=None)
    attempt("other charset", charset="utf-16")
    attempt("no response", response=None)
    attempt("no digest-uri", digest_uri=None)
    attempt("unknown key", x_other="1")
    with Exchange(address) as exchange:
        exchange.begin()
        found.append(("garbage", (exchange.send(b"\x00\xff,,="), exchange.is_closed())))
    with Exchange(address) as exchange:
        exchange.begin()
        found.append(("empty answer", (exchange.send(b""), exchange.is_closed())))
    with Exchange(address) as exchange:
        exchange.begin()
        exchange.answer()
        found.append(("a token after the end", (exchange.send(b""), exchange.is_closed())))
    return found


def test_the_answers_to_digest_md5_are_those_of_zookeeper():
    with served() as (_, here), served(server="zookeeper") as (_, reference):
        wanted, got = transcript(reference.address(1)), transcript(here.address(1))
        # RFC 2831 requires the count of responses ("nc"), and clients send it. Java's server does not look at it, and
        # Cyrus SASL does.
        refused = (zk.AUTH_FAILED, None), True
        wanted = [(name, refused if name in ("other nc", "no nc") else result) for name, result in wanted]
        different = [(one, other) for one, other in zip(got, wanted) if one != other]
        assert len(got) == len(wanted) and not different, "\n".join(f"here {one}\nthere {other}" for one, other in different)
        # ZooKeeper 3.8 accepts an unknown user with the password of the user before.
        for user in ("nobody", ""):
            with Exchange(here.address(1)) as exchange:
                exchange.begin()
                assert exchange.answer(user=user) == (zk.AUTH_FAILED, None) and exchange.is_closed()
        return f"{len(got)} attempts"


def test_required_authentication_refuses_as_zookeeper_does():
    def attempts(address):
        found = []
        for operation, body, xid in ((zk.EXISTS, zk.request_path_watch("/", False), None), (zk.PING, b"", zk.XID_PING),
                                     (zk.CREATE, zk.request_create("/never", b""), None), (zk.CLOSE, b"", None),
                                     (WHO_AM_I, b"", None), (zk.SYNC, zk.ustring("/"), None)):
            with Exchange(address) as exchange:
                found.append((operation, exchange.request(operation, body, xid), exchange.is_closed()))
        with Exchange(address) as exchange:
            exchange.request(zk.AUTH, zk.request_auth("digest", b"u:p"), zk.XID_AUTH)
            reply = exchange.request(zk.EXISTS, zk.request_path_watch("/never", False))
            found.append(("digest", reply.err, exchange.is_closed() if reply.err == REQUIRED_AUTH_MISSING else None))
        with Exchange(address) as exchange:
            exchange.begin()
            found.append(("wrong", exchange.answer(password="wrong"), exchange.is_closed()))
        with Exchange(address) as exchange:
            exchange.begin()
            exchange.answer()
            found.append(("right", exchange.request(zk.EXISTS, zk.request_path_watch("/never", False)).err))
        return found

    for settings in (("sessionRequireClientSASLAuth=true", "allowSaslFailedClients=true"),
                     ("enforce.auth.enabled=true", "enforce.auth.schemes=sasl,digest")):
        with served(*settings) as (_, here), served(*settings, server="zookeeper") as (_, reference):
            wanted, got = attempts(reference.address(1)), attempts(here.address(1))
            assert wanted == got, f"{settings}\nhere  {got}\nthere {wanted}"
            assert got[0][1].err == REQUIRED_AUTH_MISSING and got[0][2], got


# --- Clients -----------------------------------------------------------------------------------------------------


def test_kazoo_authenticates_and_its_lists_hold_on_every_member():
    with served(size=3) as (_, cluster):
        with kazoo(cluster.hosts(), "bob") as bob:
            bob.create("/bob", b"secret", acl=[make_acl("sasl", "bob", all=True)])
            bob.create("/own", b"secret", acl=[make_acl("auth", "", all=True)])
            assert [acl.id.id for acl in bob.get_acls("/own")[0]] == ["bob"]
        for member in cluster.numbers():
            with kazoo(cluster.address(member), "bob") as bob:
                bob.sync("/")
                assert bob.get("/bob")[0] == bob.get("/own")[0] == b"secret"
                bob.set("/bob", b"secret")
            with kazoo(cluster.address(member), "alice") as alice:
                assert has_no_access(alice.get, "/bob") and has_no_access(alice.set, "/own", b"")
            with kazoo(cluster.address(member)) as plain:
                assert has_no_access(plain.get, "/bob") and has_no_access(plain.get, "/own")
            with kazoo(cluster.address(member), "super") as superuser:
                assert superuser.get("/bob")[0] == b"secret"  # passes entries of the scheme sasl
        for member in cluster.numbers():
            assert is_refused(cluster.address(member), "bob", "guessed it")
        assert any("SASL authentication failed address=127.0.0.1" in cluster.log(i) for i in cluster.numbers())
        assert sum(int(cluster.monitor(i)["auth_failed_count"]) for i in cluster.numbers()) >= 3
        for member in cluster.numbers():
            for password in [*USERS.values(), "guessed it"]:
                assert password not in cluster.log(member), password


def test_a_session_authenticates_again_on_another_member():
    with served("sessionRequireClientSASLAuth=true", size=3) as (_, cluster):
        with kazoo(cluster.hosts(), "bob") as bob:
            bob.create("/bob", b"", acl=[make_acl("sasl", "bob", all=True)], ephemeral=True)
            session = bob.client_id[0]
            for member in cluster.numbers():  # one of them serves the client
                cluster.kill(member)
                bob.retry(bob.get, "/bob")
                cluster.restart(member)
                cluster.leader()
            assert bob.client_id[0] == session
            bob.set("/bob", b"still mine")


def test_super_users_and_the_id_for_everyone():
    with served("superUser=alice", "letAnySaslUserDoX=anyone") as (_, cluster):
        with kazoo(cluster.hosts(), "bob") as bob, kazoo(cluster.hosts(), "alice") as alice:
            bob.create("/digest", b"1", acl=[make_acl("digest", "u:h", all=True)])
            bob.create("/all", b"2", acl=[make_acl("sasl", "anyone", all=True)])
            bob.create("/own", b"3", acl=[make_acl("auth", "", all=True)])
            assert has_no_access(bob.get, "/digest")
            assert alice.get("/digest")[0] == b"1"
            assert alice.get("/all")[0] == bob.get("/all")[0] == b"2"
        with kazoo(cluster.hosts(), "super") as other, kazoo(cluster.hosts()) as plain:
            assert other.get("/all")[0] == b"2"
            assert has_no_access(plain.get, "/all") and has_no_access(plain.get, "/own")
            assert has_no_access(other.get, "/digest")  # super passes entries of the scheme sasl alone


def test_clients_that_fail_go_on_only_if_that_is_allowed():
    with served("allowSaslFailedClients=true") as (_, cluster), Exchange(cluster.address(1)) as exchange:
        exchange.begin()
        assert exchange.answer(password="wrong") == (0, None)
        assert exchange.who() == [("ip", "127.0.0.1")], exchange.who()
        assert exchange.send(b"") == (0, None)
    with served("sessionRequireClientSASLAuth=true") as (_, cluster):
        assert is_refused(cluster.hosts(), "bob", "wrong")
        with kazoo(cluster.hosts(), "bob") as bob:
            bob.create("/bob", b"")


def test_passwords_cannot_be_guessed_fast():
    with served() as (_, cluster):
        results = []
        for number in range(15):
            with Exchange(cluster.address(1)) as exchange:
                exchange.begin()
                results.append(exchange.answer(password=f"guess{number}"))
        assert results[:10] == [(zk.AUTH_FAILED, None)] * 10, results
        assert "closed" in results[10:], results
        with kazoo(cluster.hosts(), "alice") as alice:  # others are not delayed
            alice.create("/alice", b"")

        def bob_gets_in():
            with Exchange(cluster.address(1)) as exchange:
                exchange.begin()
                return exchange.answer()[0] == 0
        cluster.wait_until("bob has an attempt again", bob_gets_in)


def test_a_changed_jaas_file_is_used_without_a_restart():
    def replace(made, text):
        made.write("new.jaas", text)
        os.replace(os.path.join(made.directory, "new.jaas"), made.server)

    with served() as (made, cluster), kazoo(cluster.hosts(), "bob") as bob:
        with open(made.server, encoding="utf-8") as file:
            before = file.read()
        assert is_refused(cluster.hosts(), "carol", "carol's")
        replace(made, before.replace(quoted(USERS["bob"]), quoted("another")).replace(
            "user_bob=", 'user_carol="carol\'s" user_bob='))
        assert is_refused(cluster.hosts(), "bob", USERS["bob"]), cluster.log(1)
        for user, password in (("bob", "another"), ("carol", "carol's")):
            with kazoo(cluster.hosts(), user, password) as client:
                client.create(f"/of-{user}", b"", acl=[make_acl("sasl", user, all=True)])
                assert client.get(f"/of-{user}")[0] == b""
        assert bob.exists("/of-bob")  # its connection stays
        # A file that cannot be used changes nothing, until it can be used.
        for text in ("Server {", "Other { x.Y required; };"):
            replace(made, text)
            with kazoo(cluster.hosts(), "bob", "another") as client:
                client.get("/of-bob")
        cluster.wait_until("both are logged",
                           lambda: cluster.log(1).count("the changed JAAS file cannot be used") == 2)
        assert "another" not in cluster.log(1)
        replace(made, before)
        with kazoo(cluster.hosts(), "bob") as client:
            client.get("/of-bob")


def test_hostile_tokens_harm_nobody():
    with served() as (_, cluster):
        for token in (b"", b"=", b'"' * 4000, b"a=b," * 1000, b"username=" + b"x" * 60_000, os.urandom(65_536),
                      os.urandom(65_537), b"\x60\x82\xff\xff" + bytes(1000)):
            with Exchange(cluster.address(1)) as exchange:
                exchange.begin()
                assert exchange.send(token) == (zk.AUTH_FAILED, None), token[:40]
        with Exchange(cluster.address(1)) as exchange:
            assert exchange.request(SASL, struct.pack(">i", 1 << 30)) == "closed"
        with Exchange(cluster.address(1)) as exchange:
            exchange.begin()
            assert exchange.answer()[0] == 0


def shell(cluster, jaas, *lines, **properties):
    """Runs ZooKeeper's shell with a JAAS file, once for each line. Returns the outputs."""
    jars = [path for path in (os.path.join(JARS, f"{name}.jar") for name in SHELL_JARS) if os.path.exists(path)]
    options = {"java.security.auth.login.config": jaas, **properties}
    outputs = []
    for line in lines:
        command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m",
                   *(f"-D{key}={value}" for key, value in options.items()), "-cp", ":".join(jars),
                   "org.apache.zookeeper.ZooKeeperMain", "-waitforconnection", "-server", cluster.hosts(), *line.split()]
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        outputs.append(result.stdout + result.stderr)
    return outputs


def test_the_shell_of_zookeeper_authenticates():
    with served() as (made, cluster):
        jaas = made.client("alice", USERS["alice"])
        who, created, own = shell(cluster, jaas, "whoami", "create /alice x auth::cdrwa", "getAcl /alice")
        assert "sasl: alice" in who, who
        assert "Created /alice" in created, created
        assert "'sasl,'alice" in own, own
        refused, = shell(cluster, made.client("bob", "wrong"), "create /bob x")
        assert "Created /bob" not in refused, refused


@contextlib.contextmanager
def realm():
    """Yields a key distribution centre; the Kerberos library of this process uses it."""
    if not kdc.is_available():
        raise harness.Skipped("there is no krb5-kdc")
    with kdc.KeyDistributionCentre() as centre:
        changed = {"KRB5_CONFIG": centre.configuration, "KRB5CCNAME": "FILE:" + centre.path("tickets")}
        before = {name: os.environ.get(name) for name in changed}
        os.environ.update(changed)
        try:
            yield centre
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def kerberos_jaas(made, section, keytab, name):
    return made.write(f"{section}-{name.replace('/', '-')}.jaas", f"""
{section} {{
  com.sun.security.auth.module.Krb5LoginModule required
  useKeyTab=true keyTab="{keytab}" storeKey=true useTicketCache=false
  principal="{name}@{kdc.REALM}";
}};
""")


def test_kerberos_with_javas_client():
    with place() as made, realm() as centre:
        server_keys, client_keys = centre.keytab("zookeeper/localhost"), centre.keytab("app/host1", "bob")
        java = {"java.security.krb5.conf": centre.configuration}
        environment = flags("quorate", kerberos_jaas(made, "Server", server_keys, "zookeeper/localhost"), **java)
        for settings, wanted in (((), "app/host1@EXAMPLE.COM"),
                                 (("kerberos.removeHostFromPrincipal=true", "kerberos.removeRealmFromPrincipal=true",
                                   "sessionRequireClientSASLAuth=true"), "app")):
            with harness.Cluster("quorate", 1, [PROVIDER, *settings], environment=environment) as cluster:
                client = {**java, "zookeeper.server.principal": f"zookeeper/localhost@{kdc.REALM}"}
                who, created = shell(cluster, kerberos_jaas(made, "Client", client_keys, "app/host1"), "whoami",
                                     "create /app x auth::cdrwa", **client)
                assert f"sasl: {wanted}\n" in who, f"{who}\n{cluster.log(1)}"
                assert "Created /app" in created, created
                other, = shell(cluster, kerberos_jaas(made, "Client", client_keys, "bob"), "get /app", **client)
                assert "Insufficient permission" in other or "NoAuth" in other, other
                cluster.check_alive()


def test_kerberos_with_kazoo_and_tokens_that_were_recorded():
    try:
        import kerberos
    except ImportError as error:
        raise harness.Skipped("there is no python3-kerberos") from error
    with place() as made, realm() as centre:
        name = f"zookeeper/{harness.HOST}"
        server_keys, client_keys = centre.keytab(name), centre.keytab("app")
        subprocess.run(["kinit", "-k", "-t", client_keys, "app"], check=True, timeout=PATIENCE_SECONDS)
        environment = flags("quorate", kerberos_jaas(made, "Server", server_keys, name))
        with harness.Cluster("quorate", 1, [PROVIDER], environment=environment) as cluster:
            client = KazooClient(cluster.hosts(), sasl_options={"mechanism": "GSSAPI"})
            client.start(timeout=PATIENCE_SECONDS)
            client.create("/app", b"", acl=[make_acl("auth", "", all=True)])
            assert [acl.id.id for acl in client.get_acls("/app")[0]] == ["app@EXAMPLE.COM"]
            client.stop()
            client.close()
            _, context = kerberos.authGSSClientInit(f"zookeeper@{harness.HOST}", gssflags=0)
            kerberos.authGSSClientStep(context, "")
            token = base64.b64decode(kerberos.authGSSClientResponse(context))
            with Exchange(cluster.address(1)) as exchange:
                err, layers = exchange.send(token)
                assert err == 0 and layers, (err, layers)
            with Exchange(cluster.address(1)) as exchange:
                assert exchange.send(token) == (zk.AUTH_FAILED, None) and exchange.is_closed()
            cluster.wait_until("the reason is logged", lambda: "Request is a replay" in cluster.log(1))
            for hostile in (b"", token[:-1], token[:40] + bytes(len(token) - 40), os.urandom(65_536)):
                with Exchange(cluster.address(1)) as exchange:
                    assert exchange.send(hostile) in ((zk.AUTH_FAILED, None), (0, b"")), hostile[:20]
            cluster.check_alive()


def test_configurations_that_cannot_be_kept_are_refused():
    with place() as made:
        for settings, files, wanted in (
                ([], "/no/such/jaas", "jaasFile: /no/such/jaas cannot be read"),
                ([], made.write("bad", "Server { x required user_bob=\"bob secret\" }"), ":1: here is"),
                ([], made.write("module", "Server { x.Y required k=\"v\"; };"), "the module x.Y is not supported"),
                (["quorum.auth.enableSasl=true"],
                 made.write("members", "QuorumServer { org.apache.zookeeper.server.auth.DigestLoginModule required "
                                       "user_bob=\"bob secret\"; };"), "there is no SASL between servers"),
                ([], made.write("keys", "Server { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
                                        "keyTab=\"/no/keys\" principal=\"zookeeper/h@R\"; };"), "/no/keys"),
                (["sessionRequireClientSASLAuth=true"], made.write("none", "Other { x required; };"),
                 "there is no section Server"),
                (["security.auth_to_local=nonsense"], made.server, "security.auth_to_local: \"nonsense\""),
                (["enforce.auth.enabled=true"], made.server, "enforce.auth.schemes: it is missing")):
            with contextlib.closing(Refused(settings, files)) as start:
                assert wanted in start.log, f"{wanted!r} is not in\n{start.log}"
                assert "bob secret" not in start.log


def test_a_missing_plug_in_and_an_openssl_without_md5_are_refused():
    # Plug-ins are those beside the library: beside a copy of it, there are none.
    library = re.search(r"=> (\S*/libsasl2\.so\S*) ", subprocess.run(["ldd", harness.SERVERS["quorate"]], capture_output=True,
                                                                     text=True, check=True).stdout)[1]
    with place() as made:
        shutil.copy(library, os.path.join(made.directory, os.path.basename(library)))
        alone = {"LD_LIBRARY_PATH": made.directory}
        # As in FIPS mode, OpenSSL gives only what its FIPS module has, which is not installed here.
        no_md5 = {"OPENSSL_CONF": made.write("openssl.cnf", "openssl_conf = init\n[init]\nalg_section = all\n[all]\n"
                                                            "default_properties = fips=yes\n")}
        keys = made.write("keys", "Server { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
                                  "keyTab=\"/no/keys\" principal=\"zookeeper/h@R\"; };")
        for jaas, environment, wanted in (
                (made.server, alone, "install the package libsasl2-modules of Debian"),
                (keys, alone, "install the package libsasl2-modules-gssapi-mit of Debian"),
                (made.server, no_md5, "DIGEST-MD5 needs MD5, which this machine's OpenSSL does not have")):
            with contextlib.closing(Refused([], jaas, **environment)) as start:
                assert wanted in start.log, f"{wanted!r} is not in\n{start.log}"
                assert "bob secret" not in start.log


class Refused:
    """A start that must fail; `log` is what the server wrote."""

    def __init__(self, settings, jaas, **environment):
        self.cluster = harness.Cluster("quorate", 1, [PROVIDER, *settings], start=False,
                                       environment={**flags("quorate", jaas), **environment})
        try:
            self.cluster.start()
            raise AssertionError(f"a server starts with {settings} and {jaas}")
        except RuntimeError as error:
            self.log = str(error) + self.cluster.log(1)

    def close(self):
        self.cluster.remove()
