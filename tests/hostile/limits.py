# SPDX-License-Identifier: Apache-2.0
"""Tests the configured limits, and those of the machine."""

import contextlib
import os
import resource
import subprocess
import time

import bystander as by
import harness
import zkwire as zk


def _open(address, count):
    """Opens `count` sessions, and returns them; None stands for a refused session."""
    sessions = []
    for _ in range(count):
        try:
            sessions.append(zk.Connection(address))
        except zk.Closed:
            sessions.append(None)
    return sessions


def alone_connections_of_an_address(server):
    with harness.Cluster(server, size=1, settings=["maxClientCnxns=4"]) as cluster:
        address = cluster.address(1)
        sessions = _open(address, 6)
        assert sessions[:4].count(None) == 0 and sessions[4:] == [None, None], (
            f"served: {[s is not None for s in sessions]}")
        for session in sessions[:4]:
            session.ping()
        sessions[0].close()
        deadline = time.monotonic() + by.PATIENCE_SECONDS
        while _open(address, 1) == [None]:
            assert time.monotonic() < deadline, "no client is accepted in place of one that has disconnected"


def alone_requests_above_the_buffer(server):
    with harness.Cluster(server, size=1, settings=["jute.maxbuffer=5000"]) as cluster:
        address = cluster.address(1)
        with by.Bystander(address) as client:
            with zk.Connection(address) as session:
                session.create("/small", b"x" * 4900, zk.EPHEMERAL)
                session.offer(zk.frame(zk.header(2, zk.CREATE) +
                                       zk.request_create("/large", b"x" * 5000, zk.EPHEMERAL)))
                assert session.is_closed_by_peer(by.PATIENCE_SECONDS), "a request above the limit"
            with zk.Connection(address) as session:
                assert not session.exists("/large")
                # Replies may be longer than the limit.
                session.call(zk.MULTI, zk.request_multi(
                    [(zk.CREATE, zk.request_create(f"/{i}-" + "n" * 40, b"", zk.EPHEMERAL))
                     for i in range(40)]))
                session.call(zk.MULTI, zk.request_multi(
                    [(zk.CREATE, zk.request_create(f"/{i}-" + "n" * 41, b"", zk.EPHEMERAL))
                     for i in range(40)]))
                for i in range(3):
                    session.create(f"/{i}-" + "m" * 900, b"", zk.EPHEMERAL)
                assert len(session.children("/")) >= 80
                session.close()
            client.progress()


def alone_outstanding_requests(server):
    with harness.Cluster(server, size=3, settings=["globalOutstandingLimit=50"]) as cluster:
        address = cluster.address(cluster.followers()[0])
        with by.Bystander(address) as client:
            sessions = [zk.Connection(address, 30000, timeout=30) for _ in range(8)]
            for session in sessions:
                session.path = session.create("/flood-", b"", zk.EPHEMERAL_SEQUENTIAL)
            count = 2000
            for session in sessions:
                for _ in range(count):
                    session.submit(zk.SET_DATA, zk.request_set(session.path, b"x" * 100, -1))
            client.progress()
            # No accepted request is dropped.
            for session in sessions:
                for i in range(count):
                    reply = session.receive()
                    assert (reply.xid, reply.err) == (i + 2, zk.OK), f"{reply} is number {i}"
                session.close()
            client.progress()


def alone_descriptors(server):
    if server != "quorate":
        raise harness.Skipped("ZooKeeper does not recover from that")
    with harness.Cluster(server, size=1, settings=["maxClientCnxns=0"]) as cluster:
        address = cluster.address(1)
        pid = cluster.pids()[0]
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        with by.Bystander(address) as client:
            # There are descriptors for some clients, and the log keeps its own.
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (300, before[1]))
            sessions = _open(address, 300)
            served = sum(session is not None for session in sessions)
            assert 50 < served < 250, f"{served} of 300 clients are served with 300 descriptors"
            client.progress()
            # Now the server cannot even accept a connection.
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (20, before[1]))
            waiting = [zk.RawConnection(address) for _ in range(5)]
            client.progress()
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            deadline = time.monotonic() + by.PATIENCE_SECONDS
            while _open(address, 1) == [None]:
                assert time.monotonic() < deadline, "no client is accepted after the shortage"
            client.progress()
            for connection in waiting:
                connection.abandon()
            return f"{served} of 300 clients served"


def alone_a_log_that_nobody_reads(server):
    """The server's standard output is a pipe that is full before its first line."""
    if server != "quorate":
        raise harness.Skipped("ZooKeeper's log is not Quorate's")
    with harness.Cluster(server, size=1) as cluster:
        cluster.command("stop", 1)
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writer, False)
        for size in (4096, 1):
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(writer, b"x" * size)
        os.set_blocking(writer, True)
        process = subprocess.Popen([harness.SERVERS[server], os.path.join(cluster.dir, "1/zoo.cfg")],
                                   stdin=subprocess.DEVNULL, stdout=writer)
        os.close(writer)
        try:
            deadline = time.monotonic() + by.PATIENCE_SECONDS
            while True:
                try:
                    session = zk.Connection(cluster.address(1))
                    break
                except (OSError, zk.Closed):
                    assert time.monotonic() < deadline, "the server does not serve"
                    time.sleep(0.05)
            with session:
                session.create("/node", b"", zk.EPHEMERAL)
            # The server does not wait for a reader when it ends.
            process.terminate()
            assert harness.wait_for_exit(process, by.PATIENCE_SECONDS), "the server does not end"
            assert process.returncode == 0, f"exit status {process.returncode}"
        finally:
            process.kill()
            process.wait()
            os.close(reader)
