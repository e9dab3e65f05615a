# SPDX-License-Identifier: Apache-2.0
"""Runs one server with a configuration of its own, and the command line `quorate`."""

import contextlib
import ipaddress
import os
import shutil
import subprocess
import tempfile
import time

import harness
import quorate_cli

START_SECONDS = 20
POLL_SECONDS = 0.02
# Exit statuses of the server (rpc/member/exit_status.h).
WRONG_CONFIGURATION = 2
WRONG_DATA_DIRECTORY = 3
NO_PEER_PORT = 14
FAILED_STARTS = (1, WRONG_CONFIGURATION, WRONG_DATA_DIRECTORY, 4, NO_PEER_PORT)


def quorated():
    return os.environ.get("QUORATED", harness.SERVERS["quorate"])


def quorate(*arguments, environment=None):
    """Runs the command line. Returns (exit status, standard output, standard error)."""
    result = quorate_cli.run(*arguments, environment=environment or {})
    return result.returncode, result.stdout, result.stderr


@contextlib.contextmanager
def place(members=1):
    """Yields (directory, first of free ports) for servers of a test."""
    ports = harness.Reservation(members)
    directory = tempfile.mkdtemp(prefix="quorate-operator-")
    try:
        yield directory, ports.base
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        ports.release()


def write(path, text, mode=None):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    if mode is not None:
        os.chmod(path, mode)
    return path


def listening(port):
    """Returns the addresses on which processes of this machine listen on `port`, according to the kernel. IPv4-mapped
    IPv6 addresses are returned as IPv4 addresses, and the IPv6 wildcard address as 0.0.0.0."""
    addresses = []
    for name in ("tcp", "tcp6"):
        with open(f"/proc/net/{name}", encoding="ascii") as table:
            for line in table.readlines()[1:]:
                local, state = line.split()[1], line.split()[3]
                words, hex_port = local.split(":")
                if state != "0A" or int(hex_port, 16) != port:
                    continue
                # The address consists of 32-bit words, each in the byte order of this machine.
                raw = b"".join(bytes.fromhex(words[i:i + 8])[::-1] for i in range(0, len(words), 8))
                address = ipaddress.ip_address(raw)
                if address.version == 6:
                    address = address.ipv4_mapped or address
                addresses.append("0.0.0.0" if address == ipaddress.ip_address("::") else str(address))
    return addresses


def wait_until(what, condition, seconds=START_SECONDS):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"not within {seconds} s: {what}"
        time.sleep(POLL_SECONDS)


def refusal(*arguments, user=None, program=None, status=WRONG_CONFIGURATION):
    """Runs a server that has to end by itself with this exit status. Returns its output."""
    result = subprocess.run([program or quorated(), *arguments], stdin=subprocess.DEVNULL, text=True, user=user,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=START_SECONDS,
                            check=False)
    assert result.returncode == status, f"exit status {result.returncode}:\n{result.stdout}"
    return result.stdout


class Server:
    """A running server, with its log in a file. Use as a context manager."""

    log_begin = 0  # the offset of its first line in the file

    def __init__(self, config, log, environment=None):
        self.config, self.log_path = config, log
        with open(log, "ab") as file:
            self.log_begin = file.tell()
            self.process = subprocess.Popen([quorated(), config], stdin=subprocess.DEVNULL, stdout=file,
                                            stderr=subprocess.STDOUT, env=dict(os.environ, **(environment or {})))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def log(self):
        """Returns the log of this server, without the lines of an earlier server in the same file."""
        with open(self.log_path, "rb") as file:
            file.seek(self.log_begin)
            return file.read().decode(errors="replace")

    def wait_for_log(self, text, seconds=START_SECONDS):
        """Waits until the log has `text`, and returns the log. The server must not end before."""
        until = time.monotonic() + seconds
        while text not in self.log():
            assert self.process.poll() is None, f"the server ended:\n{self.log()}"
            assert time.monotonic() < until, f"not logged within {seconds} s: {text}\n{self.log()}"
            time.sleep(POLL_SECONDS)
        return self.log()
