# SPDX-License-Identifier: Apache-2.0
"""A second machine, for tests of what only this machine may do: a network namespace with a link to this one. Needs root
and the command `ip`."""

import contextlib
import os
import shutil
import subprocess

import harness


class FarAway:
    """A namespace whose processes reach this machine at `here`, and are seen here with the address `there`."""

    def __init__(self):
        number = os.getpid() % 16000
        self.name = f"quorate-{os.getpid()}"
        self.link = f"qfar{os.getpid() % 1000000}"
        network = f"10.{200 + number // 4000}.{number // 64 % 256}.{number % 64 * 4}".rsplit(".", 1)
        self.here, self.there = (f"{network[0]}.{int(network[1]) + offset}" for offset in (1, 2))

    def begin(self):
        for command in (
                ("netns", "add", self.name),
                ("link", "add", self.link, "type", "veth", "peer", "name", "far0", "netns", self.name),
                ("address", "add", f"{self.here}/30", "dev", self.link),
                ("link", "set", self.link, "up"),
                ("-n", self.name, "address", "add", f"{self.there}/30", "dev", "far0"),
                ("-n", self.name, "link", "set", "far0", "up"),
                ("-n", self.name, "link", "set", "lo", "up")):
            result = subprocess.run(["ip", *command], capture_output=True, text=True, timeout=30, check=False)
            if result.returncode != 0:
                self.end()
                raise harness.Skipped(f"ip {' '.join(command)}: {result.stderr.strip()}")

    def end(self):
        for command in (("link", "delete", self.link), ("netns", "delete", self.name)):
            subprocess.run(["ip", *command], capture_output=True, timeout=30, check=False)

    def run(self, *command, seconds=60, environment=()):
        """Runs a program on the second machine. Returns the subprocess.CompletedProcess."""
        return subprocess.run(["ip", "netns", "exec", self.name, *map(str, command)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=seconds, check=False,
                              env=dict(os.environ, **dict(environment)))


@contextlib.contextmanager
def far_away():
    if os.geteuid() != 0 or shutil.which("ip") is None:
        raise harness.Skipped("a network namespace needs root and the command ip")
    machine = FarAway()
    machine.begin()
    try:
        yield machine
    finally:
        machine.end()
