# SPDX-License-Identifier: Apache-2.0
"""Tests the signals that people and scripts send to a server."""

import errno
import glob
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


def test_sigterm_stops_a_server_that_still_reads_its_data():
    with servers.place() as (directory, port):
        config, log = _config(directory, port), f"{directory}/server.log"
        with servers.Server(config, log) as server:
            server.wait_for_log(SERVES)
        # Reading this one does not end, as reading a large log from a slow disk takes minutes.
        held = glob.glob(f"{directory}/data/checkpoints/store.*/CURRENT")[0]
        os.rename(held, f"{directory}/kept")
        os.mkfifo(held, 0o600)
        with servers.Server(config, log) as server:
            writer = _open_when_read(server, held)
            try:
                assert server.process.poll() is None, server.log()
                server.process.send_signal(signal.SIGTERM)
                assert server.process.wait(servers.START_SECONDS) == 0, server.log()
            finally:
                os.close(writer)
            assert "stopped while the data was read" in server.log() and SERVES not in server.log(), server.log()
        os.rename(f"{directory}/kept", held)
        with servers.Server(config, log) as server:
            server.wait_for_log(SERVES)


def _open_when_read(server, fifo):
    """Waits until the server reads the FIFO, and opens it. Returns the descriptor."""
    until = time.monotonic() + servers.START_SECONDS
    while True:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            assert error.errno == errno.ENXIO, error  # nobody reads it yet
        assert server.process.poll() is None and time.monotonic() < until, server.log()
        time.sleep(servers.POLL_SECONDS)
