# SPDX-License-Identifier: Apache-2.0
"""Kills the leader again and again. Clients of another member see only pauses: no lost connection, no error, and
no call without an answer (mt_survivor.c, kazoo_survivor.py)."""

import contextlib
import os
import signal
import subprocess
import threading
import time

import administration
import harness

KILLS = 5
ROUNDS_EACH = 2  # how many rounds must begin and end after each kill
PATIENCE_SECONDS = 60
LINES_KEPT = 25


class Program:
    """A client that prints a line "round NANOSECONDS" as each of its rounds begins, until its standard input
    ends. A context manager: the end of the `with` ends the program."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="replace",
                                        start_new_session=True)
        self.rounds, self.lines, self.has_ended = [], [], False
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.reader.join()
        self.process.stdin.close()
        self.process.stdout.close()

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                if line.startswith("round "):
                    self.rounds.append(int(line.split()[1]))
                else:
                    self.lines = [*self.lines, line][-LINES_KEPT:]
                self.changed.notify_all()
        with self.changed:
            self.has_ended = True
            self.changed.notify_all()

    def wait_for_rounds_since(self, ns):
        """Waits until ROUNDS_EACH rounds that began after the time `ns` have ended."""
        def is_through():
            return len(self.rounds) > ROUNDS_EACH and self.rounds[-ROUNDS_EACH - 1] > ns

        with self.changed:
            self.changed.wait_for(lambda: is_through() or self.has_ended, PATIENCE_SECONDS)
            assert is_through(), f"the program makes no progress:\n{''.join(self.lines)}"

    def finish(self):
        """Lets the program end. Returns its last line."""
        self.process.stdin.close()
        with self.changed:
            self.changed.wait_for(lambda: self.has_ended, PATIENCE_SECONDS)
            assert self.has_ended, f"the program does not end:\n{''.join(self.lines)}"
        status = self.process.wait()
        assert status == 0, f"exit status {status}:\n{''.join(self.lines)}"
        return self.lines[-1].strip()


def _leader_other_than(cluster, home):
    """Returns the number of the leader; if `home` leads, transfers leadership to another member first."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (leader := cluster.leader()) == home:
        assert time.monotonic() < deadline, f"member {home} keeps the leadership"
        addresses = cluster.command("grpc").split(",")
        # A refused transfer does not matter if another member leads meanwhile.
        administration.transfer_leadership(addresses[home - 1], home % cluster.size + 1)
    return leader


def run(cluster, make_commands):
    """Runs the test. `make_commands(hosts)` returns the command lines of the programs."""
    if not cluster.keeps_connections:
        raise harness.Skipped("ZooKeeper's followers disconnect their clients when the leader dies")
    home = cluster.followers()[0]
    with contextlib.ExitStack() as stack:
        programs = [stack.enter_context(Program(command)) for command in make_commands(cluster.address(home))]
        for program in programs:
            program.wait_for_rounds_since(0)
        for _ in range(KILLS):
            leader = _leader_other_than(cluster, home)
            cluster.kill(leader)
            killed = time.monotonic_ns()
            for program in programs:
                program.wait_for_rounds_since(killed)
            cluster.restart(leader)
        facts = [program.finish() for program in programs]
    cluster.check_alive()
    return f"{KILLS} leaders killed; {'; '.join(facts)}"
