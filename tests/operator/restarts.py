# SPDX-License-Identifier: Apache-2.0
"""Tests `quorate rolling-restart`."""

import threading

import harness
import server as servers
import zkwire as zk


def _restart(cluster, *arguments):
    command = f"{harness.TOOL} --dir {cluster.dir} restart $QUORATE_MEMBER"
    return servers.quorate("--server", cluster.command("grpc"), "rolling-restart", "--command", command,
                           "--timeout", 60, *arguments)


def test_a_rolling_restart_restarts_each_server_once_and_the_leader_last_while_clients_write():
    with harness.Cluster() as cluster:
        before, leader = cluster.pids(), cluster.leader()
        stop, written, problems = threading.Event(), [], []

        def write():
            # Moves the session to another member, as client libraries do.
            address = 0
            while not stop.is_set():
                try:
                    with zk.Connection(cluster.address(1 + address % 3)) as connection:
                        while not stop.is_set():
                            connection.create(f"/w{len(written)}", b"")
                            written.append(address)
                except (zk.Closed, OSError):
                    address += 1
                except zk.ZkError as error:
                    if error.code != zk.NODE_EXISTS:
                        problems.append(error)
                        return
                    written.append(address)
        writer = threading.Thread(target=write)
        writer.start()
        try:
            status, output, errors = _restart(cluster)
        finally:
            stop.set()
            writer.join()
        assert status == 0 and "All 3 servers were restarted." in output, (output, errors)
        assert not problems and written, problems
        assert not set(before) & set(cluster.pids()), (before, cluster.pids())
        order = [int(line.split()[2]) for line in errors.splitlines() if line.startswith("restarting member")]
        assert sorted(order) == [1, 2, 3] and order[-1] == leader, (order, leader)
        return f"{len(written)} writes meanwhile"


def test_a_rolling_restart_is_refused_where_a_majority_would_be_lost():
    with harness.Cluster() as cluster:
        leader = cluster.leader()
        down, other = cluster.others(leader)
        cluster.kill(down)
        before = cluster.pids()
        status, _, errors = _restart(cluster)
        assert status == 1 and "not all servers answer, so none is restarted" in errors, errors
        assert cluster.pids() == before
        status, output, errors = servers.quorate(
            "--server", f"127.0.0.1:{cluster.ports.base + 100 + leader},127.0.0.1:{cluster.ports.base + 100 + other}",
            "rolling-restart", "--command", "false")
        assert status == 2 and f"--server does not name member {down}" in errors, (output, errors)
        assert cluster.pids() == before


def test_a_restart_command_that_does_nothing_is_noticed():
    with harness.Cluster() as cluster:
        before = cluster.pids()
        status, _, errors = servers.quorate("--server", cluster.command("grpc"), "rolling-restart", "--command",
                                            "true", "--timeout", 1)
        assert status == 1 and "the old process still runs" in errors, errors
        assert "not touched: " in errors and cluster.pids() == before, errors
