# SPDX-License-Identifier: Apache-2.0
"""The ZooKeeper wire protocol, encoded by hand, so that tests control every byte.

A Connection is one TCP connection with one session on it. It sends and waits in one thread, does
not reconnect, and hides nothing: the end of the connection raises Closed, an error code raises ZkError.
Frames can be encoded (request_*) and decoded without a socket, and sent raw.
"""

import collections
import socket
import struct
import time

# Operations.
CREATE, DELETE, EXISTS, GET_DATA, SET_DATA, GET_ACL, GET_CHILDREN, SYNC = 1, 2, 3, 4, 5, 6, 8, 9
PING, GET_CHILDREN2, CHECK, MULTI, SET_WATCHES, AUTH, CLOSE = 11, 12, 13, 14, 101, 100, -11
MULTI_READ = 22
# Operations of ClickHouse Keeper.
FILTERED_LIST, CHECK_NOT_EXISTS, CREATE_IF_NOT_EXISTS, REMOVE_RECURSIVE = 500, 501, 502, 503
CHECK_STAT, TRY_REMOVE, FILTERED_LIST_DETAILED, LIST_RECURSIVE = 504, 505, 506, 507

# Create flags.
PERSISTENT, EPHEMERAL, SEQUENTIAL, EPHEMERAL_SEQUENTIAL = 0, 1, 2, 3

# xids with a special meaning.
XID_EVENT, XID_PING, XID_AUTH, XID_SET_WATCHES = -1, -2, -4, -8

# Error codes.
OK, UNIMPLEMENTED, NO_NODE, BAD_VERSION = 0, -6, -101, -103
NODE_EXISTS, SESSION_EXPIRED, AUTH_FAILED = -110, -112, -115
MARSHALLING_ERROR, BAD_ARGUMENTS, NOT_EMPTY, INVALID_ACL = -5, -8, -111, -114
SYSTEM_ERROR = -1

# Event types.
NODE_CREATED, NODE_DELETED, NODE_DATA_CHANGED, NODE_CHILDREN_CHANGED = 1, 2, 3, 4

MAX_FRAME_BYTES = 0xFFFFF
NO_PASSWORD = bytes(16)


class ZkError(Exception):
    """The server answered with an error code."""

    def __init__(self, code, what=""):
        super().__init__(f"error {code}{' in ' + what if what else ''}")
        self.code = code


class Closed(Exception):
    """The connection has ended, or no data arrived in time."""


class SessionRefused(Closed):
    """The server answered the handshake with "no such session"."""


Stat = collections.namedtuple("Stat", "czxid mzxid ctime mtime version cversion aversion "
                              "ephemeral_owner data_length num_children pzxid")
Event = collections.namedtuple("Event", "type state path zxid")
Reply = collections.namedtuple("Reply", "xid zxid err body")


# --- encoding ---------------------------------------------------------------------------------


def buffer(data):
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def ustring(text):
    return buffer(None if text is None else text.encode())


def vector(items):
    return struct.pack(">i", len(items)) + b"".join(items)


def acl(perms=31, scheme="world", ident="anyone"):
    return struct.pack(">i", perms) + ustring(scheme) + ustring(ident)


def frame(body):
    return struct.pack(">i", len(body)) + body


def header(xid, operation):
    return struct.pack(">ii", xid, operation)


def connect_request(timeout_ms, session_id=0, password=NO_PASSWORD, last_zxid=0):
    return (struct.pack(">iqiq", 0, last_zxid, timeout_ms, session_id) + buffer(password) + b"\0")


def connect_response(timeout_ms, session_id, password):
    return struct.pack(">iiq", 0, timeout_ms, session_id) + buffer(password) + b"\0"


def request_create(path, data, flags=PERSISTENT, acls=None):
    return (ustring(path) + buffer(data) + vector(acls or [acl()]) + struct.pack(">i", flags))


def request_path_watch(path, watch):
    return ustring(path) + (b"\1" if watch else b"\0")


def request_delete(path, version):
    return ustring(path) + struct.pack(">i", version)


def request_set(path, data, version):
    return ustring(path) + buffer(data) + struct.pack(">i", version)


def request_auth(scheme, credentials):
    return struct.pack(">i", 0) + ustring(scheme) + buffer(credentials)


def request_multi(operations):
    """Encodes the body of a multi; `operations` are (operation, request body)."""
    items = [multi_header(operation, False, -1) + body for operation, body in operations]
    return b"".join(items) + multi_header(-1, True, -1)


def multi_header(operation, done, err):
    return struct.pack(">i?i", operation, done, err)


def request_filtered_list(path, watch, kind, details=()):
    """`kind`: 0 all children, 1 those that are no ephemerals, 2 the ephemerals. `details`: of
    filteredListWithStatsAndData, whether it has stats and data."""
    return request_path_watch(path, watch) + bytes([kind]) + bytes(details)


def request_path_number(path, number):
    """Encodes the body of removeRecursive and listRecursive."""
    return ustring(path) + struct.pack(">I", number)


def request_check_stat(path, version=-1, stat=None):
    """A field of -1 matches any value; so does no stat."""
    return ustring(path) + struct.pack(">iqqqqiiiqiiq", version, *(stat or [-1] * len(Stat._fields)))


def request_set_watches(relative_zxid, data=(), exist=(), child=()):
    return struct.pack(">q", relative_zxid) + b"".join(
        vector([ustring(path) for path in paths]) for paths in (data, exist, child))


# --- decoding ---------------------------------------------------------------------------------


class Reader:
    """Reads fields from a record, in order."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, layout):
        values = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return values if len(values) > 1 else values[0]

    def buffer(self):
        length = self.take(">i")
        if length < 0:
            return None
        data = self.data[self.at:self.at + length]
        if len(data) != length:
            raise ValueError(f"a field of {length} bytes in a record that has only {len(data)} left")
        self.at += length
        return data

    def ustring(self):
        data = self.buffer()
        return None if data is None else data.decode()

    def strings(self):
        return [self.ustring() for _ in range(max(0, self.take(">i")))]

    def stat(self):
        return Stat(*self.take(">qqqqiiiqiiq"))

    def at_end(self):
        return self.at == len(self.data)


def decode_reply(body):
    xid, zxid, err = struct.unpack_from(">iqi", body)
    return Reply(xid, zxid, err, body[16:])


def decode_event(reply):
    reader = Reader(reply.body)
    kind, state = reader.take(">ii")
    return Event(kind, state, reader.ustring(), reply.zxid)


# --- connections ------------------------------------------------------------------------------


class RawConnection:
    """A TCP connection that sends any bytes and receives frames."""

    def __init__(self, address, timeout=10.0, source=None):
        """`source`: the address from which it connects, if not the system's choice."""
        host, _, port = address.rpartition(":")
        self.timeout = timeout
        try:
            self.socket = socket.create_connection((host, int(port)), timeout=timeout,
                                                   source_address=source and (source, 0))
        except OSError as error:
            raise Closed(f"{address}: {error}") from error
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Closed(str(error)) from error

    def offer(self, data):
        """Sends `data` that the server may refuse: it may close the connection before it has received all of it."""
        try:
            self.send(data)
        except Closed:
            pass  # is_closed_by_peer() reports it

    def _receive(self, count, deadline):
        while len(self.received) < count:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Closed("no answer in time")
            self.socket.settimeout(left)
            try:
                chunk = self.socket.recv(65536)
            except OSError as error:
                raise Closed(str(error) or "no answer in time") from error
            if not chunk:
                raise Closed("the server closed the connection")
            self.received += chunk

    def receive_frame(self, timeout=None):
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        self._receive(4, deadline)
        length = struct.unpack_from(">i", self.received)[0]
        if not 0 <= length <= 64 << 20:
            raise Closed(f"the server sent a frame of {length} bytes")
        self._receive(4 + length, deadline)
        body, self.received = self.received[4:4 + length], self.received[4 + length:]
        return body

    def is_closed_by_peer(self, timeout):
        """Returns whether the server closes the connection within `timeout` s; drops the data that it sends before."""
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                if not self.socket.recv(65536):
                    return True
            except socket.timeout:
                return False
            except OSError:
                return True
        return False

    def abandon(self):
        """Closes the socket without closing the session, as a client that dies."""
        self.socket.close()


class Connection(RawConnection):
    """A session: opens or resumes it, calls operations, collects events.

    `timeout` bounds the wait for each answer, in seconds.
    """

    def __init__(self, address, timeout_ms=10000, session=None, last_zxid=0, timeout=10.0, source=None):
        """`session` is (session id, password) to resume."""
        super().__init__(address, timeout, source)
        self.address = address
        self.xid = 0
        self.last_zxid = last_zxid
        self.events = []
        session_id, password = session or (0, NO_PASSWORD)
        self.send(frame(connect_request(timeout_ms, session_id, password, last_zxid)))
        reader = Reader(self.receive_frame())
        _, self.timeout_ms, self.session_id = reader.take(">iiq")
        self.password = reader.buffer()
        if self.timeout_ms <= 0:
            self.abandon()
            raise SessionRefused(f"the server does not know session 0x{session_id:x} with that password")

    @property
    def session(self):
        return self.session_id, self.password

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.abandon()

    # Separate functions to send and to receive, for pipelines.

    def submit(self, operation, body=b"", xid=None):
        if xid is None:
            self.xid += 1
            xid = self.xid
        self.send(frame(header(xid, operation) + body))
        return xid

    def receive(self, timeout=None):
        """Returns the next reply. Adds events that arrive before it to self.events."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        while True:
            reply = decode_reply(self.receive_frame(max(0.0, deadline - time.monotonic())))
            if reply.xid != XID_EVENT:
                if reply.zxid > 0:
                    if reply.zxid < self.last_zxid:
                        raise AssertionError(f"zxid went back from {self.last_zxid} to {reply.zxid}")
                    self.last_zxid = reply.zxid
                return reply
            self.events.append(decode_event(reply))

    def wait_event(self, timeout=10.0):
        """Returns the oldest event that was not returned yet; waits if there is none."""
        deadline = time.monotonic() + timeout
        while not self.events:
            reply = decode_reply(self.receive_frame(max(0.0, deadline - time.monotonic())))
            if reply.xid == XID_EVENT:
                self.events.append(decode_event(reply))
            elif reply.xid != XID_PING:
                raise AssertionError(f"an answer to xid {reply.xid}, which is not outstanding")
        return self.events.pop(0)

    def call(self, operation, body=b"", xid=None):
        sent = self.submit(operation, body, xid)
        reply = self.receive()
        while reply.xid == XID_PING != sent:
            reply = self.receive()
        if reply.xid != sent:
            raise AssertionError(f"answer to xid {reply.xid}, but xid {sent} is the oldest outstanding")
        if reply.err != OK:
            raise ZkError(reply.err, f"operation {operation}")
        return Reader(reply.body)

    # Operations.

    def create(self, path, data=b"", flags=PERSISTENT):
        return self.call(CREATE, request_create(path, data, flags)).ustring()

    def delete(self, path, version=-1):
        self.call(DELETE, request_delete(path, version))

    def exists(self, path, watch=False):
        """Returns the Stat, or None if there is no such node."""
        try:
            return self.call(EXISTS, request_path_watch(path, watch)).stat()
        except ZkError as error:
            if error.code == NO_NODE:
                return None
            raise

    def get(self, path, watch=False):
        reader = self.call(GET_DATA, request_path_watch(path, watch))
        return reader.buffer(), reader.stat()

    def set(self, path, data, version=-1):
        return self.call(SET_DATA, request_set(path, data, version)).stat()

    def children(self, path, watch=False):
        return self.call(GET_CHILDREN, request_path_watch(path, watch)).strings()

    def sync(self, path="/"):
        return self.call(SYNC, ustring(path)).ustring()

    def ping(self):
        self.call(PING, xid=XID_PING)

    def close(self):
        """Closes the session and the connection."""
        self.call(CLOSE)
        self.abandon()


def four_letter(address, word, timeout=2.0):
    """Returns the answer to a four-letter word."""
    connection = RawConnection(address, timeout)
    try:
        connection.send(word.encode())
        answer = b""
        while True:
            connection.socket.settimeout(timeout)
            chunk = connection.socket.recv(65536)
            if not chunk:
                return answer.decode()
            answer += chunk
    except OSError as error:
        raise Closed(str(error)) from error
    finally:
        connection.abandon()
