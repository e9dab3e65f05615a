# SPDX-License-Identifier: Apache-2.0
"""The archive of deploy/package --tar. Its programs run in a root that has no library and no loader at all: only a static
shell, and what a kernel and an administrator make."""

import filecmp
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time

import harness

BUSYBOX = "/bin/busybox"


class Bare:
    """A root with the archive in /opt and nothing that a program could load."""

    def __init__(self, machine, archive):
        self.machine = machine
        self.path = os.path.join(machine.directory, "bare")
        for name in ("bin", "opt", "dev", "proc", "tmp", "srv"):
            os.makedirs(f"{self.path}/{name}")
        shutil.copy(BUSYBOX, f"{self.path}/bin/busybox")
        for name in ("sh", "readlink", "dirname", "basename", "ls", "tar", "gzip"):
            os.symlink("busybox", f"{self.path}/bin/{name}")
        shutil.copy(archive, f"{self.path}/opt/archive.tar.gz")
        machine.root.check_call(["mount", "-t", "proc", "proc", f"{self.path}/proc"])
        self.run("tar", "-x", "-z", "-f", "/opt/archive.tar.gz", "-C", "/opt")

    def command(self, *words):
        return ["env", "-i", "PATH=/bin", shutil.which("chroot"), self.path, *words]

    def run(self, *words, check=True):
        result = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=60, check=False)
        assert not check or result.returncode == 0, f"{' '.join(words)}: {result.stdout}{result.stderr}"
        return result


def _archive(machine):
    """Returns the path of the archive, which is made once for a machine."""
    if not hasattr(machine, "tar"):
        machine.tar, _ = machine.build("archive", "--tar")
    return machine.tar


def the_same_programs_give_the_same_archive(machine):
    archive = _archive(machine)
    again, checksum = machine.build("archive-again", "--tar", elsewhere=True)
    assert checksum == again + ".sha256"
    subprocess.run(["sha256sum", "--check", "--quiet", os.path.basename(checksum)], cwd=os.path.dirname(again), check=True)
    assert filecmp.cmp(archive, again, shallow=False), "the same programs give another archive"
    name = os.path.basename(archive).removesuffix(".tar.gz")
    with tarfile.open(archive) as files:
        members = {member.name for member in files}
        assert {member.partition("/")[0] for member in members} == {name}
        text = files.extractfile(name + "/LIBRARIES").read().decode()
    listed = re.findall(r"^    ([a-z0-9.+-]+)(?::\w+)? \S+$", text, re.MULTILINE)
    assert {"librocksdb7.8", "libc6", "libstdc++6", "libsasl2-modules", "libsasl2-modules-gssapi-mit"} <= set(listed), listed
    for package in listed:
        assert f"{name}/licenses/{package}" in members, f"the licence of {package} is missing"
    return f"{os.path.getsize(archive) >> 20} MiB"


def its_programs_run_where_no_library_is(machine):
    archive = _archive(machine)
    name = os.path.basename(archive).removesuffix(".tar.gz")
    bare = Bare(machine, archive)
    programs = f"/opt/{name}"
    for program in ("quorated", "quorate"):
        assert bare.run(f"{programs}/{program}", "--version").stdout.startswith(program + " " + name.split("-")[1].split("~")[0])
    ports = harness.Reservation(1)
    client, grpc = ports.base + 1, ports.base + 101
    with open(f"{bare.path}/srv/zoo.cfg", "w", encoding="utf-8") as file:
        file.write(f"dataDir=/srv/data\nclientPort={client}\ngrpcPort={grpc}\nadmin.enableServer=false\n"
                   "jaasFile=/srv/jaas.conf\n"
                   "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n")
    with open(f"{bare.path}/srv/jaas.conf", "w", encoding="utf-8") as file:
        file.write("Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob=\"secret\"; };\n")
    with open(f"{bare.path}/srv/log", "w", encoding="utf-8") as log, subprocess.Popen(
            bare.command(f"{programs}/quorated", "/srv/zoo.cfg"), stdout=log, stderr=subprocess.STDOUT) as server:
        try:
            shell = (f"{programs}/quorate", "--server", f"127.0.0.1:{grpc}", "shell", "--")
            deadline = time.monotonic() + harness.WAIT_SECONDS
            while (made := bare.run(*shell, "create", "/bare", "yes", check=False)).returncode != 0:
                assert time.monotonic() < deadline and server.poll() is None, made.stderr + _text(f"{bare.path}/srv/log")
                time.sleep(0.1)
            assert bare.run(*shell, "get", "/bare").stdout == "yes\n"
            with open(f"/proc/{server.pid}/maps", encoding="utf-8") as maps:
                loaded = set(re.findall(r" (/\S+\.so[.0-9]*)$", maps.read(), re.MULTILINE))
            assert loaded and all(f"{programs}/lib/" in path for path in loaded), loaded
            for plugin in ("libdigestmd5.so", "libgssapiv2.so"):
                assert any(path.endswith(f"{programs}/lib/sasl2/{plugin}") for path in loaded), loaded
            assert "clients can authenticate by SASL" in _text(f"{bare.path}/srv/log")
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=30) == 0, _text(f"{bare.path}/srv/log")
        finally:
            server.kill()
            ports.release()


def _text(path):
    with open(path, encoding="utf-8") as file:
        return harness.end_of(file.read())


def a_server_of_it_starts_itself_again(machine):
    """A server that has to do so executes the launcher: the program that runs is the loader of the archive."""
    sys.path.append(os.path.join(harness.ROOT, "tests/cluster"))
    import setup  # pylint: disable=import-outside-toplevel
    archive = _archive(machine)
    directory = os.path.join(machine.directory, "started")
    os.mkdir(directory)
    subprocess.run(["tar", "--extract", "--file", archive, "--directory", directory], check=True)
    program = harness.SERVERS["quorate"]
    harness.SERVERS["quorate"] = os.path.join(directory, os.path.basename(archive).removesuffix(".tar.gz"), "quorated")
    try:
        setup.alone_a_member_whose_clock_was_ahead_before_its_disk_was_lost_starts_itself_again("quorate")
    finally:
        harness.SERVERS["quorate"] = program


TESTS = (the_same_programs_give_the_same_archive, its_programs_run_where_no_library_is, a_server_of_it_starts_itself_again)
