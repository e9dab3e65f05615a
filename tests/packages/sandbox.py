# SPDX-License-Identifier: Apache-2.0
"""What the unit forbids the server. systemd itself does not run here, so the system calls that a server makes are compared
with the unit's filter."""

import os
import re
import signal
import subprocess
import time

import harness
import quorate_cli
import zkwire as zk

UNIT = os.path.join(harness.ROOT, "deploy/debian/quorate-server.quorate.service")


def the_unit_restricts_the_server(_machine):
    result = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=30", "--no-pager", UNIT],
                            capture_output=True, text=True, check=False)
    assert result.returncode == 0, harness.end_of(result.stdout + result.stderr, 5)
    return re.search(r"exposure level.*: ([0-9.]+)", result.stdout).group(0)


def _expand(name):
    """Returns the names of the system calls of a group of systemd's, such as @system-service."""
    result = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", name], capture_output=True, text=True, check=True)
    names = set()
    for word in (line.strip() for line in result.stdout.splitlines()[1:]):
        if word.startswith("@"):
            names |= _expand(word)
        elif word and not word.startswith("#"):
            names.add(word)
    return names


def _traced_calls(directory):
    """Runs a server that writes, makes checkpoints and a backup, and stops. Returns the lines of its system calls."""
    ports = harness.Reservation(1)
    client, grpc = (f"{harness.HOST}:{ports.base + offset}" for offset in (1, 101))
    config, trace = os.path.join(directory, "traced.cfg"), os.path.join(directory, "trace")
    with open(config, "w", encoding="utf-8") as file:
        file.write(f"dataDir={directory}/traced\nclientPort={ports.base + 1}\ngrpcPort={ports.base + 101}\n"
                   f"grpcUnixSocket={directory}/traced.sock\nsnapCount=10\n")
    command = ["strace", "--follow-forks", "--quiet=all", f"--output={trace}", harness.SERVERS["quorate"], config]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            deadline = time.monotonic() + harness.WAIT_SECONDS
            while not _serves(client):
                assert time.monotonic() < deadline and process.poll() is None, "the server does not serve"
                time.sleep(0.1)
            script = "".join(f"create /{i} {i}\n" for i in range(30))
            subprocess.run([quorate_cli.PROGRAM, "--server", grpc, "shell"], input=script, text=True, check=True, timeout=60,
                           stdout=subprocess.DEVNULL)
            subprocess.run([quorate_cli.PROGRAM, "--server", grpc, "backup", f"{directory}/traced.backup"], check=True,
                           timeout=60, capture_output=True)
            with open(trace, encoding="utf-8") as file:
                server = int(file.readline().split()[0])
            os.kill(server, signal.SIGTERM)
            output, _ = process.communicate(timeout=30)
        finally:
            process.kill()
            ports.release()
    assert process.returncode == 0, output
    with open(trace, encoding="utf-8", errors="replace") as file:
        return file.readlines()


def _serves(address):
    try:
        return "Mode: " in zk.four_letter(address, "srvr")
    except (zk.Closed, OSError):
        return False


def the_unit_allows_what_the_server_does(machine):
    with open(UNIT, encoding="utf-8") as file:
        settings = file.read().splitlines()
    filters = [line.partition("=")[2] for line in settings if line.startswith("SystemCallFilter=")]
    assert filters == ["@system-service", "~@privileged"], filters
    allowed = _expand("@system-service") - _expand("@privileged")
    lines = _traced_calls(machine.directory)
    calls = {match.group(1) for match in (re.match(r"\d+ +([a-z_0-9]+)\(", line) for line in lines) if match}
    assert {"openat", "fdatasync", "epoll_wait"} <= calls, sorted(calls)
    assert calls <= allowed, f"the filter forbids {sorted(calls - allowed)}"
    assert "MemoryDenyWriteExecute=yes" in settings
    assert not [line for line in lines if "PROT_WRITE|PROT_EXEC" in line]
    families = next(line for line in settings if line.startswith("RestrictAddressFamilies=")).partition("=")[2].split()
    used = {match.group(1) for match in (re.search(r" socket\((AF_[A-Z0-9]+)", line) for line in lines) if match}
    assert used and used <= set(families), (used, families)
    return f"{len(calls)} system calls"


TESTS = (the_unit_restricts_the_server, the_unit_allows_what_the_server_does)
