# SPDX-License-Identifier: Apache-2.0
"""Walks everything that a server can be asked, with no, a wrong and the right identity, and compares its answers with the
one table of who may do what (docs/reference/authorization.md, made from rpc/frontend/authorization.h). RPCs come from
the server's reflection, opcodes and words from the sources, and commands over HTTP from the server's own list. What has
no row in the table fails a test."""

import base64
import itertools
import os
import queue
import re
import struct

import console
import grpc
import harness
import web
import zkwire as zk
from client_tls import PATIENCE_SECONDS, place
from google.protobuf import descriptor_pb2
from grpc_access import DENIED, SUPER_DIGEST, TOKEN, bearer, channel, code_of, grpc_address, write
from native import lock, name_of, session, tree, types

PAGE = os.path.join(harness.ROOT, "docs/reference/authorization.md")
OPCODES = os.path.join(harness.ROOT, "rpc/zookeeper/opcodes.h")
WORDS = os.path.join(harness.ROOT, "rpc/zookeeper/four_letter_words.cc")
TITLES = {"gRPC": "rpc", "ZooKeeper's opcodes": "opcode", "Four-letter words": "word", "HTTP": "http"}
ROW = re.compile(r"^\| `([^`]+)` \| ([a-zA-Z ]+) \| (.*) \|$")
OPCODE = re.compile(r'^\s*ROW\((k\w+), (-?\d+), "(\w+)"', re.MULTILINE)
NO_AUTH = -102
RPCS_AT_A_SERVER = 9
# The credentials of a client: none, those of another one, and those that the access control lists name.
SET_ACL = 7
USERS = {"none": None, "wrong": b"user:other", "right": b"user:pass"}
USER_ID = "user:smGaoVKd/cQkjm7b88GyorAUz20="
MINE = zk.acl(31, "digest", USER_ID)
REFLECTION = "grpc.reflection.v1alpha.ServerReflection"
UNDESCRIBED = {
    "grpc.health.v1.Health": {
        "grpc.health.v1.Health/Check": (False, False), "grpc.health.v1.Health/Watch": (False, True)},
}


def table():
    """Returns {kind: {name: (what it needs, remark)}}."""
    found, kind = {}, None
    with open(PAGE, encoding="utf-8") as file:
        for line in file:
            if line.startswith("## "):
                kind = TITLES[line[3:].strip()]
                found[kind] = {}
            elif kind and (row := ROW.match(line.rstrip("\n"))):
                found[kind][row.group(1)] = row.group(2), row.group(3)
    assert all(found.get(kind) for kind in TITLES.values()), f"{PAGE} has another form"
    return found


def asks_no_permission(remark):
    """Returns whether a call that the access control lists decide is answered without a permission."""
    return "needs no permission" in remark or remark.startswith("events are sent")


class Private:
    """Znodes that only the user of USERS["right"] may use."""

    def __init__(self, address):
        self.connection = zk.Connection(address)
        self.connection.call(zk.AUTH, zk.request_auth("digest", USERS["right"]), xid=-4)
        self.number = 0
        self.connection.call(zk.CREATE, zk.request_create("/private", b"", acls=[MINE]))

    def path(self):
        """Returns the path of a new znode."""
        self.number += 1
        path = f"/private/{self.number}"
        self.create(path)
        return path

    def create(self, path, flags=0):
        self.connection.call(zk.CREATE, zk.request_create(path, b"", flags, acls=[MINE]))

    def missing(self):
        self.number += 1
        return f"/private/{self.number}"


def let_reconfigure(address):
    """Lets the user of USERS["right"] change the members."""
    with zk.Connection(address) as connection:
        connection.call(zk.AUTH, zk.request_auth("digest", b"super:secret"), xid=-4)
        body = zk.ustring("/zookeeper/config") + zk.vector([zk.acl(1), MINE]) + struct.pack(">i", -1)
        connection.call(SET_ACL, body)


# --- RPCs ---------------------------------------------------------------------------------------------------------------


def field(number, text):
    """Encodes a field of bytes, of fewer than 128."""
    return bytes([number << 3 | 2, len(text)]) + text.encode()


def fields(data):
    """Yields (number, value) of a message; the values of numbers are ints."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            size = varint()
            yield key >> 3, data[at:at + size]
            at += size
        else:
            raise ValueError(f"a field of type {key & 7}")


def reflect(made, request):
    """Sends a ServerReflectionRequest; returns the fields of the response."""
    call = made.stream_stream(f"/{REFLECTION}/ServerReflectionInfo")
    return list(fields(next(iter(call(iter([request]), timeout=PATIENCE_SECONDS)))))


def methods_of(made):
    """Returns {"service/method": (takes a stream, returns a stream)} of a server."""
    (listed,) = (value for number, value in reflect(made, field(7, "")) if number == 6)
    found = {}
    for _, service in fields(listed):
        name = dict(fields(service))[1].decode()
        files = next((value for number, value in reflect(made, field(4, name)) if number == 4), None)
        if files is None:  # gRPC describes no services of its own
            assert name in UNDESCRIBED, f"the server does not describe {name}"
            found.update(UNDESCRIBED[name])
            continue
        for _, encoded in fields(files):
            file = descriptor_pb2.FileDescriptorProto.FromString(encoded)
            for described in file.service:
                if f"{file.package}.{described.name}" != name:
                    continue
                for method in described.method:
                    found[f"{name}/{method.name}"] = method.client_streaming, method.server_streaming
    return found


def tree_request(method, private):
    """Returns the request of a method of TreeService for a private znode."""
    op = types.Operation
    path = private.path()
    create = op.Create(path=private.missing(), mode=types.CREATE_MODE_PERSISTENT)
    parts = {
        "Get": lambda: {"path": path}, "Exists": lambda: {"path": path}, "List": lambda: {"path": path},
        "ListRecursive": lambda: {"path": path}, "Scan": lambda: {"path": path},
        "Watch": lambda: {"path": path, "scope": types.WATCH_SCOPE_NODE},
        "Create": lambda: {"create": create}, "Set": lambda: {"set": op.Set(path=path)},
        "Delete": lambda: {"delete": op.Delete(path=path)},
        "CreateIfNotExists": lambda: {"create": create},
        "RemoveRecursive": lambda: {"remove": op.RemoveRecursive(path=path, limit=10)},
        "TryRemove": lambda: {"remove": op.TryRemove(path=path)},
        "Txn": lambda: {"operations": [op(set=op.Set(path=path))]},
    }
    assert method in parts, f"TreeService/{method} has no request in this test"
    kind = getattr(tree, f"{method}Request")
    return kind(**parts[method]())


def lock_request(method, private):
    """Returns the request of a method of LockService or ElectionService for a private queue, in which the session of
    `private` has a contender unless the method is Acquire or Campaign."""
    kind = getattr(lock, f"{method}Request")
    path = private.path()
    if method == "Observe":
        return kind(path=path)
    if method not in ("Acquire", "Campaign"):
        private.create(f"{path}/_c_mine-lock-", flags=3)
    return kind(contender=lock.Contender(path=path, id="mine", session_id=private.connection.session_id,
                                         session_password=private.connection.password))


def session_answer(made, private, metadata):
    """Reads a private znode in a session. Returns the name of the error."""
    messages = queue.Queue()
    messages.put(session.SessionRequest(
        open=session.OpenSession(password=os.urandom(16)),
        requests=[session.Request(id=1, get=session.Request.Get(path=private.path()))]))
    call = made.stream_stream("/quorate.v1.SessionService/Session", session.SessionRequest.SerializeToString,
                              session.SessionResponse.FromString)(
                                  iter(messages.get, None), timeout=PATIENCE_SECONDS, metadata=metadata)
    try:
        for response in call:
            for item in response.items:
                if item.HasField("response"):
                    return name_of(item.response.error)
    except grpc.RpcError as error:
        return code_of(error)
    finally:
        messages.put(None)
        call.cancel()
    raise AssertionError("the stream has ended without an answer")


def answer(made, name, streams, private, metadata=()):
    """Calls a method. Returns "OK", or the code of its status."""
    service, method = name.split("/")
    if service == "quorate.v1.SessionService":
        return {"NO_AUTH": "PERMISSION_DENIED"}.get(error := session_answer(made, private, metadata), error)
    request = b""
    if service == "quorate.v1.TreeService":
        request = tree_request(method, private).SerializeToString()
    elif service in ("quorate.v1.LockService", "quorate.v1.ElectionService"):
        request = lock_request(method, private).SerializeToString()
    elif service == REFLECTION:
        request = field(7, "")
    takes, returns = streams
    kind = {(False, False): made.unary_unary, (False, True): made.unary_stream, (True, True): made.stream_stream}
    call = kind[takes, returns](f"/{name}")
    try:
        result = call(iter([request]) if takes else request, timeout=PATIENCE_SECONDS, metadata=metadata)
        if returns:
            next(iter(result))
            result.cancel()
        return "OK"
    except StopIteration:
        return "OK"
    except grpc.RpcError as error:
        return code_of(error)


def credential(user):
    secret = USERS[user]
    return [("quorate-credential", "digest " + base64.b64encode(secret).decode())] if secret else []


def check_rpc(made, name, streams, needs, remark, private):
    # An administrator's token, from "none" to "right".
    metadata = {"none": (), "wrong": bearer(TOKEN[1:] + "0"), "right": bearer(TOKEN)}
    answers = {who: answer(made, name, streams, private, metadata=metadata[who]) for who in metadata}
    users = {who: answer(made, name, streams, private, credential(who)) for who in USERS} if needs == "ACL" else {}
    text = f"{name} needs {needs}: {answers} {users}"
    if needs == "administrator":
        assert answers["none"] in DENIED and answers["wrong"] in DENIED and answers["right"] not in DENIED, text
    elif needs == "reduced":
        assert (answers["none"], answers["wrong"], answers["right"]) == ("OK", "UNAUTHENTICATED", "OK"), text
    elif needs == "open":
        # Our own services check credentials that nobody asked for; those of gRPC do not look at them.
        wrong = "UNAUTHENTICATED" if name.startswith("quorate.") else "OK"
        assert (answers["none"], answers["wrong"], answers["right"]) == ("OK", wrong, "OK"), text
    elif needs == "ACL":
        if asks_no_permission(remark):
            assert answers["wrong"] == "UNAUTHENTICATED", text
            assert {answers["none"], answers["right"], *users.values()} <= {"OK", "DEADLINE_EXCEEDED"}, text
        else:
            # An administrator's token passes no access control list, and a wrong one is refused.
            assert answers == {"none": "PERMISSION_DENIED", "wrong": "UNAUTHENTICATED",
                               "right": "PERMISSION_DENIED"}, text
            assert users == {"none": "PERMISSION_DENIED", "wrong": "PERMISSION_DENIED", "right": "OK"}, text
    else:
        raise AssertionError(f"{name}: an RPC cannot need {needs}")


def test_every_rpc_asks_for_what_the_table_says():
    rows = table()["rpc"]
    checked = 0
    with place() as made:
        keys = [f"administratorTokenFile={write(made.path('tokens'), TOKEN)}"]
        while checked < len(rows):
            # Another server after some RPCs, because an address may have ten wrong credentials in a short time.
            with harness.Cluster("quorate", 1, keys) as cluster, channel(grpc_address(cluster)) as connected:
                private = Private(cluster.address(1))
                methods = methods_of(connected)
                assert set(methods) == set(rows), f"differ from the table: {set(methods) ^ set(rows)}"
                for name, streams in itertools.islice(sorted(methods.items()), checked, checked + RPCS_AT_A_SERVER):
                    check_rpc(connected, name, streams, *rows[name], private)
                cluster.check_alive()
            checked += RPCS_AT_A_SERVER
    return f"{len(rows)} RPCs"


# --- Opcodes ------------------------------------------------------------------------------------------------------------


def bodies(private):
    """Returns {name: function that returns the body of a request for a private znode}."""
    path = private.path

    def created(flags=0, more=b""):
        return lambda: zk.request_create(private.missing(), b"", flags, [zk.acl()]) + more

    def read():
        return zk.request_path_watch(path(), False)

    return {
        "create": created(), "create2": created(), "createContainer": created(4),
        "createTTL": created(5, struct.pack(">q", 60000)), "createIfNotExists": created(),
        "delete": lambda: zk.request_delete(path(), -1), "tryRemove": lambda: zk.request_delete(path(), -1),
        "exists": read, "getData": read, "getChildren": read, "getChildren2": read,
        "setData": lambda: zk.request_set(path(), b"", -1), "getACL": lambda: zk.ustring(path()),
        "setACL": lambda: zk.ustring(path()) + zk.vector([MINE]) + struct.pack(">i", -1),
        "check": lambda: zk.ustring(path()) + struct.pack(">i", -1),
        "checkNotExists": lambda: zk.ustring(path()) + struct.pack(">i", -1),
        "checkStat": lambda: zk.request_check_stat(path()),
        "multi": lambda: zk.request_multi([(5, zk.request_set(path(), b"", -1))]),
        "multiRead": lambda: zk.request_multi([(4, read())]),
        "getAllChildrenNumber": lambda: zk.ustring(path()),
        "setWatches": lambda: zk.request_set_watches(0, data=[path()]),
        "setWatches2": lambda: zk.request_set_watches(0, data=[path()]) + zk.vector([]) * 2,
        "addWatch": lambda: zk.ustring(path()) + struct.pack(">i", 0),
        "filteredList": lambda: zk.request_filtered_list(path(), False, 0),
        "filteredListWithStatsAndData": lambda: zk.request_filtered_list(path(), False, 0, (1, 1)),
        "removeRecursive": lambda: zk.request_path_number(path(), 10),
        "listRecursive": lambda: zk.request_path_number(path(), 10),
        "sync": lambda: zk.ustring(path()), "getEphemerals": lambda: zk.ustring("/"),
        "checkWatches": lambda: zk.ustring(path()) + struct.pack(">i", 3),
        "removeWatches": lambda: zk.ustring(path()) + struct.pack(">i", 3),
        "auth": lambda: zk.request_auth("digest", b"another:one"), "sasl": lambda: zk.buffer(b""),
        "ping": lambda: b"", "closeSession": lambda: b"", "whoAmI": lambda: b"",
        "reconfig": lambda: zk.ustring("") * 3 + struct.pack(">q", -1),
        "deleteContainer": lambda: zk.ustring(path()),
        "createSession": lambda: struct.pack(">i", 10000), "error": lambda: struct.pack(">i", 0),
        "notification": lambda: struct.pack(">ii", 1, 3) + zk.ustring("/"),
    }


def zookeeper_answer(address, user, number, body):
    """Sends a request in a new session. Returns its error, 0 for success, or None if the connection is closed."""
    with zk.Connection(address, timeout=PATIENCE_SECONDS) as connection:
        if USERS[user]:
            connection.call(zk.AUTH, zk.request_auth("digest", USERS[user]), xid=-4)
        xid = {11: -2, 100: -4}.get(number, 7)
        try:
            connection.send(zk.frame(zk.header(xid, number) + body))
            while True:
                reply = zk.decode_reply(connection.receive_frame())
                if reply.xid == xid:
                    break
        except zk.Closed as error:
            if "in time" in str(error):
                raise AssertionError(f"no answer to opcode {number}") from error
            return None
        # The result of a multi and of a multiRead has the error of each operation.
        if number in (14, 22) and struct.pack(">i", NO_AUTH) in reply.body:
            return NO_AUTH
        return reply.err


def check_opcode(address, name, number, needs, remark, body):
    answers = {user: zookeeper_answer(address, user, number, body()) for user in USERS}
    text = f"{name} ({number}) needs {needs}: {answers}"
    if needs == "ACL" and not asks_no_permission(remark):
        assert answers["none"] == answers["wrong"] == NO_AUTH, text
        assert answers["right"] is not None and answers["right"] != NO_AUTH, text
    elif needs == "ACL":
        assert set(answers.values()) == {0}, text
    elif needs == "own session":
        assert NO_AUTH not in answers.values(), text
    elif needs == "nobody":
        assert 0 not in answers.values(), text
    else:
        raise AssertionError(f"{name}: an opcode cannot need {needs}")


def test_every_opcode_asks_for_what_the_table_says():
    rows = table()["opcode"]
    with open(OPCODES, encoding="utf-8") as file:
        opcodes = {name: int(number) for _, number, name in OPCODE.findall(file.read())}
    assert set(opcodes) == set(rows), f"differ from the table: {set(opcodes) ^ set(rows)}"
    with harness.Cluster("quorate", 1, ["reconfigEnabled=true",
                                        f"DigestAuthenticationProvider.superDigest={SUPER_DIGEST}"]) as cluster:
        address = cluster.address(1)
        private = Private(address)
        let_reconfigure(address)
        requests = bodies(private)
        assert set(requests) == set(rows), f"opcodes without a request in this test: {set(rows) - set(requests)}"
        for name, number in opcodes.items():
            check_opcode(address, name, number, *rows[name], requests[name])
        for number in {*range(-15, 130), *range(490, 530)} - set(opcodes.values()):
            got = zookeeper_answer(address, "right", number, zk.ustring("/"))
            assert got != 0, f"opcode {number} is served, and has no row"
        private.connection.abandon()
        cluster.check_alive()
        return f"{len(opcodes)} opcodes"


# --- Four-letter words --------------------------------------------------------------------------------------------------


def test_every_word_asks_for_what_the_table_says():
    rows = table()["word"]
    with open(WORDS, encoding="utf-8") as file:
        words = set(re.findall(r'"(\w{4})"', re.search(r"kWords\[\] = \{(.*?)\};", file.read(), re.DOTALL).group(1)))
    assert words == set(rows), f"differ from the table: {words ^ set(rows)}"
    assert {needs for needs, _ in rows.values()} == {"word list"}, rows
    always = {word for word, (_, remark) in rows.items() if remark == "always answered"}
    for allowed, expected in (("ruok", {"ruok"} | always), ("*", set(rows))):
        with harness.Cluster("quorate", 1, [f"4lw.commands.whitelist={allowed}"]) as cluster:
            address = cluster.address(1)
            answered = set()
            for word in rows:
                text = zk.four_letter(address, word + ("\0" * 8 if word == "stmk" else ""))
                assert text, f"{word} gets no answer"
                if "is not executed" not in text:
                    answered.add(word)
            assert answered == expected, f"{allowed}: {answered ^ expected}"
            try:
                assert not zk.four_letter(address, "nope"), "an unknown word is answered"
            except zk.Closed:
                pass
            cluster.check_alive()
    return f"{len(rows)} words"


# --- HTTP ---------------------------------------------------------------------------------------------------------------


def test_every_path_asks_for_what_the_table_says():
    rows = table()["http"]
    with place() as made, harness.Cluster(
            "quorate", 1, [f"administratorTokenFile={write(made.path('tokens'), TOKEN)}"]) as cluster:
        web.await_serving(cluster)
        listed = re.findall(r'href="([^"]+)"', web.get(cluster, "/commands").text)
        commands = {path for path in rows if path.startswith("/commands/")}
        assert set(listed) == commands, set(listed) ^ commands
        console_paths = {path for path in rows if path.startswith("/console/api/")}
        changes = {f"/console/api/{name}" for name in console.CHANGES}
        assert changes < console_paths, changes - console_paths
        for path in changes:
            name = path.rsplit("/", 1)[1]
            answers = [console.change(cluster, name, console.CHANGES[name], sent).status
                       for sent in ({}, console.basic("u"), console.bearer())]
            is_of_tree = name in console.TREE
            assert rows[path][0] == ("ACL" if is_of_tree else "administrator"), path
            assert [answer == 403 for answer in answers] == [True, not is_of_tree, False], f"{path}: {answers}"
        for path in console_paths - changes:
            answers = [web.get(cluster, path + "?path=/", headers=sent).status
                       for sent in ({}, {"Authorization": "Basic dTpw"}, {"Authorization": f"Bearer {TOKEN}"})]
            others = 403 if rows[path][0] == "administrator" else 200
            assert answers == [others, others, 200], f"{path}: {answers}"
            headers = {"Host": "other.example"}
            assert web.get(cluster, path + "?path=/", headers=headers).status == 403, path
        credentials = {"none": {}, "wrong": {"Authorization": f"Bearer {TOKEN[1:]}0"},
                       "right": {"Authorization": f"Bearer {TOKEN}"}}
        for number, (path, (needs, _)) in enumerate(rows.items()):
            if path in console_paths:
                continue
            where = path.replace("health/*", "health/live").replace("console/*", "console/console.js")
            where += "?traceMask=1&streaming=false"
            method = "POST" if path == "/commands/restore" else "GET"
            # From another address for each path, because an address may have ten wrong credentials in a short time.
            answers = {who: web.get(cluster, where, method=method, headers=sent, source=f"127.0.1.{number + 1}").status
                       for who, sent in credentials.items()}
            assert needs in ("open", "administrator"), f"{path} cannot need {needs}"
            refused = 401 if needs == "administrator" else 200
            right = 501 if path == "/commands/restore" else 200
            assert answers == {"none": refused, "wrong": refused, "right": right}, f"{path} needs {needs}: {answers}"
        cluster.check_alive()
    return f"{len(rows)} paths"
