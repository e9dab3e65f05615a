"""One server that a test starts by hand, with a configuration of its own, and the CLI."""

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


def quorated():
    return os.environ.get("QUORATED", harness.SERVERS["quorate"])


def quorate(*arguments, environment=None):
    """(exit status, standard output, standard error) of the CLI."""
    result = quorate_cli.run(*arguments, environment=environment or {})
    return result.returncode, result.stdout, result.stderr


@contextlib.contextmanager
def place(members=1):
    """(directory, first of free ports) for servers of a test."""
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
    """The addresses on which processes of this machine listen on `port`, as the kernel says; those of IPv4
    within IPv6 as of IPv4, and all of IPv6 as 0.0.0.0."""
    addresses = []
    for name in ("tcp", "tcp6"):
        with open(f"/proc/net/{name}", encoding="ascii") as table:
            for line in table.readlines()[1:]:
                local, state = line.split()[1], line.split()[3]
                words, hex_port = local.split(":")
                if state != "0A" or int(hex_port, 16) != port:
                    continue
                # Words of 32 bits, each in the order of this machine.
                raw = b"".join(bytes.fromhex(words[i:i + 8])[::-1] for i in range(0, len(words), 8))
                address = ipaddress.ip_address(raw)
                if address.version == 6:
                    address = address.ipv4_mapped or address
                addresses.append("0.0.0.0" if address == ipaddress.ip_address("::") else str(address))
    return addresses


def wait_until(what, condition, seconds=START_SECONDS):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"after {seconds} s: not yet {what}"
        time.sleep(POLL_SECONDS)


def refusal(*arguments, user=None, program=None):
    """All that a server says that has to end by itself with status 1."""
    result = subprocess.run([program or quorated(), *arguments], stdin=subprocess.DEVNULL, text=True, user=user,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=START_SECONDS,
                            check=False)
    assert result.returncode == 1, f"exit status {result.returncode}:\n{result.stdout}"
    return result.stdout


class Server:
    """A running server, with its log in a file. Use as a context manager."""

    log_begin = 0  # where its lines begin in the file

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
        """What it has said; not what an earlier server said in the same file."""
        with open(self.log_path, "rb") as file:
            file.seek(self.log_begin)
            return file.read().decode(errors="replace")

    def wait_for_log(self, text, seconds=START_SECONDS):
        """Waits until the log has `text`, which the server has to live to see."""
        until = time.monotonic() + seconds
        while text not in self.log():
            assert self.process.poll() is None, f"the server ended:\n{self.log()}"
            assert time.monotonic() < until, f"not logged within {seconds} s: {text}\n{self.log()}"
            time.sleep(POLL_SECONDS)
        return self.log()
