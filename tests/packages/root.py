# SPDX-License-Identifier: Apache-2.0
"""A minimal Debian in a directory, in which packages are installed and servers run as on a machine of their own.

The tests run in namespaces of their own for processes and mounts, so that nothing in the root outlives them
(enter). Servers run in a network namespace that only has a loopback interface, so that they can use the ports of
the packages' configuration."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import harness

SUITE = "bookworm"
MIRROR = os.environ.get("QUORATE_DEBIAN_MIRROR", "http://deb.debian.org/debian")
INSIDE = "QUORATE_PACKAGES_TEST_DIRECTORY"  # set in the namespaces; the directory of the run
PROGRAMS = ("busybox", "debootstrap", "dpkg-buildpackage", "dh", "help2man", "lintian", "strace", "unshare", "nsenter", "ip")
READY_SECONDS = 30


def _problem():
    """Returns why the tests cannot run here; "" if they can."""
    if os.geteuid() != 0:
        return "a chroot needs root"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (deploy/install_packages)"
    probe = subprocess.run(["unshare", "--mount", "--pid", "--net", "--fork", "--mount-proc", "chroot", "/", "true"],
                           capture_output=True, text=True, check=False)
    return "" if probe.returncode == 0 else f"no namespaces and chroot here: {probe.stderr.strip()}"


def enter():
    """Returns in the namespaces, with the directory of the run. Elsewhere runs this program again in the namespaces,
    and ends with its exit status; or skips all tests if that is not possible."""
    if INSIDE in os.environ:
        return os.environ[INSIDE]
    problem = _problem()
    if problem:
        print(f"skip packages: {problem}\n0 passed, 0 failed, 1 skipped", flush=True)
        sys.exit(0)
    harness.end_on_signals()
    with tempfile.TemporaryDirectory(prefix="quorate-packages-") as directory:
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-B", *sys.argv]
        with subprocess.Popen(command, env=dict(os.environ, **{INSIDE: directory})) as process:
            try:
                status = process.wait()
            finally:
                process.kill()
    sys.exit(status)


class Root:
    def __init__(self, directory):
        self.path = os.path.join(directory, "root")
        self.network = None

    def make(self, archive):
        """Makes the root from an archive of a minimal Debian, which debootstrap makes if it does not exist."""
        os.makedirs(self.path)
        if os.path.exists(archive):
            self.check_call(["tar", "--extract", "--file", archive, "--directory", self.path])
        else:
            result = subprocess.run(["debootstrap", "--variant=minbase", SUITE, self.path, MIRROR],
                                    capture_output=True, text=True, check=False)
            if result.returncode != 0:
                raise harness.Skipped(f"debootstrap failed: {harness.end_of(result.stdout + result.stderr, 3)}")
            self.check_call(["tar", "--create", "--file", archive, "--directory", self.path, "."])
        with open(self.file("/etc/hosts"), "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n")
        shutil.copy("/etc/resolv.conf", self.path + "/etc/resolv.conf")
        for kind, name in (("proc", "proc"), ("tmpfs", "run"), ("tmpfs", "tmp")):
            self.check_call(["mount", "-t", kind, kind, f"{self.path}/{name}"])
        os.chmod(self.path + "/tmp", 0o1777)
        self.network = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity"],
                                        stdout=subprocess.PIPE, text=True)
        assert self.network.stdout.readline() == "up\n", "there is no network namespace with a loopback interface"

    @staticmethod
    def check_call(command):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"{' '.join(command)}: {result.stdout}{result.stderr}"

    def __str__(self):
        return self.path

    def file(self, path):
        return self.path + path

    def add(self, source):
        """Copies a file of the machine into /tmp of the root. Returns its name there."""
        shutil.copy(source, self.file("/tmp/"))
        return f"/tmp/{os.path.basename(source)}"

    def _command(self, words, user):
        place = ["chroot", *([f"--userspec={user}"] if user else []), self.path]
        return [*place, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8",
                *map(str, words)]

    def in_network(self, *words, user=""):
        """Returns the command that runs `words` in the root, in its network namespace."""
        return ["nsenter", f"--net=/proc/{self.network.pid}/ns/net", *self._command(words, user)]

    def run(self, *words, check=True, user="", text=None, outside=False, seconds=120):
        """Runs a command in the root; with `outside`, in the network of the machine, to download packages. Returns the
        subprocess.CompletedProcess. Raises AssertionError if the command fails, unless `check` is False."""
        command = self._command(words, user) if outside else self.in_network(*words, user=user)
        result = subprocess.run(command, input=text or "", capture_output=True, text=True, timeout=seconds, check=False)
        assert not check or result.returncode == 0, (
            f"{' '.join(map(str, words))}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
        return result

    def output(self, *words, **options):
        return self.run(*words, **options).stdout.strip()


class Service:
    """Runs a server as systemd would: by the command of the installed unit, with its user and mask, and with a socket for
    its reports. Use as a context manager."""

    def __init__(self, root):
        self.root = root
        self.unit = {}
        with open(root.file("/lib/systemd/system/quorate.service"), encoding="utf-8") as file:
            for line in file:
                key, is_setting, value = line.strip().partition("=")
                if is_setting and not line.startswith("#"):
                    self.unit.setdefault(key, []).append(value)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.process = None
        self.reports = []

    def __enter__(self):
        path = self.root.file("/run/notify")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self.socket.bind(path)
        os.chmod(path, 0o777)
        user = self.unit["User"][0]
        command = ["env", "NOTIFY_SOCKET=/run/notify", "WATCHDOG_USEC=3000000", *self.unit["ExecStart"][0].split()]
        # The server is the process itself: nsenter, chroot and env all execute the next program.
        self.process = subprocess.Popen(self.root.in_network(*command, user=f"{user}:{user}"), stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, umask=int(self.unit["UMask"][0], 8))
        try:
            self.await_report("READY=1")
        except BaseException:
            self.__exit__()
            raise
        return self

    def await_report(self, wanted):
        """Waits for a report with the line `wanted`."""
        deadline = time.monotonic() + READY_SECONDS
        while not any(wanted in report.splitlines() for report in self.reports):
            self.socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                self.reports.append(self.socket.recv(4096).decode())
            except TimeoutError:
                self.process.kill()
                raise AssertionError(f"no report {wanted} within {READY_SECONDS} s, but {self.reports}\n"
                                     f"{self.process.stdout.read()}") from None

    def stop(self):
        """Stops the server as systemd does. Returns its exit status."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=READY_SECONDS)
        return self.process.returncode

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.stop()
        self.socket.close()
