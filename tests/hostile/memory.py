# SPDX-License-Identifier: Apache-2.0
"""Tests a server with a small memory limit under each kind of load that takes much memory. The server stays within
its limit, serves other clients, and says what it refuses."""

import contextlib
import re
import resource
import time

import bystander as by
import harness
import zkwire as zk

LIMIT_MIB = 384
# By how much a server may exceed its limit between two measurements of itself.
OVER_MIB = 128
# The limit of the address space is far higher, because memory that is mapped and never touched counts there, too.
ADDRESS_SPACE_MIB = 6144
SYSTEM_ERROR = -1
LARGE = b"x" * 900_000


@contextlib.contextmanager
def _server(server):
    if server != "quorate":
        raise harness.Skipped("ZooKeeper has no such limit")
    with harness.Cluster(server, size=1, settings=[f"memoryLimitMb={LIMIT_MIB}", "maxClientCnxns=0",
                                                   "maxSessionTimeout=120000"]) as cluster:
        limit = ADDRESS_SPACE_MIB << 20
        resource.prlimit(cluster.pids()[0], resource.RLIMIT_AS, (limit, limit))
        yield cluster, cluster.address(1)
        cluster.check_alive()
        peak = _peak_mib(cluster)
        assert peak <= LIMIT_MIB + OVER_MIB, f"the server took {peak} MiB, and the limit is {LIMIT_MIB} MiB"


def _peak_mib(cluster):
    with open(f"/proc/{cluster.pids()[0]}/status", encoding="ascii") as status:
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read()).group(1)) // 1024


def _flood(address, requests, connections=30):
    """Opens connections that send all of `requests` and read nothing. Returns them, open except for those that the
    server has closed."""
    floods = []
    for _ in range(connections):
        try:
            connection = zk.Connection(address, 60000, timeout=5)
        except (zk.Closed, OSError):
            continue  # refused, because memory is low
        floods.append(connection)
        for operation, body in requests:
            connection.next_xid = getattr(connection, "next_xid", 1) + 1
            with contextlib.suppress(OSError, zk.Closed):
                connection.offer(zk.frame(zk.header(connection.next_xid, operation) + body))
    return floods


def _is_served(address):
    """Checks that a client gets a session and can write, perhaps after several attempts."""
    deadline = time.monotonic() + by.PATIENCE_SECONDS
    while True:
        try:
            with zk.Connection(address) as session:
                session.create("/served", b"", zk.EPHEMERAL)
                session.close()
                return
        except (zk.Closed, zk.ZkError, OSError):
            assert time.monotonic() < deadline, "no client is served any more"


def _abandon(floods):
    for connection in floods:
        connection.abandon()


def alone_replies_that_nobody_reads(server):
    with _server(server) as (_, address):
        with zk.Connection(address) as session:
            session.create("/large", LARGE)
        floods = _flood(address, [(zk.GET_DATA, zk.request_path_watch("/large", False))] * 1000)
        with zk.Connection(address) as session:
            session.ping()
        _abandon(floods)
        _is_served(address)


def alone_one_request_for_gigabytes(server):
    with _server(server) as (_, address):
        with zk.Connection(address) as session:
            session.create("/large", LARGE)
        reads = zk.request_multi([(zk.GET_DATA, zk.request_path_watch("/large", False))] * 30_000)
        _abandon(_flood(address, [(zk.MULTI_READ, reads)] * 3, connections=10))
        _is_served(address)


def alone_long_lists(server):
    with _server(server) as (_, address):
        with zk.Connection(address, timeout=30) as session:
            session.create("/list")
            for first in range(0, 100_000, 1000):
                session.call(zk.MULTI, zk.request_multi(
                    [(zk.CREATE, zk.request_create(f"/list/{'n' * 60}-{i}", b"")) for i in range(first, first + 1000)]))
        floods = _flood(address, [(zk.GET_CHILDREN, zk.request_path_watch("/list", False))] * 200)
        _abandon(floods)
        _is_served(address)


def alone_lists_of_keeper(server):
    with _server(server) as (_, address):
        with zk.Connection(address, timeout=30) as session:
            session.create("/list")
            for first in range(0, 50_000, 1000):
                session.call(zk.MULTI, zk.request_multi(
                    [(zk.CREATE, zk.request_create(f"/list/{'n' * 60}-{i}", b"d" * 100))
                     for i in range(first, first + 1000)]))
        lists = [(zk.LIST_RECURSIVE, zk.request_path_number("/", 0xFFFFFFFF)),
                 (zk.FILTERED_LIST_DETAILED, zk.request_filtered_list("/list", True, 0, (True, True))),
                 (zk.MULTI_READ, zk.request_multi(
                     [(zk.FILTERED_LIST_DETAILED, zk.request_filtered_list("/list", False, 1, (True, True)))] * 100))]
        floods = _flood(address, lists * 60)
        _abandon(floods)
        _is_served(address)


def alone_large_requests_that_never_end(server):
    with _server(server) as (_, address):
        request = zk.frame(zk.header(2, zk.CREATE) + zk.request_create("/never", LARGE))
        floods = []
        for _ in range(1000):
            try:
                connection = zk.Connection(address, 60000, timeout=5)
            except (zk.Closed, OSError):
                break  # refused, because memory is low
            floods.append(connection)
            with contextlib.suppress(OSError, zk.Closed):
                connection.offer(request[:-10])
        _abandon(floods)
        _is_served(address)


def alone_watches(server):
    with _server(server) as (_, address):
        sessions = []
        for i in range(20):
            try:
                session = zk.Connection(address, 60000, timeout=30)
            except (zk.Closed, OSError):
                break  # refused, because memory is low
            sessions.append(session)
            with contextlib.suppress(OSError, zk.Closed):
                for j in range(20):
                    paths = [f"/{i}-{j}-{k}-{'p' * 40}" for k in range(10_000)]
                    session.call(zk.SET_WATCHES, zk.request_set_watches(1 << 40, exist=paths),
                                 xid=zk.XID_SET_WATCHES)
        _abandon(sessions)
        _is_served(address)


def alone_more_data_than_fits(server):
    with _server(server) as (cluster, address):
        refused = made = 0
        deadline = time.monotonic() + 3 * by.PATIENCE_SECONDS
        with zk.Connection(address, 60000, timeout=30) as session:
            while not refused:
                assert time.monotonic() < deadline, f"no write was refused after {made} znodes of 900 KB"
                try:
                    session.create(f"/data-{made}", LARGE)
                    made += 1
                except zk.ZkError as error:
                    assert error.code == SYSTEM_ERROR, error
                    refused += 1
            # Writes that free memory are not refused.
            for i in range(made):
                session.delete(f"/data-{i}")
            while True:
                try:
                    session.create("/again", LARGE)
                    break
                except zk.ZkError as error:
                    assert error.code == SYSTEM_ERROR, error
                    assert time.monotonic() < deadline, "writes are refused for ever"
        assert "memory is almost used up" in cluster.log(1), "the log does not say why"
        return f"{made} znodes of 900 KB in {LIMIT_MIB} MiB"
