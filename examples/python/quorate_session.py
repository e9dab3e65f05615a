# SPDX-License-Identifier: Apache-2.0
"""A session of Quorate over gRPC, in one file to copy and to change: it reconnects to another server by itself, sends again
what has no answer, so that each write is made exactly once, continues its watches, and holds locks.

The classes of the messages are generated from rpc/proto (README.md)."""

import itertools
import os
import queue
import threading
import time
import uuid

import grpc
from google.protobuf import duration_pb2
from quorate.v1 import lock_pb2, lock_pb2_grpc, session_pb2, session_pb2_grpc, types_pb2

RETRY_SECONDS = 0.1
# A connection to a server that stands still breaks after six seconds. A lost session would take longer.
CHANNEL = [("grpc.use_local_subchannel_pool", 1), ("grpc.keepalive_time_ms", 3000), ("grpc.keepalive_timeout_ms", 3000),
           ("grpc.min_reconnect_backoff_ms", 1000)]


class Failed(Exception):
    """A request failed, with this ErrorCode."""

    def __init__(self, code):
        super().__init__(types_pb2.ErrorCode.Name(code))
        self.code = code


class SessionEnded(Exception):
    """The session has ended: its ephemeral znodes and its locks are gone."""


class _Call:
    """A request, and the answer once it is there."""

    def __init__(self, request):
        self.request, self.answer = request, None
        self.done = threading.Event()


class _Watch:
    def __init__(self, path, scope, on_event):
        self.path, self.scope, self.on_event = path, scope, on_event


class Session:
    """Thread-safe. `servers` are gRPC addresses. Callbacks run on the session's thread and must not wait for answers."""

    def __init__(self, servers, timeout_seconds=10):
        self._servers = itertools.cycle(servers)
        self._timeout = duration_pb2.Duration(seconds=timeout_seconds)
        self._timeout_seconds = timeout_seconds
        self._pause = timeout_seconds / 3
        self._contact = time.monotonic()  # the newest message that a server has answered was sent then
        self._pings = {}                  # when requests that only keep the session alive were sent, by id
        self._password = os.urandom(16)
        self._ids = itertools.count(1)
        self._sequence = 0      # of the last write
        self._acknowledged = 0  # the answers of all writes up to this one have arrived
        self._zxid = 0          # everything up to it was received
        self._calls, self._watches = {}, {}
        self._continued = {}  # the watches that were sent again, by the ids of their requests
        self._lock = threading.RLock()
        self._outgoing = None  # the messages for the current stream
        self._channel = None   # to the server to which the session is attached
        self._opened = threading.Event()
        self._over = threading.Event()
        self._connected = 0     # when the current stream was begun
        self.id = 0
        self.streams = 0  # that were opened
        threading.Thread(target=self._run, daemon=True).start()
        threading.Thread(target=self._keep_alive, daemon=True).start()

    # --- Requests ----------------------------------------------------------------------------------

    def write(self, *operations):
        """Applies the operations, all or none, exactly once. Returns their results."""
        with self._lock:
            self._sequence += 1
            write = session_pb2.Request.Write(sequence=self._sequence, operations=operations)
            call = self._send(session_pb2.Request(write=write))
        return self._result(call).write.results

    def get(self, path, linearizable=False):
        """Returns the data and the Stat of a znode."""
        get = session_pb2.Request.Get(path=path, linearizable=linearizable)
        result = self._result(self._send(session_pb2.Request(get=get))).get
        return result.data, result.stat

    def watch(self, path, on_event, scope=types_pb2.WATCH_SCOPE_NODE):
        """Calls on_event(event) for each event, once and in order, until the session ends; on_event(None) if events may
        be missing, because no server was reached for too long: read again."""
        with self._lock:
            watch_id = next(self._ids)
            self._watches[watch_id] = _Watch(path, scope, on_event)
            request = session_pb2.Request.Watch(watch_id=watch_id, path=path, scope=scope)
            call = self._send(session_pb2.Request(watch=request))
        self._result(call)

    def close(self):
        """Ends the session, and deletes its ephemeral znodes."""
        if not self._over.is_set():
            self._result(self._send(session_pb2.Request(close=session_pb2.Request.Close())))
        self._over.set()

    def _send(self, request):
        with self._lock:
            request.id = next(self._ids)
            call = self._calls[request.id] = _Call(request)
            if self._outgoing is not None:
                self._outgoing.put(session_pb2.SessionRequest(requests=[request],
                                                              acknowledged_sequence=self._acknowledged))
            return call

    def _result(self, call):
        while not call.done.wait(RETRY_SECONDS):
            if self._over.is_set() and not call.done.is_set():
                raise SessionEnded()
        if call.answer.error:
            raise Failed(call.answer.error)
        return call.answer

    # --- The stream --------------------------------------------------------------------------------

    def _run(self):
        while not self._over.is_set():
            try:
                self._serve(next(self._servers))
            except grpc.RpcError as error:
                # Any other end says nothing about the session: another server continues it.
                if error.code() == grpc.StatusCode.UNAUTHENTICATED:
                    self._over.set()
            self._opened.clear()
            self._over.wait(RETRY_SECONDS)

    def _serve(self, server):
        with grpc.insecure_channel(server, CHANNEL) as channel:
            outgoing = queue.Queue()
            self._connected = time.monotonic()
            outgoing.put(session_pb2.SessionRequest(open=session_pb2.OpenSession(
                session_id=self.id, password=self._password, timeout=self._timeout, last_zxid=self._zxid)))
            stream = session_pb2_grpc.SessionServiceStub(channel).Session(iter(outgoing.get, None))
            try:
                for response in stream:
                    self._receive(response, channel, outgoing)
            finally:
                with self._lock:
                    self._outgoing = None
                outgoing.put(None)

    def _receive(self, response, channel, outgoing):
        events = []  # (watch id, event)
        with self._lock:
            if response.HasField("opened"):
                self.id = response.opened.session_id
                self._timeout_seconds = response.opened.timeout.seconds + response.opened.timeout.nanos / 1e9
                self._contact = max(self._contact, self._connected)
                self._pings.clear()
                self.streams += 1
                self._channel, self._outgoing = channel, outgoing
                self._send_again()
                self._opened.set()
            for item in response.items:
                if item.HasField("event"):
                    events += [(watch_id, item.event.event) for watch_id in item.event.watch_ids]
                elif item.response.id in self._calls:
                    self._take(item.response)
                elif item.response.id in self._pings:
                    self._contact = max(self._contact, self._pings.pop(item.response.id))
                elif item.response.id in self._continued:
                    events += self._check_watch(item.response)
            self._zxid = max(self._zxid, response.zxid)
        for watch_id, event in events:
            self._watches[watch_id].on_event(event)

    def _send_again(self):
        """On a new stream: the watches, from what was received, then all that has no answer, in the order of sending."""
        waiting = {call.request.watch.watch_id for call in self._calls.values()}
        self._continued.clear()
        for watch_id in self._watches:
            if watch_id not in waiting:
                self._continue_watch(watch_id, self._zxid)
        for call in self._calls.values():
            self._outgoing.put(session_pb2.SessionRequest(requests=[call.request]))

    def _continue_watch(self, watch_id, after_zxid):
        watch = self._watches[watch_id]
        request = session_pb2.Request(id=next(self._ids), watch=session_pb2.Request.Watch(
            watch_id=watch_id, path=watch.path, scope=watch.scope, after_zxid=after_zxid))
        self._continued[request.id] = watch_id
        self._outgoing.put(session_pb2.SessionRequest(requests=[request]))

    def _check_watch(self, answer):
        watch_id = self._continued.pop(answer.id)
        if not answer.error:
            return []
        self._continue_watch(watch_id, 0)
        return [(watch_id, None)]

    def _take(self, answer):
        call = self._calls.pop(answer.id)
        if call.request.HasField("write"):
            self._acknowledged = max(self._acknowledged, call.request.write.sequence)
        call.answer = answer
        call.done.set()

    def _keep_alive(self):
        while not self._over.wait(self._pause):
            with self._lock:
                if self._outgoing is not None:
                    # Every message keeps the session alive. The answer of this one shows that it arrived.
                    ping = session_pb2.Request(id=next(self._ids), get=session_pb2.Request.Get(path="/"))
                    self._pings[ping.id] = time.monotonic()
                    self._outgoing.put(session_pb2.SessionRequest(requests=[ping],
                                                                  acknowledged_sequence=self._acknowledged))

    def is_out_of_touch(self):
        """Returns whether the session may have ended, by this program's clock."""
        return time.monotonic() - self._contact > self._timeout_seconds

    # --- Locks -------------------------------------------------------------------------------------

    def lock(self, path, name=None):
        """Returns a Lock. `name`: its id in the queue; by default a new one."""
        return Lock(self, path, name or str(uuid.uuid4()))

    def contender(self, path, name):
        return lock_pb2.Contender(path=path, id=name, session_id=self.id, session_password=self._password)

    def repeat(self, call, stopped=None):
        """Returns what call(channel) returns. Repeats it on the server to which the session is attached next, while servers
        fail, unless `stopped` is set."""
        while stopped is None or not stopped.is_set():
            if not self._opened.wait(RETRY_SECONDS):
                if self._over.is_set():
                    raise SessionEnded()
                continue
            try:
                return call(self._channel)
            except ValueError:  # the channel was closed
                self._over.wait(RETRY_SECONDS)
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.UNAUTHENTICATED:
                    raise SessionEnded() from error
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED,
                                        grpc.StatusCode.CANCELLED):
                    raise
                self._over.wait(RETRY_SECONDS)
        return None


class _Use:
    """One use of a lock, from acquire() to release(): follows the contender over broken streams."""

    def __init__(self, lock, on_waiting):
        self._lock, self._on_waiting = lock, on_waiting
        self.held, self.lost = threading.Event(), threading.Event()
        self.token = 0
        self._stopped = threading.Event()
        self._mutex = threading.Lock()
        self._stream = None
        self._follower = threading.Thread(target=self._follow, daemon=True)
        self._follower.start()

    def stop(self):
        """When this returns, no call of Acquire is made any more."""
        self._cancel()
        if threading.current_thread() is not self._follower:
            self._follower.join()

    def _cancel(self):
        with self._mutex:
            self._stopped.set()
            if self._stream is not None:
                self._stream.cancel()

    def _follow(self):
        try:
            self._lock.session.repeat(self._acquire, self._stopped)
        except SessionEnded:
            pass
        finally:
            self.lost.set()

    def _acquire(self, channel):
        # With the same id: after a broken stream, the contender finds its place again. With the token, once it has
        # held the lock: if it was lost in between, it must not come into the queue a second time.
        request = lock_pb2.AcquireRequest(contender=self._lock.contender(), only_token=self.token)
        with self._mutex:
            if self._stopped.is_set():
                return
            self._stream = lock_pb2_grpc.LockServiceStub(channel).Acquire(request)
        for response in self._stream:
            if response.HasField("held") and self.token in (0, response.held.token):
                if not self.token:
                    self.token = response.held.token
                    threading.Thread(target=self._watch_clock, daemon=True).start()
                    self.held.set()
            elif response.HasField("waiting") and not self.token:
                if self._on_waiting:
                    self._on_waiting(response.waiting.ahead)
            else:
                return  # lost, or another contender got the lock in between

    def _watch_clock(self):
        while not self.lost.wait(RETRY_SECONDS):
            if self._lock.session.is_out_of_touch():
                self.lost.set()
                self._cancel()


class Lock:
    """A lock of this session. A resource outside of the cluster has to refuse a token smaller than one that it has seen."""

    def __init__(self, session, path, name):
        self.session, self._path, self._name = session, path, name
        self._use = None
        self.lost = threading.Event()
        self.token = 0

    def __enter__(self):
        self.acquire()
        return self

    def __exit__(self, *_):
        self.release()

    def acquire(self, on_waiting=None):
        """Waits for the lock, and returns its token. `on_waiting(ahead)` is called with the number of contenders before it.
        `lost`, a new Event for each use, is set when the lock is lost; at the latest one session timeout after the last
        contact with a server, because another contender may hold the lock then."""
        self._stop()
        self._use = use = _Use(self, on_waiting)
        self.lost, self.token = use.lost, 0
        while not use.held.wait(RETRY_SECONDS):
            if use.lost.is_set():
                raise SessionEnded()
        self.token = use.token
        return self.token

    def release(self):
        self._stop()
        request = lock_pb2.ReleaseRequest(contender=self.contender())
        self.session.repeat(lambda channel: lock_pb2_grpc.LockServiceStub(channel).Release(request))

    def contender(self):
        return self.session.contender(self._path, self._name)

    def _stop(self):
        if self._use is not None:
            self._use.stop()


def operation(**kind):
    """Returns an Operation, such as operation(set={"path": "/a", "data": b"1"})."""
    return types_pb2.Operation(**kind)
