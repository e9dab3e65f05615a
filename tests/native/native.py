"""A client of the native door for tests, over grpcio: unary calls, watches, and sessions that leave
everything to the test: nothing is sent again, acknowledged or reconnected by itself."""

import atexit
import importlib
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading

import grpc
import harness

PACKAGE = "rpc/proto/quorate/v1"
SECONDS = 15  # that anything may take


def _load_messages():
    """The messages' classes, generated from the .proto files as they are."""
    directory = tempfile.mkdtemp(prefix="quorate-proto-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    files = [f"{PACKAGE}/{name}.proto" for name in ("types", "tree", "session")]
    subprocess.run(["protoc", f"--proto_path={harness.ROOT}", f"--python_out={directory}", *files], check=True)
    sys.path.insert(0, directory)
    return [importlib.import_module(file[:-len(".proto")].replace("/", ".") + "_pb2") for file in files]


types, tree, session = _load_messages()


def name_of(code):
    return types.ErrorCode.Name(code)


class Failed(Exception):
    """A call that failed: its gRPC status, and the ErrorDetail among its details."""

    def __init__(self, error):
        super().__init__(f"{error.code().name}: {error.details()}")
        self.code = error.code().name
        self.detail = types.ErrorDetail()
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                self.detail = _detail_of(value)


def _detail_of(status):
    """Takes a google.rpc.Status apart as its definition says."""
    from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory  # pylint: disable=all
    file = descriptor_pb2.FileDescriptorProto(name="status_of_test.proto", package="of_test", syntax="proto3")
    file.dependency.append("google/protobuf/any.proto")
    message = file.message_type.add(name="Status")
    message.field.add(name="code", number=1, type=5, label=1)
    message.field.add(name="message", number=2, type=9, label=1)
    message.field.add(name="details", number=3, type=11, label=3, type_name=".google.protobuf.Any")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(any_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    kind = message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName("of_test.Status"))
    detail = types.ErrorDetail()
    for any_ in kind.FromString(status).details:
        assert any_.type_url == "type.googleapis.com/quorate.v1.ErrorDetail", any_.type_url
        detail.ParseFromString(any_.value)
    return detail


class Tree:
    """The unary service at one member."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def call(self, method, request, seconds=SECONDS):
        response = getattr(tree, f"{method}Response")
        stub = self.channel.unary_unary(f"/quorate.v1.Tree/{method}", type(request).SerializeToString,
                                        response.FromString)
        try:
            return stub(request, timeout=seconds)
        except grpc.RpcError as error:
            raise Failed(error) from None

    def create(self, path, data=b"", mode=types.PERSISTENT, acl=(), credentials=()):
        create = types.Operation.Create(path=path, data=data, mode=mode, acl=acl)
        return self.call("Create", tree.CreateRequest(create=create, credentials=credentials))

    def get(self, path, linearizable=False, credentials=()):
        options = tree.ReadOptions(linearizable=linearizable)
        return self.call("Get", tree.GetRequest(path=path, options=options, credentials=credentials))

    def set(self, path, data, version=None):
        return self.call("Set", tree.SetRequest(set=types.Operation.Set(path=path, data=data, version=version)))

    def delete(self, path, recursive=False):
        return self.call("Delete",
                         tree.DeleteRequest(delete=types.Operation.Delete(path=path, recursive=recursive)))

    def list(self, path):
        return self.call("List", tree.ListRequest(path=path))

    def exists(self, path):
        return self.call("Exists", tree.ExistsRequest(path=path))

    def watch(self, path, scope, after_zxid=0):
        """The stream of WatchResponses."""
        stub = self.channel.unary_stream("/quorate.v1.Tree/Watch", tree.WatchRequest.SerializeToString,
                                         tree.WatchResponse.FromString)
        return stub(tree.WatchRequest(path=path, scope=scope, after_zxid=after_zxid), timeout=SECONDS)


class Ended(Exception):
    """The stream has ended; with which status."""

    def __init__(self, code, details):
        super().__init__(f"{code}: {details}")
        self.code = code


class Session:
    """One stream of a session. `session_id` and `password` open an old one."""

    def __init__(self, address, session_id=0, password=None, timeout_ms=10000, credentials=()):
        self.password = password or os.urandom(16)
        self.channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self.outgoing = queue.Queue()
        self.answers, self.events, self.zxid, self.next_id, self.end = {}, [], 0, 1, None
        self.changed = threading.Condition()
        stub = self.channel.stream_stream("/quorate.v1.Sessions/Session",
                                          session.SessionRequest.SerializeToString,
                                          session.SessionResponse.FromString)
        self.stream = stub(iter(self.outgoing.get, None))
        self.opened = None
        self.outgoing.put(session.SessionRequest(open=session.OpenSession(
            session_id=session_id, password=self.password, timeout_ms=timeout_ms, credentials=credentials)))
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        try:
            self._wait(lambda: self.opened)
        except Exception:
            self.break_off()
            raise
        self.id = self.opened.session_id

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.break_off()

    def break_off(self):
        """As if the network were cut; the session lives on."""
        self.outgoing.put(None)
        self.stream.cancel()
        self.channel.close()
        self.reader.join(SECONDS)

    def _read(self):
        try:
            for response in self.stream:
                with self.changed:
                    if response.HasField("opened"):
                        self.opened = response.opened
                    for item in response.items:
                        if item.HasField("response"):
                            self.answers[item.response.id] = item.response
                        else:
                            self.events.append(item.event)
                    self.zxid = max(self.zxid, response.zxid)
                    self.changed.notify_all()
            self.end = Ended("OK", "")
        except grpc.RpcError as error:
            self.end = Ended(error.code().name, error.details())
        with self.changed:
            self.changed.notify_all()

    def _wait(self, condition, seconds=SECONDS):
        with self.changed:
            if not self.changed.wait_for(lambda: condition() or self.end, seconds):
                raise TimeoutError("nothing came")
            if not condition():
                raise self.end
            return condition()

    def send(self, *requests, acknowledged=0):
        """Sends requests in one message; their ids."""
        for request in requests:
            request.id, self.next_id = self.next_id, self.next_id + 1
        self.outgoing.put(session.SessionRequest(requests=requests, acknowledged_sequence=acknowledged))
        return [request.id for request in requests]

    def answer(self, request_id, seconds=SECONDS):
        return self._wait(lambda: self.answers.get(request_id), seconds)

    def call(self, **kind):
        return self.answer(self.send(session.Request(**kind))[0])

    def write(self, sequence, *operations):
        return self.call(write=session.Request.Write(sequence=sequence, operations=operations))

    def get(self, path, linearizable=False):
        return self.call(get=session.Request.Get(path=path, linearizable=linearizable))

    def watch(self, watch_id, path, scope, after_zxid=0):
        return self.call(watch=session.Request.Watch(watch_id=watch_id, path=path, scope=scope,
                                                     after_zxid=after_zxid))

    def wait_events(self, count):
        self._wait(lambda: len(self.events) >= count)
        return self.events

    def wait_end(self):
        with self.changed:
            assert self.changed.wait_for(lambda: self.end, SECONDS), "the stream goes on"
        return self.end.code

    def close(self):
        answer = self.call(close=session.Request.Close())
        self.wait_end()
        return answer


def create(path, data=b"", mode=types.PERSISTENT, acl=()):
    return types.Operation(create=types.Operation.Create(path=path, data=data, mode=mode, acl=acl))


def set_(path, data, version=None):
    return types.Operation(set=types.Operation.Set(path=path, data=data, version=version))


def delete(path, recursive=False):
    return types.Operation(delete=types.Operation.Delete(path=path, recursive=recursive))


def services_of(address):
    """The names that reflection gives, asked in its protocol by hand: ServerReflectionRequest has
    list_services as field 7, its response the names as 6.1.1."""
    with grpc.insecure_channel(address) as channel:
        stub = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                     lambda _: b"\x3a\x00", bytes)
        response = next(stub(iter([None]), timeout=SECONDS))
    names = _fields(_fields(response, 6)[0], 1)
    return [_fields(name, 1)[0].decode() for name in names]


def _fields(message, number):
    """The values of a field that has a length, of a message without fixed-size fields."""
    values, at = [], 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = varint()
        value = varint()
        if tag & 7 == 2:
            if tag >> 3 == number:
                values.append(message[at:at + value])
            at += value
    return values
