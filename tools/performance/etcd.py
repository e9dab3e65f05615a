# SPDX-License-Identifier: Apache-2.0
"""Clusters of etcd, and runs of the load generator `grpc_load`, which makes the same calls to etcd and Quorate."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time

from measuring import Failure, harness

MEMBERS = 3
START_SECONDS = 30
# A run may take so much longer than it measures: it connects before, and its last operations end after that.
PATIENCE_SECONDS = 60
LOAD = os.path.join(harness.ROOT, ".bazel/opt-bin/tools/performance/grpc_load/grpc_load")


class Cluster:
    """Three members of etcd with its own default settings."""

    def __init__(self, directory):
        self.directory = tempfile.mkdtemp(prefix="etcd-", dir=directory)
        self.ports = harness.Reservation(MEMBERS)
        self.processes = []

    def _url(self, member, offset):
        return f"http://{harness.HOST}:{self.ports.base + offset + member}"

    def grpc(self):
        return ",".join(self._url(member, 0).removeprefix("http://") for member in range(1, MEMBERS + 1))

    def pids(self):
        return [process.pid for process in self.processes]

    def _log(self, member):
        return os.path.join(self.directory, f"{member}.log")

    def start(self):
        initial = ",".join(f"m{member}={self._url(member, 100)}" for member in range(1, MEMBERS + 1))
        for member in range(1, MEMBERS + 1):
            client, peer = self._url(member, 0), self._url(member, 100)
            with open(self._log(member), "w", encoding="utf-8") as log:
                self.processes.append(subprocess.Popen(  # pylint: disable=consider-using-with
                    ["etcd", "--name", f"m{member}", "--data-dir", os.path.join(self.directory, str(member)),
                     "--listen-client-urls", client, "--advertise-client-urls", client,
                     "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", initial],
                    stdout=log, stderr=subprocess.STDOUT))
        deadline = time.monotonic() + START_SECONDS
        for member in range(1, MEMBERS + 1):
            while not self._is_ready(member):
                if time.monotonic() > deadline or self.processes[member - 1].poll() is not None:
                    raise Failure(f"member {member} of etcd does not serve; its log is {self._log(member)}")
                time.sleep(0.1)

    def _is_ready(self, member):
        with open(self._log(member), encoding="utf-8") as log:
            return "ready to serve client requests" in log.read()

    def stop(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        self.ports.release()
        shutil.rmtree(self.directory, ignore_errors=True)


@contextlib.contextmanager
def cluster(directory):
    """Yields a running Cluster whose files are in a directory."""
    if shutil.which("etcd") is None:
        raise Failure("etcd is not installed (deploy/install_packages)")
    made = Cluster(directory)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def load(system, servers, pids, seconds, options):
    """Runs grpc_load for so many seconds. Returns {"command": the command line, and its figures}."""
    shown = ["grpc_load", "--system", system, "--seconds", str(seconds), *map(str, options)]
    command = [LOAD, *shown[1:], "--servers", servers, "--pids", ",".join(map(str, pids))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + PATIENCE_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{' '.join(command)}: it did not end within {error.timeout:.0f} s; do all servers of its list "
                      "answer?") from error
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return {"command": " ".join([*shown, "--servers", system.upper(), "--pids", "PIDS"]), **json.loads(done.stdout)}
