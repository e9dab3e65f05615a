# SPDX-License-Identifier: Apache-2.0
"""A client of the native front end for tests, over grpcio: unary calls, watches, and sessions. A session sends
nothing again, acknowledges nothing and does not reconnect by itself: the test does all that."""

import atexit
import base64
import importlib
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading

import grpc
import grpc_channel
import harness
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, duration_pb2, json_format, message_factory

PROTO = os.path.join(harness.ROOT, "rpc/proto")
PACKAGE = "quorate/v1"
SECONDS = 15  # the deadline of every operation


def _load_messages():
    """Generates the messages' classes from the .proto files, and loads them."""
    directory = tempfile.mkdtemp(prefix="quorate-proto-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    files = [f"{PACKAGE}/{name}.proto" for name in ("types", "tree", "session", "cluster", "lock")]
    subprocess.run(["protoc", f"--proto_path={PROTO}", f"--python_out={directory}", *files], check=True)
    sys.path.insert(0, directory)
    return [importlib.import_module(file[:-len(".proto")].replace("/", ".") + "_pb2") for file in files]


types, tree, session, cluster, lock = _load_messages()


def name_of(code):
    """Returns the name of an ErrorCode as documents have it: without its prefix, and "OK" for no error."""
    return types.ErrorCode.Name(code).removeprefix("ERROR_CODE_") if code else "OK"


def duration_of(ms):
    duration = duration_pb2.Duration()
    duration.FromMilliseconds(ms)
    return duration


# The key of the metadata that shows a credential.
CREDENTIAL = "quorate-credential"


def digest(user_and_password):
    """Returns the metadata that shows a credential of the scheme digest."""
    return CREDENTIAL, "digest " + base64.b64encode(user_and_password.encode()).decode()


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
    """Decodes the ErrorDetail in a google.rpc.Status."""
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

    def __init__(self, address, ca_file=""):
        self.channel = grpc_channel.open_channel(address, ca_file)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def call(self, method, request, seconds=SECONDS, metadata=()):
        response = getattr(tree, f"{method}Response")
        stub = self.channel.unary_unary(f"/quorate.v1.TreeService/{method}", type(request).SerializeToString,
                                        response.FromString)
        try:
            return stub(request, timeout=seconds, metadata=metadata)
        except grpc.RpcError as error:
            raise Failed(error) from None

    def create(self, path, data=b"", mode=types.CREATE_MODE_PERSISTENT, acl=(), metadata=()):
        create = types.Operation.Create(path=path, data=data, mode=mode, acl=acl)
        return self.call("Create", tree.CreateRequest(create=create), metadata=metadata)

    def get(self, path, linearizable=False, metadata=()):
        options = tree.ReadOptions(linearizable=linearizable)
        return self.call("Get", tree.GetRequest(path=path, options=options), metadata=metadata)

    def set(self, path, data, version=None):
        return self.call("Set", tree.SetRequest(set=types.Operation.Set(path=path, data=data, version=version)))

    def delete(self, path, recursive=False):
        return self.call("Delete",
                         tree.DeleteRequest(delete=types.Operation.Delete(path=path, recursive=recursive)))

    def list(self, path):
        return self.call("List", tree.ListRequest(path=path))

    def scan(self, request, seconds=SECONDS):
        """Returns the pages of a scan, as they come."""
        stub = self.channel.unary_stream("/quorate.v1.TreeService/Scan", tree.ScanRequest.SerializeToString,
                                         tree.ScanResponse.FromString)
        try:
            yield from stub(request, timeout=seconds)
        except grpc.RpcError as error:
            raise Failed(error) from None

    def exists(self, path):
        return self.call("Exists", tree.ExistsRequest(path=path))

    def watch(self, path, scope, after_zxid=0, **options):
        """Returns the stream of WatchResponses. The options are further fields of the request."""
        stub = self.channel.unary_stream("/quorate.v1.TreeService/Watch", tree.WatchRequest.SerializeToString,
                                         tree.WatchResponse.FromString)
        return stub(tree.WatchRequest(path=path, scope=scope, after_zxid=after_zxid, **options), timeout=SECONDS)


class Member:
    """The Cluster service at one member."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def _call(self, method, request):
        response = getattr(cluster, f"{method}Response")
        stub = self.channel.unary_unary(f"/quorate.v1.ClusterService/{method}", type(request).SerializeToString,
                                        response.FromString)
        try:
            return stub(request, timeout=SECONDS)
        except grpc.RpcError as error:
            raise Failed(error) from None

    def status(self):
        return self._call("Status", cluster.StatusRequest())

    def version(self):
        return self._call("Version", cluster.VersionRequest()).server

    def sessions(self):
        """Returns {id: Session} of the first page."""
        return {one.id: one for one in self._call("ListSessions", cluster.ListSessionsRequest()).sessions}

    def session(self, session_id):
        return self._call("GetSession", cluster.GetSessionRequest(id=session_id))

    def close_session(self, session_id):
        return self._call("CloseSession", cluster.CloseSessionRequest(id=session_id)).closed

    def transfer_leadership(self, member):
        self._call("TransferLeadership", cluster.TransferLeadershipRequest(member=member))


class Health:
    """The health service at one member (grpc/health/v1/health.proto), encoded by hand."""

    STATUSES = {b"": "UNKNOWN", b"\x08\x01": "SERVING", b"\x08\x02": "NOT_SERVING", b"\x08\x03": "SERVICE_UNKNOWN"}

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    @staticmethod
    def _request(service):
        """Encodes a request, whose only field is `service`."""
        return b"\x0a" + bytes([len(service)]) + service.encode()

    def check(self, service=""):
        stub = self.channel.unary_unary("/grpc.health.v1.Health/Check", self._request, self.STATUSES.get)
        return stub(service, timeout=SECONDS)

    def watch(self, service="", seconds=4 * SECONDS):
        """Returns the stream of statuses: the current one, and each change."""
        stub = self.channel.unary_stream("/grpc.health.v1.Health/Watch", self._request, self.STATUSES.get)
        return stub(service, timeout=seconds)


class Ended(Exception):
    """The stream has ended, with this status."""

    def __init__(self, code, details):
        super().__init__(f"{code}: {details}")
        self.code = code


class Session:
    """One stream of a session. With `session_id` and `password` it opens an existing session."""

    def __init__(self, address, session_id=0, password=None, timeout_ms=10000, metadata=(), min_revision=0):
        self.password = password or os.urandom(16)
        self.channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self.outgoing = queue.Queue()
        self.answers, self.events, self.zxid, self.next_id, self.end = {}, [], 0, 1, None
        self.changed = threading.Condition()
        stub = self.channel.stream_stream("/quorate.v1.SessionService/Session",
                                          session.SessionRequest.SerializeToString,
                                          session.SessionResponse.FromString)
        self.stream = stub(iter(self.outgoing.get, None), metadata=metadata)
        self.opened = None
        self.outgoing.put(session.SessionRequest(open=session.OpenSession(
            session_id=session_id, password=self.password, timeout=duration_of(timeout_ms),
            min_revision=min_revision)))
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
        """Ends the stream as if the network were cut; the session goes on."""
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
                raise TimeoutError("no message arrived in time")
            if not condition():
                raise self.end
            return condition()

    def send(self, *requests, acknowledged=0):
        """Sends requests in one message. Returns their ids."""
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
            assert self.changed.wait_for(lambda: self.end, SECONDS), "the stream does not end"
        return self.end.code

    def close(self):
        answer = self.call(close=session.Request.Close())
        self.wait_end()
        return answer


def create(path, data=b"", mode=types.CREATE_MODE_PERSISTENT, acl=()):
    return types.Operation(create=types.Operation.Create(path=path, data=data, mode=mode, acl=acl))


def set_(path, data, version=None):
    return types.Operation(set=types.Operation.Set(path=path, data=data, version=version))


def delete(path, recursive=False):
    return types.Operation(delete=types.Operation.Delete(path=path, recursive=recursive))


# The messages of grpc/reflection/v1alpha/reflection.proto, and of v1: field, number, type.
_REFLECTION = {
    "Request": [("file_by_filename", 3, "string"), ("file_containing_symbol", 4, "string"),
                ("list_services", 7, "string")],
    "Response": [("file_descriptor_response", 4, "Files"), ("list_services_response", 6, "Services"),
                 ("error_response", 7, "Error")],
    "Files": [("file_descriptor_proto", 1, "repeated bytes")],
    "Services": [("service", 1, "repeated Service")],
    "Service": [("name", 1, "string")],
    "Error": [("error_code", 1, "int32"), ("error_message", 2, "string")],
}


def _reflection_classes():
    scalars = {"int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
               "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
               "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES}
    file = descriptor_pb2.FileDescriptorProto(name="reflection_of_test.proto", package="reflection", syntax="proto2")
    for name, fields in _REFLECTION.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            label = 3 if kind.startswith("repeated ") else 1
            kind = kind.removeprefix("repeated ")
            if kind in scalars:
                message.field.add(name=field, number=number, type=scalars[kind], label=label)
            else:
                message.field.add(name=field, number=number, label=label, type_name=f".reflection.{kind}",
                                  type=descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return [factory.GetPrototype(pool.FindMessageTypeByName(f"reflection.{name}"))
            for name in ("Request", "Response")]


class Reflection:
    """A client that learns the services only from a member's reflection, as grpcurl does."""

    def __init__(self, address, version="v1alpha"):
        self.channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self.request, response = _reflection_classes()
        self.stub = self.channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            self.request.SerializeToString, response.FromString)
        self.pool = descriptor_pool.DescriptorPool()
        self.factory = message_factory.MessageFactory(self.pool)
        self.files = set()  # the names of the files in the pool

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def _ask(self, **what):
        try:
            response = next(self.stub(iter([self.request(**what)]), timeout=SECONDS))
        except grpc.RpcError as error:
            raise Failed(error) from None
        if response.HasField("error_response"):
            raise LookupError(f"{what}: {response.error_response.error_message}")
        return response

    def services(self):
        """Returns the names of the services."""
        return [service.name for service in self._ask(list_services="").list_services_response.service]

    def _learn(self, **what):
        """Adds the requested file, and the files that it imports, to the pool."""
        response = self._ask(**what).file_descriptor_response
        files = [descriptor_pb2.FileDescriptorProto.FromString(file)
                 for file in response.file_descriptor_proto]
        # The requested file comes first; not all files that it imports need to come with it.
        known = {file.name: file for file in files}

        def add(name):
            if name in self.files:
                return
            if name not in known:
                self._learn(file_by_filename=name)
                return
            for imported in known[name].dependency:
                add(imported)
            self.pool.Add(known[name])
            self.files.add(name)

        add(files[0].name)

    def service(self, name):
        """Returns the descriptor of a service, with those of all its messages."""
        self._learn(file_containing_symbol=name)
        return self.pool.FindServiceByName(name)

    def message(self, name):
        self._learn(file_containing_symbol=name)
        return self.pool.FindMessageTypeByName(name)

    def call(self, service, method, request):
        """Makes a unary call. Request and response are dictionaries, as in JSON."""
        found = self.service(service).FindMethodByName(method)
        make, take = (self.factory.GetPrototype(kind) for kind in (found.input_type, found.output_type))
        stub = self.channel.unary_unary(f"/{service}/{method}", make.SerializeToString, take.FromString)
        try:
            response = stub(json_format.ParseDict(request, make()), timeout=SECONDS)
        except grpc.RpcError as error:
            raise Failed(error) from None
        return json_format.MessageToDict(response)
