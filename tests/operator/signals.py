# SPDX-License-Identifier: Apache-2.0
"""Tests the signals that people and scripts send to a server."""

import os
import signal
import time

import server as servers

SERVES = "listening for ZooKeeper clients on"


def _config(directory, port):
    return servers.write(f"{directory}/zoo.cfg",
                         f"dataDir={directory}/data\nclientPort={port + 1}\nclientPortAddress=127.0.0.1\n"
                         "admin.enableServer=false\n")


def test_log_rotation_by_sighup_makes_a_new_file_and_the_server_goes_on():
    with servers.place() as (directory, port):
        log = f"{directory}/server.log"
        with servers.Server(_config(directory, port), log) as server:
            server.wait_for_log(SERVES)
            os.rename(log, log + ".1")
            server.process.send_signal(signal.SIGHUP)
            _wait_for_file(server, log)
            said = server.wait_for_log("SIGHUP: ")
            assert "is valid; its changes take effect at the next start" in said, said
            assert SERVES not in said, said


def _wait_for_file(server, path):
    until = time.monotonic() + servers.START_SECONDS
    while not os.path.exists(path):
        assert server.process.poll() is None and time.monotonic() < until
        time.sleep(servers.POLL_SECONDS)


def test_sighup_says_if_the_next_start_would_fail():
    with servers.place() as (directory, port):
        config = _config(directory, port)
        with servers.Server(config, f"{directory}/server.log") as server:
            server.wait_for_log(SERVES)
            servers.write(config, "dataDir=/d\nclientPort=nonsense\n")
            server.process.send_signal(signal.SIGHUP)
            said = server.wait_for_log("SIGHUP: ")
            assert f"the next start will fail: {config}:2: clientPort" in said, said


def test_signals_that_ask_for_nothing_are_logged_and_ignored():
    with servers.place() as (directory, port):
        with servers.Server(_config(directory, port), f"{directory}/server.log") as server:
            server.wait_for_log(SERVES)
            for number in (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
                server.process.send_signal(number)
                server.wait_for_log(f"signal {int(number)} (")
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(timeout=servers.START_SECONDS) == 0, server.log()
            assert "stopped" in server.log()
