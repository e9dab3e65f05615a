# SPDX-License-Identifier: Apache-2.0
"""Tests the limits of tenants (docs/guides/limits.md): one address or identity misbehaves, in each way for which there
is a limit, while clients of another address are served. Each limit holds, what was accepted is not lost, and the tenant
gets everything back when it stops. The tests fail if the limit is switched off.

The tenant that misbehaves connects from 127.0.0.2, and runs in a process of its own if it is to be fast."""

import contextlib
import multiprocessing
import resource
import statistics
import struct
import time

import bystander as by
import harness
import zkwire as zk

TENANT = "127.0.0.2"
TIMEOUT_MS = 10000
# How many times longer the operations of other clients may take beside the tenant, at the median and for 9 of 10. The
# bounds are far above what is measured on a machine with nothing else to do, and far below what an unlimited tenant
# causes.
LATENCY_RATIO_MAX = 8
# Latencies below this many seconds are not told apart from it.
LATENCY_FLOOR = 0.002


def _only_quorate(server):
    if server != "quorate":
        raise harness.Skipped("ZooKeeper does not have these limits")


def one_server(server, *settings):
    _only_quorate(server)
    return harness.Cluster(server, size=1, settings=["maxClientCnxns=0", "tickTime=500", "maxSessionTimeout=60000",
                                                     *settings])


def await_(condition, what):
    deadline = time.monotonic() + by.PATIENCE_SECONDS
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not within {by.PATIENCE_SECONDS} s: {what}"
        time.sleep(0.02)
    return result


def reached(address, name):
    return int(by.monitor(address)[f"zk_quorate_limit_{name}"])


def check_log(cluster, key):
    lines = [line for line in cluster.log(1).splitlines() if "a client has reached a limit" in line and key in line]
    assert lines, f"the log does not name {key}"
    assert len(lines) <= 20, f"{len(lines)} lines of the log name {key}"


def _latencies(connection, path, count):
    """Writes and reads a znode `count` times. Returns the seconds of each operation, sorted."""
    seconds = []
    for _ in range(count):
        started = time.monotonic()
        connection.set(path, b"x")
        seconds.append(time.monotonic() - started)
        started = time.monotonic()
        connection.get(path)
        seconds.append(time.monotonic() - started)
    return sorted(seconds)


class Innocent:
    """A client of another address, which compares how long its operations take with how long they took before."""

    def __init__(self, address, count=150):
        """`count`: how many writes and reads are timed at once; few enough to stay below a limit of its own address."""
        self.connection, self.count = zk.Connection(address, 30000, timeout=by.PATIENCE_SECONDS), count
        self.path = self.connection.create("/innocent-", b"", zk.EPHEMERAL_SEQUENTIAL)
        _latencies(self.connection, self.path, count)
        self.before = _latencies(self.connection, self.path, count)

    def check(self):
        """Returns a note. The best of several tries counts, so that something else on the machine does no harm."""
        ratios = []
        for _ in range(5):
            now = _latencies(self.connection, self.path, self.count)
            ratios.append(max(self._ratio(now, statistics.median),
                              self._ratio(now, lambda seconds: seconds[len(seconds) * 9 // 10])))
            if ratios[-1] <= LATENCY_RATIO_MAX:
                return f"latency {ratios[-1]:.1f} times"
        raise AssertionError(f"operations of another client take {min(ratios):.1f} times as long")

    def _ratio(self, now, value):
        return max(value(now), LATENCY_FLOOR) / max(value(self.before), LATENCY_FLOOR)

    def close(self):
        self.connection.close()


@contextlib.contextmanager
def _beside(function, *arguments):
    """Runs function(pipe, *arguments) in another process. Yields the other end of the pipe."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=function, args=(theirs, *arguments), daemon=True)
    process.start()
    try:
        yield ours
    finally:
        process.kill()
        process.join()


@contextlib.contextmanager
def _many_files():
    """Lets this process open as many sockets as the tests need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# --- Rates ----------------------------------------------------------------------------------------

RATE = 2000
FLOOD_CONNECTIONS = 4
FLOOD_REQUESTS = 20_000


def _flood(pipe, address):
    """Sends all requests at once, writes and reads in turns, and then reports how many replies come in each part of a
    second, until all have come."""
    connections = [zk.Connection(address, TIMEOUT_MS, timeout=60, source=TENANT) for _ in range(FLOOD_CONNECTIONS)]
    paths = [connection.create("/flood-", b"", zk.EPHEMERAL_SEQUENTIAL) for connection in connections]
    pipe.send("ready")
    pipe.recv()
    count = FLOOD_REQUESTS // FLOOD_CONNECTIONS
    for connection, path in zip(connections, paths):
        connection.socket.setblocking(False)
        connection.todo = b"".join(
            zk.frame(zk.header(xid, zk.SET_DATA) + zk.request_set(path, b"x" * 20, -1) if xid % 2 else
                     zk.header(xid, zk.GET_DATA) + zk.request_path_watch(path, False))
            for xid in range(10, 10 + count))
        connection.expected = 10
    received = 0
    while received < FLOOD_REQUESTS:
        for connection in connections:
            if connection.todo:
                with contextlib.suppress(BlockingIOError):
                    connection.todo = connection.todo[connection.socket.send(connection.todo):]
            with contextlib.suppress(BlockingIOError):
                chunk = connection.socket.recv(1 << 16)
                if not chunk:
                    pipe.send("closed")
                    return
                connection.received += chunk
            while len(connection.received) >= 4:
                length = struct.unpack_from(">i", connection.received)[0]
                if len(connection.received) < 4 + length:
                    break
                reply = zk.decode_reply(connection.received[4:4 + length])
                connection.received = connection.received[4 + length:]
                if (reply.xid, reply.err) != (connection.expected, zk.OK):
                    pipe.send(f"{reply.xid} with error {reply.err} instead of {connection.expected}")
                    return
                connection.expected += 1
                received += 1
        time.sleep(0.005)
    for connection in connections:
        connection.socket.settimeout(connection.timeout)
        connection.close()  # the session is still there
    pipe.send("done")


def alone_requests_above_the_rate(server):
    with one_server(server, f"limits.requestsPerSecond={RATE}") as cluster:
        address = cluster.address(1)
        innocent = Innocent(address)
        with _beside(_flood, address) as flood:
            assert flood.recv() == "ready"
            started = time.monotonic()
            flood.send("go")
            note = innocent.check()
            assert not flood.poll(), f"the flood ends too early: {flood.recv()}"
            assert flood.poll(60), "the flood does not end"
            outcome = flood.recv()
            seconds = time.monotonic() - started
            assert outcome == "done", f"the slowed client lost something: {outcome}"
        # The tokens of one second are there at once.
        least = (FLOOD_REQUESTS - RATE) / RATE * 0.95
        assert seconds >= least, f"{FLOOD_REQUESTS} requests took {seconds:.1f} s, at most {RATE} a second are allowed"
        assert seconds <= 3 * least, f"{FLOOD_REQUESTS} requests took {seconds:.1f} s"
        assert reached(address, "requests_delayed") > 0
        check_log(cluster, "limits.requestsPerSecond")
        innocent.close()
        return f"{FLOOD_REQUESTS / seconds:.0f} requests/s, {note}"


def alone_a_slowed_client_keeps_its_session(server):
    """Kazoo, from the address of the bystanders of other tests."""
    _only_quorate(server)
    from kazoo.client import KazooClient  # pylint: disable=import-outside-toplevel
    with one_server(server, "limits.requestsPerSecond=200", "maxSessionTimeout=4000") as cluster:
        states = []
        client = KazooClient(cluster.address(1), timeout=4)
        client.add_listener(states.append)
        client.start()
        session = client.client_id
        client.create("/work", b"", ephemeral=True)
        pending = [client.set_async("/work", b"%d" % i) for i in range(3000)]
        for i, each in enumerate(pending):
            assert each.get(timeout=60).version == i + 1, "a write is lost, or made twice"
        assert client.get("/work")[0] == b"2999"
        assert client.client_id == session and states == ["CONNECTED"], f"the client has seen {states}"
        client.stop()
        client.close()
        assert reached(cluster.address(1), "requests_delayed") > 0


def alone_a_storm_of_sessions(server):
    rate, count = 40, 400
    with one_server(server, f"limits.sessionsPerSecond={rate}") as cluster:
        address = cluster.address(1)
        innocent = Innocent(address)
        started = time.monotonic()
        storm = [zk.RawConnection(address, source=TENANT) for _ in range(count)]
        for connection in storm:
            connection.send(zk.frame(zk.connect_request(TIMEOUT_MS)))
        note = innocent.check()
        with zk.Connection(address, timeout=5) as other:  # is not behind the storm
            other.close()
        sessions = int(by.monitor(address)["zk_global_sessions"])
        seconds = time.monotonic() - started
        assert sessions <= rate * (seconds + 1) + 5, f"{sessions} sessions after {seconds:.1f} s"
        assert sessions >= rate, f"only {sessions} sessions"
        assert reached(address, "sessions_delayed") >= count / 2
        check_log(cluster, "limits.sessionsPerSecond")
        for connection in storm:
            connection.abandon()
        await_(lambda: int(by.monitor(address)["zk_num_alive_connections"]) <= 2, "the storm has gone")

        def opens():
            try:
                with zk.Connection(address, timeout=2, source=TENANT) as session:
                    session.close()
                return True
            except zk.Closed:
                return False
        await_(opens, "the tenant can open sessions again")
        innocent.close()
        return f"{sessions} sessions in {seconds:.1f} s, {note}"


# --- Counts ---------------------------------------------------------------------------------------


def _serve(address, user, source):
    """Opens a session with an identity. Returns None if the server closes it."""
    session = zk.Connection(address, TIMEOUT_MS, source=source)
    try:
        session.call(zk.AUTH, zk.request_auth("digest", f"{user}:password".encode()), xid=zk.XID_AUTH)
        session.ping()
        return session
    except zk.Closed:
        session.abandon()
        return None


def alone_connections_of_an_identity(server):
    with one_server(server, "limits.connectionsPerIdentity=20") as cluster:
        address = cluster.address(1)
        innocent = Innocent(address)
        sessions = [_serve(address, "app", f"127.0.1.{i % 50 + 1}") for i in range(200)]
        served = [session for session in sessions if session]
        assert len(served) == 20, f"{len(served)} connections of one identity"
        assert _serve(address, "other", TENANT), "another identity is refused"
        assert reached(address, "connections_refused") == 180
        assert int(by.monitor(address)["zk_connection_rejected"]) == 180
        check_log(cluster, "limits.connectionsPerIdentity")
        served[0].close()
        await_(lambda: _serve(address, "app", TENANT), "a connection takes the place of one that was closed")
        note = innocent.check()
        innocent.close()
        return note


def alone_connections_without_a_request(server):
    """A client opens connections and sends nothing, or half of a request, until no descriptor is left."""
    count = 10_000
    with _many_files(), one_server(server, "limits.firstRequestTimeoutMs=12000", "ioThreads=2") as cluster:
        address = cluster.address(1)
        pid = cluster.pids()[0]
        limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        innocent = Innocent(address)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (600, limit[1]))
        half = zk.frame(zk.connect_request(TIMEOUT_MS))[:20]
        silent = []
        served = 0
        for i in range(count):
            connection = zk.RawConnection(address, source=f"127.0.2.{i % 200 + 1}")
            if i % 2:
                connection.send(half)
            silent.append(connection)
            if i % 500 == 499:
                # New clients are served at any time.
                with zk.Connection(address, timeout=by.PATIENCE_SECONDS) as session:
                    session.close()
                served += 1
        assert served == count // 500
        alive = int(by.monitor(address)["zk_num_alive_connections"])
        assert alive <= 300, f"{alive} connections have taken the descriptors"
        assert reached(address, "sessionless_closed") >= count - 400
        assert silent[0].is_closed_by_peer(by.PATIENCE_SECONDS), "the oldest connection stays"
        check_log(cluster, "limits.firstRequestTimeoutMs")
        note = innocent.check()
        # Those that are left have to send something in time.
        cluster.wait_until("silent clients are closed",
                           lambda: int(by.monitor(address)["zk_num_alive_connections"]) <= 2)
        assert int(by.monitor(address)["zk_sessionless_connections_expired"]) > 0
        for connection in silent:
            connection.abandon()
        innocent.close()
        return f"{alive} connections, {note}"


def _set_watches(pipe, address, count):
    """Asks for `count` watches. Sends how many were set and refused."""
    with zk.Connection(address, TIMEOUT_MS, timeout=120, source=TENANT) as connection:
        connection.socket.settimeout(120)
        codes = {}
        for first in range(0, count, 5000):
            connection.send(b"".join(
                zk.frame(zk.header(xid, zk.EXISTS) + zk.request_path_watch(f"/none/{xid}", True))
                for xid in range(first, first + 5000)))
            for _ in range(5000):
                err = connection.receive(120).err
                codes[err] = codes.get(err, 0) + 1
        pipe.send(codes)
        pipe.recv()


def alone_very_many_watches(server):
    limit, count = 20_000, 1_000_000
    with one_server(server, f"limits.watches={limit}") as cluster:
        address = cluster.address(1)
        innocent = Innocent(address)
        memory = by.Memory(cluster)
        with _beside(_set_watches, address, count) as watches:
            note = innocent.check()
            assert watches.poll(300), "the requests are not answered"
            codes = watches.recv()
            assert codes == {zk.NO_NODE: limit, zk.SYSTEM_ERROR: count - limit}, f"replies with errors: {codes}"
            assert int(by.monitor(address)["zk_watch_count"]) <= limit + 1
            assert reached(address, "watches_refused") == count - limit
            assert innocent.connection.exists("/none", watch=True) is None
            note = f"{note}, {memory.note(100)}"
            check_log(cluster, "limits.watches")
        # The tenant has gone, so that it may set watches again.
        await_(lambda: int(by.monitor(address)["zk_watch_count"]) <= 1, "the watches are removed")
        with zk.Connection(address, source=TENANT) as session:
            assert session.exists("/none", watch=True) is None
            session.close()
        innocent.close()
        return note


def alone_very_many_ephemerals(server):
    limit = 500
    with one_server(server, f"limits.ephemerals={limit}") as cluster:
        address = cluster.address(1)
        innocent = Innocent(address)
        sessions = [zk.Connection(address, 2000, timeout=60, source=TENANT) for _ in range(4)]
        for session in sessions:
            for _ in range(limit):
                session.submit(zk.CREATE, zk.request_create("/e-", b"", zk.EPHEMERAL_SEQUENTIAL))
        errors = [session.receive().err for session in sessions for _ in range(limit)]
        assert errors.count(zk.OK) == limit, f"{errors.count(zk.OK)} ephemerals were created"
        assert errors.count(zk.SYSTEM_ERROR) == 3 * limit
        assert int(by.monitor(address)["zk_ephemerals_count"]) == limit + 1
        check_log(cluster, "limits.ephemerals")
        note = innocent.check()
        # A client that drops its connections has nothing more.
        for session in sessions:
            session.abandon()
        with zk.Connection(address, TIMEOUT_MS, source=TENANT) as again:
            try:
                again.create("/again", b"", zk.EPHEMERAL)
                raise AssertionError("sessions without a connection do not count")
            except zk.ZkError as error:
                assert error.code == zk.SYSTEM_ERROR, error

            def creates():
                try:
                    return again.create("/again", b"", zk.EPHEMERAL)
                except zk.ZkError:
                    return None
            await_(creates, "the sessions have expired, and the tenant may create ephemerals again")
            again.close()
        innocent.close()
        return note


def alone_halves_of_requests(server):
    limit = 4 << 20
    with one_server(server, f"limits.outstandingBytes={limit}", "maxSessionTimeout=20000") as cluster:
        address = cluster.address(1)
        innocent = Innocent(address)
        memory = by.Memory(cluster)
        whole = zk.frame(zk.header(2, zk.CREATE) + zk.request_create("/half-", b"x" * 900_000,
                                                                     zk.EPHEMERAL_SEQUENTIAL))
        halves = [zk.Connection(address, 20000, source=TENANT) for _ in range(100)]
        for half in halves:
            half.offer(whole[:800_000])
        note = innocent.check()
        note = f"{note}, {memory.note(60)}"
        assert reached(address, "bytes_delayed") >= 80
        check_log(cluster, "limits.outstandingBytes")
        # Those that are left are received to their ends.
        answered = 0
        for half in halves:
            with contextlib.suppress(zk.Closed):
                half.send(whole[800_000:])
                answered += half.receive().err == zk.OK
            half.abandon()
        assert 1 <= answered <= 12, f"{answered} of 100 requests were received"
        with zk.Connection(address, TIMEOUT_MS, source=TENANT) as session:
            session.create("/half-", b"x" * 900_000, zk.EPHEMERAL_SEQUENTIAL)
            session.close()
        innocent.close()
        return note


def alone_outstanding_requests_of_a_tenant(server):
    """The tenant pipelines writes, and never has more under way than its limit."""
    limit, count = 100, 3000
    with one_server(server, f"limits.outstandingRequests={limit}") as cluster:
        address = cluster.address(1)
        innocent = Innocent(address)
        sessions = [zk.Connection(address, TIMEOUT_MS, timeout=60, source=TENANT) for _ in range(4)]
        paths = [session.create("/f-", b"", zk.EPHEMERAL_SEQUENTIAL) for session in sessions]
        for session, path in zip(sessions, paths):
            session.send(b"".join(zk.frame(zk.header(xid, zk.SET_DATA) + zk.request_set(path, b"x", -1))
                                  for xid in range(10, 10 + count)))
        most = 0
        for session in sessions:
            for xid in range(10, 10 + count):
                reply = session.receive()
                assert (reply.xid, reply.err) == (xid, zk.OK), f"{reply.xid} after {xid - 1}"
                if xid % 100 == 0:
                    most = max(most, int(by.monitor(address)["zk_outstanding_requests"]))
            session.close()
        # Each connection may have one more, and so may the bystander.
        assert most <= limit + 5, f"{most} requests were outstanding"
        assert reached(address, "outstanding_delayed") > 0
        note = innocent.check()
        innocent.close()
        return f"at most {most} outstanding, {note}"


def alone_defaults_do_not_limit_usual_clients(server):
    """Thousands of connections of one address, each with many requests under way, as in PERFORMANCE.md."""
    with one_server(server) as cluster:
        address = cluster.address(1)
        with _many_files():
            sessions = [zk.Connection(address, 30000, timeout=60) for _ in range(2000)]
            for session in sessions:
                session.send(b"".join(zk.frame(zk.header(xid, zk.GET_DATA) + zk.request_path_watch("/", False))
                                      for xid in range(32)))
            for session in sessions:
                for xid in range(32):
                    assert session.receive().xid == xid
        for name in ("connections_refused", "sessions_delayed", "requests_delayed", "outstanding_delayed",
                     "bytes_delayed", "watches_refused", "ephemerals_refused", "sessionless_closed"):
            assert reached(address, name) == 0, f"{name} is {reached(address, name)} with the default limits"
        for session in sessions:
            session.abandon()
        return f"{len(sessions)} connections"
