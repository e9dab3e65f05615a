# SPDX-License-Identifier: Apache-2.0
"""Tests that HTTP clients that mean harm get an error or are closed, and that the server serves others all the time."""

import contextlib
import errno
import random
import socket

import harness
import web
import zkwire as zk

CONNECTIONS = 2000
IDLE_MS = 1500


def dial(cluster):
    return socket.create_connection((harness.HOST, web.port(cluster)), timeout=harness.WAIT_SECONDS)


def answer(cluster, request):
    """Returns everything that the server sends until it closes the connection."""
    with dial(cluster) as connection:
        received = b""
        with contextlib.suppress(ConnectionError):
            connection.sendall(request)
            while chunk := connection.recv(65536):
                received += chunk
        return received


def check_others(cluster):
    """Other clients are served, over HTTP and over ZooKeeper's protocol."""
    assert web.command(cluster, "ruok")["error"] is None
    with zk.Connection(cluster.address(1)) as connection:
        connection.call(zk.EXISTS, zk.request_path_watch("/", False))


def shared_requests_that_are_wrong_get_an_error(cluster):
    end = b" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    for request, status in (
            (b"\r\n\r\n\r\nhello\r\n\r\n", b"400"), (b"GET /" + end.replace(b"1.1", b"7.x"), b"400"),
            (b"GET " + end, b"400"), (b"GET /%zz" + end, b"400"), (b"GET /commands/../etc/passwd" + end, b"400"),
            (b"GET /commands/%2e%2e/%2e%2e/etc/passwd" + end, b"400"), (b"GET /commands/ruok%00" + end, b"400"),
            (b"GET /" + b"a" * 20000 + end, b"431"), (b"GET /" + b"a" * 9000 + end, b"400"),
            (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20000 + b"\r\n", b"431"),
            (b"GET / HTTP/1.1\r\nA: " + b"b" * 1000000 + b"\r\n\r\n", b"431"),
            (b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"413"),
            (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
            (b"BREW /" + end, b"405"), (b"CONNECT h:1" + end, b"405"), (b"TRACE /" + end, b"403"),
            (b"\x16\x03\x01\x02\x00\x01\x00", b""), (b"mntr", b""), (b"\x00" * 3000, b"400")):
        received = answer(cluster, request) if status else b""
        if status:
            assert received.startswith(b"HTTP/1.1 " + status), (request[:60], received[:200])
    check_others(cluster)


def shared_random_bytes_do_no_harm(cluster):
    seed = random.randrange(1 << 32)
    bits = random.Random(seed)
    valid = b"GET /commands/mntr?a=b&c=%20 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for _ in range(300):
        request = bytearray(valid)
        for _ in range(bits.randint(1, 12)):
            request[bits.randrange(len(request))] = bits.randrange(256)
        with dial(cluster) as connection, contextlib.suppress(ConnectionError):
            connection.sendall(request)
            try:
                connection.shutdown(socket.SHUT_WR)
            except OSError as error:  # the server has closed it
                assert error.errno == errno.ENOTCONN, error
                continue
            connection.recv(65536)
    check_others(cluster)
    return f"seed {seed}"


def test_slow_clients_and_thousands_of_connections_are_closed_while_others_are_served():
    with harness.Cluster("quorate", 1, [f"admin.idleTimeout={IDLE_MS}"]) as cluster, contextlib.ExitStack() as stack:
        web.await_serving(cluster)
        descriptors = int(cluster.monitor(1)["open_file_descriptor_count"])
        slow = []
        for i in range(CONNECTIONS):
            connection = stack.enter_context(dial(cluster))
            if i % 2:
                connection.sendall(b"GET /commands/ruok HTTP/1.1\r\nX-")
            slow.append(connection)
            if i % 200 == 0:
                check_others(cluster)
        # The server keeps only so many.
        kept = int(cluster.monitor(1)["open_file_descriptor_count"]) - descriptors
        assert kept < 400, f"{kept} more descriptors"
        check_others(cluster)
        # A byte now and then does not keep a connection open.
        begun = stack.enter_context(dial(cluster))
        with contextlib.suppress(ConnectionError):
            for byte in b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 1000:
                begun.sendall(bytes([byte]))
                begun.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    assert begun.recv(1) == b""
                    break
            else:
                raise AssertionError("a slow request is read for ever")
        for connection in slow:
            connection.settimeout(harness.WAIT_SECONDS)
            with contextlib.suppress(ConnectionError):
                assert connection.recv(100) == b""
        check_others(cluster)
        return f"{CONNECTIONS} connections, {kept} kept"


def test_a_client_that_takes_no_response_does_not_hold_others_up():
    with harness.Cluster("quorate", 1, [f"admin.idleTimeout={IDLE_MS}"]) as cluster, contextlib.ExitStack() as stack:
        web.await_serving(cluster)
        greedy = [stack.enter_context(dial(cluster)) for _ in range(20)]
        for connection in greedy:
            connection.settimeout(0.2)
            with contextlib.suppress(OSError):
                for _ in range(200):
                    connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n" * 50)
        check_others(cluster)
        cluster.check_alive()
