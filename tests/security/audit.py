# SPDX-License-Identifier: Apache-2.0
"""Tests the audit log with real clients, and compares its lines with those that ZooKeeper itself writes."""

import base64
import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from urllib.parse import quote

import administration
import audit_operations as operations
import certificates
import client_tls
import grpc_access
import harness
import quorate_cli
import sasl
import zkwire as zk

NAME = "audit-{member}.log"
ENABLED = ("audit.enable=true", f"auditFile=../{NAME}")  # of a server, whose working directory is its own
# What ZooKeeper's own conf/log4j.properties suggests for its audit log.
LOG4J = """
log4j.rootLogger=WARN, CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
log4j.appender.CONSOLE.layout.ConversionPattern=%d{{ISO8601}} - %-5p %c - %m%n
log4j.logger.org.apache.zookeeper.audit.Slf4jAuditLogger=INFO, RFAAUDIT
log4j.additivity.org.apache.zookeeper.audit.Slf4jAuditLogger=false
log4j.appender.RFAAUDIT=org.apache.log4j.RollingFileAppender
log4j.appender.RFAAUDIT.File={file}
log4j.appender.RFAAUDIT.layout=org.apache.log4j.PatternLayout
log4j.appender.RFAAUDIT.layout.ConversionPattern=%d{{ISO8601}} %p %c{{2}}: %m%n
"""
LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO|ERROR) audit\.Slf4jAuditLogger: (.*)")
FIELDS = ("session", "user", "ip", "operation", "znode", "znode_type", "acl", "detail", "result")
EPHEMERAL_DELETION = "ephemeralZNodeDeletionOnSessionCloseOrExpire"


def path_of(cluster, member=1, name=NAME):
    return os.path.join(cluster.dir, name.format(member=member))


def raw_lines(path):
    """Returns the whole lines of a file; [] if there is none."""
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            text = file.read()
    except FileNotFoundError:
        return []
    return text[:text.rfind("\n") + 1].split("\n")[:-1]


def parse(line):
    """Checks the form of a line of ours. Returns its fields."""
    match = LINE.fullmatch(line)
    assert match, repr(line)
    pairs = [field.split("=", 1) for field in match[2].split("\t")]
    keys = [key for key, _ in pairs]
    assert keys == sorted(keys, key=FIELDS.index) and len(set(keys)) == len(keys), line
    fields = dict(pairs)
    assert (match[1] == "ERROR") == (fields["result"] == "failure"), line
    assert not re.search(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]", line), repr(line)
    return fields


def lines(cluster, member=1, name=NAME):
    return [parse(line) for line in raw_lines(path_of(cluster, member, name))]


def find(cluster, member=1, **wanted):
    return [fields for fields in lines(cluster, member)
            if all(fields.get(key) == value for key, value in wanted.items())]


def wait_for(cluster, member=1, count=1, **wanted):
    """Waits for `count` lines with these fields, and returns all of them."""
    cluster.wait_until(f"{count} lines with {wanted}", lambda: len(find(cluster, member, **wanted)) >= count)
    return find(cluster, member, **wanted)


# --- The comparison with ZooKeeper ---------------------------------------------------------------


def comparable(path):
    """Returns the lines without their times. Sessions are numbered in the order in which they occur, users are sorted,
    and so are the deletions of the ephemerals of one session, whose order is random in ZooKeeper."""
    sessions, result, deletions = {}, [], []
    for line in raw_lines(path):
        match = LINE.fullmatch(line)
        assert match, repr(line)
        text = re.sub(r"session=0x([0-9a-f]+)",
                      lambda found: f"session={sessions.setdefault(found[1], len(sessions))}", match[2])
        text = re.sub(r"user=([^\t]*)", lambda found: "user=" + ",".join(sorted(found[1].split(","))), text)
        text = f"{match[1]} {text}"
        if EPHEMERAL_DELETION in text:
            deletions.append(text)
        else:
            result += sorted(deletions) + [text]
            deletions = []
    return result + sorted(deletions)


def as_zookeeper(line):
    """Returns the line that ZooKeeper writes for what our line says, after comparable(); None if it writes none. These
    are the differences that docs/guides/audit.md lists."""
    of_ttl = re.search(r"\tznode_type=persistent(_sequential)?_with_ttl", line)
    if of_ttl and "znode=/m/" not in line:
        return None  # ZooKeeper 3.8 does not record createTTL, except in a multi
    if "\tznode=/m/" in line and (of_ttl or "_sequential" in line):
        line = re.sub(r"\tznode_type=[^\t]*", "", line)  # in a multi its type is missing
    if "operation=create" in line and "znode_type" not in line and "failure" in line:
        return None  # a mode that does not exist
    line = line.replace("\\t", "\t")
    return line.replace("acl=digest:bob:x:", f"acl=digest:bob:{operations.DIGEST_HASH}:")


def test_lines_are_those_of_zookeeper_except_for_times_and_ids():
    settings = ("audit.enable=true", "extendedTypesEnabled=true")
    with harness.Cluster("zookeeper", 1, settings=settings, start=False) as theirs:
        log4j = os.path.join(theirs.parent, "log4j.properties")
        reference = os.path.join(theirs.parent, "zookeeper_audit.log")
        with open(log4j, "w", encoding="utf-8") as file:
            file.write(LOG4J.format(file=reference))
        theirs.environment["ZOOKEEPER_LOG4J"] = log4j
        theirs.start()
        operations.run(theirs.address(1))
        theirs.command("stop", 1)
        expected = comparable(reference)
        assert len(expected) > 40, expected
    with harness.Cluster("quorate", 1, settings=ENABLED) as ours:
        operations.run(ours.address(1))
        ours.command("stop", 1)
        found = comparable(path_of(ours))
        assert len(found) > len(expected), found
        translated = [line for line in map(as_zookeeper, found) if line is not None]
        for number, (one, other) in enumerate(zip(translated, expected)):
            assert one == other, f"line {number}:\n{one!r}\n{other!r}"
        assert len(translated) == len(expected), (translated[len(expected):], expected[len(translated):])
    return f"{len(expected)} lines"


# --- What is recorded, and where -----------------------------------------------------------------


def test_each_server_records_its_own_clients_and_all_record_the_end_of_ephemerals():
    with harness.Cluster("quorate", 3, settings=ENABLED) as cluster:
        connections = {i: zk.Connection(cluster.address(i), 10000) for i in cluster.numbers()}
        for i, connection in connections.items():
            connection.create(f"/of-{i}", flags=zk.EPHEMERAL)
        for i, connection in connections.items():
            wait_for(cluster, i, operation="create", znode=f"/of-{i}", result="success")
            connection.close()
        for member in cluster.numbers():
            for i, connection in connections.items():
                found = wait_for(cluster, member, operation=EPHEMERAL_DELETION, znode=f"/of-{i}")
                assert len(found) == 1 and found[0]["session"] == f"0x{connection.session_id:x}", found
            creates = {fields["znode"] for fields in find(cluster, member, operation="create")}
            assert creates == {f"/of-{member}"}, creates


def test_leaders_transfers_and_backups_are_recorded():
    with harness.Cluster("quorate", 3, settings=ENABLED) as cluster:
        leader = cluster.leader()
        wait_for(cluster, leader, operation="leadershipBegin", result="success")
        target = cluster.others(leader)[0]
        grpc = f"{harness.HOST}:{cluster.ports.base + 100 + leader}"
        error = administration.transfer_leadership(grpc, target)
        assert not error, error
        wait_for(cluster, leader, operation="transferLeadership", detail=f"member={target}", ip=harness.HOST,
                 result="success")
        wait_for(cluster, leader, operation="leadershipEnd")
        wait_for(cluster, target, operation="leadershipBegin")
        error = administration.transfer_leadership(grpc, target)
        assert error, "a member that does not lead has transferred leadership"
        wait_for(cluster, leader, operation="transferLeadership", result="failure")
        result = quorate_cli.run("--server", grpc, "backup", os.path.join(cluster.parent, "backup"))
        assert result.returncode == 0, result.stderr
        wait_for(cluster, leader, operation="backup", ip=harness.HOST, result="invoked")


def test_writes_over_grpc_are_recorded():
    with harness.Cluster("quorate", 1, settings=ENABLED) as cluster:
        grpc = f"{harness.HOST}:{cluster.ports.base + 101}"
        commands = "create /g data\nset /g more\ncreate -s /g/n-\ndelete /none\nsetAcl /g world:anyone:cdrwa\n"
        quorate_cli.run("--server", grpc, "shell", typed=commands)
        wait_for(cluster, operation="setAcl", znode="/g", acl="world:anyone:cdrwa", result="success")
        found = [(fields["operation"], fields.get("znode"), fields.get("znode_type"), fields["result"])
                 for fields in lines(cluster) if fields.get("ip") == harness.HOST]
        assert found == [("create", "/g", "persistent", "success"), ("setData", "/g", None, "success"),
                         ("create", "/g/n-0000000000", "persistent_sequential", "success"),
                         ("delete", "/none", None, "failure"), ("setAcl", "/g", None, "success")], found


def test_a_write_is_recorded_even_if_its_client_does_not_wait_for_the_reply():
    with harness.Cluster("quorate", 1, settings=ENABLED) as cluster:
        for number in range(20):
            client = zk.Connection(cluster.address(1), 10000)
            client.submit(zk.CREATE, zk.request_create(f"/gone-{number}", b""))
            client.abandon()
        with zk.Connection(cluster.address(1), 10000) as reader:
            cluster.wait_until("all are created", lambda: len(reader.children("/")) == 21)
        for number in range(20):
            assert len(wait_for(cluster, operation="create", znode=f"/gone-{number}", result="success")) == 1


def test_names_of_clients_cannot_forge_a_line_in_any_log():
    forged = "x\n2026-01-01 00:00:00,000 INFO audit.Slf4jAuditLogger: user=root\toperation=forged\tresult=success\n"
    hostile = f"{forged}\x1b[2J\x1b]0;title\x07\u202e\u0085\u2028"
    settings = (*ENABLED, "4lw.commands.whitelist=*")
    with harness.Cluster("quorate", 1, settings=settings) as cluster:
        with zk.Connection(cluster.address(1), 10000) as client:
            client.call(zk.AUTH, zk.request_auth("digest", f"{hostile}:secret".encode()), xid=zk.XID_AUTH)
            client.call(zk.AUTH, zk.request_auth("digest", b"\xff\xfe\n\t:secret"), xid=zk.XID_AUTH)
            client.exists("/" + hostile, watch=True)
            client.create("/good")
            operations.failing(client, zk.CREATE, zk.request_create("/" + hostile, b""))
            operations.failing(client, operations.SET_ACL,
                               operations.set_acl("/good", [zk.acl(31, hostile, hostile)]))
            operations.failing(client, zk.CREATE, zk.request_create("/" + "y" * 500_000 + "\n", b""))
            for word in ("wchc", "wchp", "dump", "cons"):
                answer = zk.four_letter(cluster.address(1), word)
                assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2028]", answer), repr(answer)
                assert not any(line.startswith("2026-01-01") for line in answer.split("\n")), answer
            with contextlib.suppress(zk.ZkError, zk.Closed):
                client.call(zk.AUTH, zk.request_auth(hostile, b"x"), xid=zk.XID_AUTH)
        wait_for(cluster, operation="authenticate", result="failure")
        wait_for(cluster, operation="setAcl", result="failure")
        for fields in lines(cluster):  # parse() checks the form of each line
            assert fields["operation"] != "forged"
            assert all(len(value) < 20_000 for value in fields.values()), fields
            assert "secret" not in str(fields)
        log = cluster.log(1)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2028]", log), repr(log)
        assert all(re.match(r"\d{4}-\d\d-\d\dT", line) for line in log.splitlines()), log
        assert "operation=forged" not in "\n".join(line[:200] for line in log.splitlines()
                                                   if line.startswith("2026-01-01"))


def attempt_to_forge(cluster, made, hostile):
    """Gives the hostile name to the server in each way that a client has: in a certificate, to SASL, gRPC and HTTP."""
    subject = "/O=Example/CN=" + hostile.replace("\\", "\\\\").replace("/", "\\/")
    good = made.authority.issue("hostile", "client", subject, arguments=("-utf8",))
    with client_tls.kazoo(cluster.hosts(), good, made.authority) as client:
        client.create("/by-certificate", b"", ephemeral=True)
    other = certificates.Authority(made.directory, "other").issue("hostile", "client", subject, arguments=("-utf8",))
    assert client_tls.refused(cluster.hosts(), other, made.authority)
    for user in (hostile, "bob\n" + hostile):
        with sasl.Exchange(cluster.address(1)) as exchange:
            exchange.begin()
            assert exchange.answer(user=user, password="no") == (zk.AUTH_FAILED, None)
    basic = "Basic " + base64.b64encode(f"{hostile}:password".encode()).decode()
    grpc = f"{harness.HOST}:{cluster.ports.base + 101}"
    for metadata in ((("authorization", basic),), (("authorization", "Bearer operation=forged"),)):
        assert grpc_access.backup(grpc, metadata=metadata)[0] == "UNAUTHENTICATED", metadata
    where = ("127.0.0.1", cluster.ports.base + 301)
    for head in (f"GET /commands/{quote(hostile)} HTTP/1.1\r\nHost: a\r\n",
                 f"GET /commands/stats%0aforged?x={quote(hostile)} HTTP/1.1\r\nHost: {quote(hostile)}\r\n",
                 f"POST /commands/connection_stat_reset HTTP/1.1\r\nHost: a\r\nAuthorization: {basic}\r\n",
                 "GET / HTTP/1.1\r\nHost: a\r\nX-\x1b[2J: \x1b[2J\r\n", "\x1b[2J / HTTP/1.1\r\nHost: a\r\n"):
        with socket.create_connection(where, client_tls.PATIENCE_SECONDS) as raw:
            raw.sendall(f"{head}Connection: close\r\n\r\n".encode())
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(1 << 16):
                pass
    for garbage in (b"\x1b[2J", hostile.encode(), b"\x16\x03\x01\x00\x05\x1b[2J\n"):
        with contextlib.suppress(ConnectionError), socket.create_connection(
                (harness.HOST, int(cluster.address(1).rsplit(":", 1)[1])), client_tls.PATIENCE_SECONDS) as raw:
            raw.sendall(garbage)
            raw.shutdown(socket.SHUT_WR)
            raw.recv(1 << 16)


def test_names_in_certificates_and_credentials_cannot_forge_a_line_in_any_log():
    # An X.520 name has 64 characters at most.
    for hostile in ("x\n2026-01-01 00:00:00,000 INFO a: user=root\toperation=forged",
                    "\x1b[2J\x1b]0;title\x07\u202e\u0085\u2028", "a\\x1b\\nb\\"):
        with client_tls.place() as made, sasl.place() as users:
            lines_of_tls = made.settings(ssl__clientAuth="want")
            extra = (*ENABLED, sasl.PROVIDER, f"jaasFile={users.server}",
                     "DigestAuthenticationProvider.superDigest=" + grpc_access.SUPER_DIGEST)
            with harness.Cluster("quorate", 1, [*lines_of_tls, *extra]) as cluster:
                attempt_to_forge(cluster, made, hostile)
                user = wait_for(cluster, operation="create", znode="/by-certificate")[0]["user"]
                assert user.startswith("CN=") and user.endswith(f",O=Example,{harness.HOST}"), user
                wait_for(cluster, count=3, operation="authenticate", result="failure")
                for fields in lines(cluster):  # parse() checks the form of each line
                    assert fields["operation"] != "forged"
                log = cluster.log(1)
                assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2028]", log), repr(log)
                assert all(re.match(r"\d{4}-\d\d-\d\dT", line) for line in log.splitlines()), log
                cluster.check_alive()


def test_identities_of_certificates_are_users_and_bad_certificates_are_recorded():
    with client_tls.place() as made, harness.Cluster("quorate", 1, [*made.settings(), *ENABLED]) as cluster:
        with client_tls.kazoo(cluster.hosts(), made.alice, made.authority) as alice:
            alice.add_auth("digest", "bob:secret")
            alice.create("/a", b"1")
        assert wait_for(cluster, operation="create", znode="/a")[0]["user"] == (
            f"CN=alice,OU=dev,O=Example,C=US,bob,{harness.HOST}")
        other = certificates.Authority(made.directory, "other").issue("stranger", "client", "/CN=stranger")
        assert client_tls.refused(cluster.hosts(), other, made.authority)
        found = wait_for(cluster, operation="authenticate", ip=harness.HOST, result="failure")
        assert found[0]["detail"].startswith("x509: ") and "user" not in found[0], found
        assert "secret" not in str(lines(cluster))


# --- The file ------------------------------------------------------------------------------------


def test_files_are_renamed_by_size_and_only_the_owner_reads_them():
    bytes_max, files = 65536, 3
    settings = (*ENABLED, f"auditFileBytes={bytes_max}", f"auditFiles={files}")
    with harness.Cluster("quorate", 1, settings=settings) as cluster:
        with zk.Connection(cluster.address(1), 10000) as client:
            body = zk.request_multi([(zk.SET_DATA, zk.request_set("/", b"", -1))] * 100)
            for _ in range(30):
                client.call(zk.MULTI, body)
        cluster.command("stop", 1)
        name = os.path.basename(path_of(cluster))
        names = sorted(other for other in os.listdir(cluster.dir) if other.startswith(name))
        assert names == [name] + [f"{name}.{number}" for number in range(1, files + 1)], names
        for name in names:
            status = os.stat(path_of(cluster, name=name))
            assert status.st_mode & 0o777 == 0o600, oct(status.st_mode)
            assert status.st_size <= bytes_max, (name, status.st_size)
            assert lines(cluster, name=name)
        for number in range(1, files + 1):  # a renamed file is full: another line would not have fitted
            assert os.stat(path_of(cluster, name=f"{NAME}.{number}")).st_size > bytes_max - 300


def test_a_full_disk_delays_lines_and_loses_none_and_the_server_goes_on():
    with harness.Cluster("quorate", 1, settings=ENABLED, start=False) as cluster:
        os.makedirs(cluster.dir)
        os.symlink("/dev/full", path_of(cluster))
        cluster.start()
        with zk.Connection(cluster.address(1), 10000) as client:
            for number in range(50):
                client.create(f"/n-{number}")
            cluster.wait_until("the server's log says so",
                               lambda: "cannot write the audit log" in cluster.log(1))
            os.remove(path_of(cluster))
            os.kill(cluster.pids()[0], signal.SIGHUP)
            client.create("/after")
            wait_for(cluster, operation="create", znode="/after")
        found = [fields["znode"] for fields in find(cluster, operation="create")]
        assert found == [f"/n-{number}" for number in range(50)] + ["/after"], found
        cluster.wait_until("the server's log says so", lambda: "the audit log is written again" in cluster.log(1))
        assert cluster.log(1).count("cannot write the audit log") == 1, cluster.log(1)


def test_another_program_may_move_the_file_away():
    with harness.Cluster("quorate", 1, settings=ENABLED) as cluster:
        with zk.Connection(cluster.address(1), 10000) as client:
            client.create("/before")
            wait_for(cluster, znode="/before")
            os.rename(path_of(cluster), path_of(cluster, name="moved"))
            os.kill(cluster.pids()[0], signal.SIGHUP)
            cluster.wait_until("a new file", lambda: os.path.exists(path_of(cluster)))
            client.create("/behind")
            wait_for(cluster, znode="/behind")
            assert [fields["znode"] for fields in lines(cluster, name="moved") if "znode" in fields] == ["/before"]


def test_start_and_stop_are_recorded_and_a_killed_server_has_lost_only_the_last_moment():
    with harness.Cluster("quorate", 1, settings=ENABLED) as cluster:
        with zk.Connection(cluster.address(1), 10000) as client:
            client.create("/a")
            wait_for(cluster, znode="/a")  # the thread that writes lines has written them
            cluster.kill(1)
        cluster.restart(1)
        cluster.command("stop", 1)
        found = [(fields["operation"], fields["result"]) for fields in lines(cluster)]
        assert found == [("serverStart", "success"), ("create", "success"), ("serverStart", "success"),
                         ("serverStop", "invoked")], found


def start_alone(directory, *settings, environment=()):
    """Starts a server that has to end by itself. Returns its output."""
    config = os.path.join(directory, "zoo.cfg")
    with open(config, "w", encoding="utf-8") as file:
        file.write("\n".join((f"dataDir={directory}/data", *settings, "")))
    environment = {**{key: value for key, value in os.environ.items()
                      if key not in ("ZOO_LOG_DIR", "LOGS_DIRECTORY")}, **dict(environment)}
    result = subprocess.run([os.environ.get("QUORATED", harness.SERVERS["quorate"]), config], cwd=directory,
                            capture_output=True, text=True, timeout=harness.WAIT_SECONDS, env=environment, check=False)
    assert result.returncode in (1, 2, 3), result
    return result.stdout + result.stderr


def test_a_server_does_not_start_without_the_audit_log_that_is_configured():
    with harness.Cluster("quorate", 1) as running:  # its client port is in use
        port = f"clientPort={running.ports.base + 1}"
        directory = running.parent
        output = start_alone(directory, port, "audit.enable=true")
        assert "auditFile: it is missing" in output and "ZOO_LOG_DIR" in output, output
        output = start_alone(directory, port, "audit.enable=true", "auditFile=/no/such/directory/a.log")
        assert "cannot open the audit log /no/such/directory/a.log" in output, output
        output = start_alone(directory, port, "audit.enable=true", "auditFile=data/a.log")
        assert "auditFile: data/a.log is inside" in output, output
        output = start_alone(directory, port, "audit.enable=true", "audit.impl.class=com.example.Audit")
        assert "audit.impl.class" in output and "Slf4jAuditLogger" in output, output
        started = time.monotonic()
        output = start_alone(directory, port, "audit.enable=true", environment={"ZOO_LOG_DIR": directory})
        recorded = [parse(line) for line in raw_lines(os.path.join(directory, "zookeeper_audit.log"))]
        assert [(fields["operation"], fields["result"]) for fields in recorded] == [
            ("serverStart", "failure")], (recorded, output)
        assert time.monotonic() - started < harness.WAIT_SECONDS
