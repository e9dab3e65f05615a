# SPDX-License-Identifier: Apache-2.0
"""The members of a cluster, each on a node of the network, and the faults that can be injected into them."""

import contextlib
import os
import re
import secrets
import select
import shlex
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import certificates
import harness
import quorate_cli
import zkwire as zk
from disk_control import DiskControl, make_library
from full_disk import MIB, RESERVE_MIB, Disk

HERE = os.path.dirname(os.path.realpath(__file__))
# Where each member's own port is put into its configuration.
SECURE_PORT = "SECURE_PORT"
TLS_SETTINGS = {"sslQuorum": "true", "ssl.quorum.keyStore.location": "member.pem", "ssl.quorum.trustStore.location": "ca.pem",
                "memberSecretFile": "secret", "ssl.keyStore.location": "member.pem", "ssl.trustStore.location": "ca.pem",
                "grpcTls": "true", "grpcTlsClientAuth": "want", "secureClientPort": SECURE_PORT}
TLS_FILES = [key for key in TLS_SETTINGS if key.endswith((".location", "File"))]
# Certificates are valid for long before and after the present, because faults change clocks.
CERTIFICATE_AGE_DAYS, CERTIFICATE_DAYS = 400, 1000
CLOCK_LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
PEER_OFFSET = 200  # the offset of peer ports in tools/cluster
SECURE_OFFSET = 400  # that of election ports, at which Quorate does not listen: for TLS of clients
ANSWER_SECONDS = 0.7
LEADING = ("leader", "standalone")
SERVING = (*LEADING, "follower")
# The exit status of a server that ends because it was removed from the cluster.
REMOVED_STATUS = 5
# The allowed ends of a server: it received SIGTERM (a Java machine then has an exit status of its own), or
# it was killed. One that was asked to leave may have ended because it was removed.
ENDS = {"quorate": (0, -signal.SIGKILL), "zookeeper": (0, -signal.SIGKILL, 128 + signal.SIGTERM)}
KILLED_SECONDS = 15
CHANGE_SECONDS = 10  # the longest time of a command that changes the members
START_SECONDS = 60  # the longest time of one before there are faults
UNKNOWN = "in an unknown way"
# The message of a server that has to be started again when there is free space: its disk is too full for the start, as
# may happen after it has lost its data.
ENDS_TO_START_AGAIN = "this step of the start needs free space"
# Small values, so that the log is cut and disks are full within minutes.
SETTINGS = ["tickTime=500", "minSessionTimeout=1000"]
QUORATE_SETTINGS = ["snapCount=3000", f"logSegmentBytes={MIB}"]
DISK_SETTINGS = [f"diskReserveMb={RESERVE_MIB}"]

# The script that is run in place of a server: it changes the configuration to the addresses of the proxies and to the
# member's own certificate, enters the member's node, sets the libraries to preload, and becomes the server under the same pid.
SCRIPT = """#!/bin/sh
. "$0.$(basename "$(dirname "$1")")"
[ -z "$changes" ] || sed -E -i "$changes" "$1" || exit
exec $prefix $variables {server} "$1"
"""


class Members(harness.Cluster):
    """A cluster. `network`: None for the loopback device. `links`: the proxies between members on the loopback
    device, if any. `faults`: which of "disk" (slow and stalled), "full-disk" and "clock" will be used; only for
    these the servers get preloaded libraries and small disks. `environment`: the environment of the servers. `tls`: the
    members use TLS and a secret, gRPC takes only TLS, and there are ports with TLS for ZooKeeper clients beside those
    without it. `has_spare`: there is one more number than members, for a new member in the place of one that is lost."""

    def __init__(self, server, size, directory, network=None, faults=(), settings=(), environment=None, links=None, tls=False,
                 has_spare=False):
        self.exits = os.path.join(directory, "exits")
        self.tls_directory = os.path.join(directory, "tls") if tls else ""
        if tls:
            settings = [*settings, *(f"{key}={os.path.join(self.tls_directory, value) if key in TLS_FILES else value}"
                                     for key, value in TLS_SETTINGS.items())]
        super().__init__(server, size=size, start=False, directory=directory, size_max=size + has_spare, settings=[
            *SETTINGS, *(QUORATE_SETTINGS if server == "quorate" else ()),
            *(DISK_SETTINGS if "full-disk" in faults else ()), *settings])
        self.server, self.network, self.links = server, network, links
        self.everyone = list(range(1, size + has_spare + 1))  # the numbers of all members that there may be
        self.spare = size + 1 if has_spare else 0  # the number that no member has now; 0: there is none
        if server == "quorate":
            # Members have networks of their own, so that administrators' calls come from other machines.
            self.token = secrets.token_hex(16)
            path = os.path.join(self.parent, "administrators")
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
                file.write(self.token + "\n")
            self.settings.append(f"administratorTokenFile={path}")
            # For `quorate member`, which sends no token without TLS.
            self.settings.append(f"grpcUnixSocket={self._grpc_socket('{member}')}")
        self.nodes = network.members if network else []
        self.disks = {}
        os.makedirs(self.dir)
        if tls:
            self._make_certificates()
        if "full-disk" in faults:
            self._mount_disks()
        self.controls = {i: DiskControl(os.path.join(self.parent, f"disk-{i}.control")) for i in self.everyone}
        if links:
            links.lead_to([self._peer_port(member) for member in self.everyone])
        program = self.environment.get("QUORATED", harness.SERVERS[server])
        self.environment["QUORATED"] = self._write_script(program, faults, environment or {})
        self.pool = ThreadPoolExecutor(size)
        self.launched = {}  # the member of each process that was started, by pid
        self.asked_to_leave = set()  # the members that a command was to remove
        self.ended_early = set()  # pids of processes that received SIGTERM before they could listen

    def _make_certificates(self):
        os.makedirs(self.tls_directory)
        past = dict(os.environ, LD_PRELOAD=CLOCK_LIBRARY, FAKETIME=f"-{CERTIFICATE_AGE_DAYS}d")
        authority = certificates.Authority(self.tls_directory, days=CERTIFICATE_DAYS, environment=past)
        for member in self.everyone:
            address = self.network.addresses[self.nodes[member - 1]] if self.network else harness.HOST
            store = authority.issue(f"member{member}", "member", f"/CN=member{member}", days=CERTIFICATE_DAYS,
                                    names=f"IP:{address}")[2]
            os.rename(store, os.path.join(self.tls_directory, f"member{member}.pem"))
        os.rename(authority.issue("client", "client", "/CN=client", days=CERTIFICATE_DAYS)[2],
                  os.path.join(self.tls_directory, "client.pem"))
        secret = os.path.join(self.tls_directory, "secret")
        with open(secret, "w", encoding="ascii") as file:
            file.write("the secret of the members\n")
        os.chmod(secret, 0o600)

    def _mount_disks(self):
        for member in self.everyone:
            self.disks[member] = Disk(os.path.join(self.parent, f"disk-{member}"))
            os.symlink(self.disks[member].path, self.member_dir(member))
            os.symlink(os.path.join(self.parent, f"log-{member}"),
                       os.path.join(self.member_dir(member), "server.log"))

    def _write_script(self, program, faults, environment):
        script = os.path.join(self.parent, "server")
        with open(script, "w", encoding="utf-8") as file:
            file.write(SCRIPT.format(server=shlex.quote(os.path.realpath(program))))
        os.chmod(script, 0o755)
        library = make_library(self.parent) if "disk" in faults else ""
        for i in self.everyone:
            variables, preloaded = {}, []
            if library:
                preloaded.append(library)
                variables.update(DISK_DIRECTORY=os.path.realpath(self.member_dir(i)),
                                 DISK_CONTROL=self.controls[i].path)
            if "clock" in faults:
                self.set_clock(i, 0)
                variables.update(clock_environment(self.clock_file(i)))
                preloaded.append(variables["LD_PRELOAD"])
            if preloaded:
                variables["LD_PRELOAD"] = ":".join(preloaded)
            prefix = self.network.prefix(self.nodes[i - 1]) if self.network else []
            words = ["env", *(f"{key}={value}" for key, value in variables.items())] if variables else []
            with open(f"{script}.{i}", "w", encoding="utf-8") as file:
                file.writelines(f"export {key}={shlex.quote(value)}\n" for key, value in environment.items())
                file.write(f"prefix='{' '.join(prefix)}'\nvariables='{' '.join(words)}'\n"
                           f"changes='{'; '.join(self._through_proxies(i) + self._own_store(i))}'\n")
        return script

    def _peer_port(self, member):
        return self.ports.base + PEER_OFFSET + member

    def _through_proxies(self, member):
        """Returns sed commands that replace the other members' addresses in the configuration by those of the proxies."""
        others = [other for other in self.everyone if other != member] if self.links else []
        return [f"s/^(server.{other}=[^:]*):{self._peer_port(other)}:/\\1:"
                f"{self.links.port(f'member{member}', f'member{other}')}:/" for other in others]

    def _own_store(self, member):
        return [f"s,/member[.]pem$,/member{member}.pem,",
                f"s/={SECURE_PORT}$/={self.ports.base + SECURE_OFFSET + member}/"] if self.tls_directory else []

    def start(self):
        settings = [word for line in self.settings for word in ("--set", line)]
        if self.network:
            settings += ["--addresses", ",".join(self.network.addresses[node] for node in self.nodes)]
        self.command("start", self.size, "--base-port", self.ports.base, *settings)
        for member in self.numbers():
            self._note_launch(member)
        if self.spare:
            self._prepare_spare()

    def _prepare_spare(self):
        """Makes the configuration of the spare member, and tells all members where it will be. Their logs know the
        addresses of all members from then on, so that they start with other lines than before."""
        self.command("new", self.spare)
        self._note_launch(self.spare)
        line = self.server_line(self.spare)
        for arguments in (("add", self.spare, line + ":observer"), ("remove", self.spare)):
            process = self.member_command(*arguments, seconds=START_SECONDS)
            said, _ = process.communicate()
            assert process.returncode == 0, said
        self.remove_data(self.spare)
        for member in self.numbers():
            with open(os.path.join(self.member_dir(member), "zoo.cfg"), "a", encoding="utf-8") as file:
                file.write(f"server.{self.spare}={line}\n")

    def replaced(self, member):
        """The spare member has taken the place of `member`, whose number is the spare one now."""
        self.members = sorted([self.spare, *(other for other in self.members if other != member)])
        self.spare = member

    def address(self, member):
        host = self.network.addresses[self.nodes[member - 1]] if self.network else harness.HOST
        return f"{host}:{self.ports.base + member}"

    def hosts(self):
        """Returns the ports for ZooKeeper clients of all members that there may be, as host:port,..."""
        return ",".join(self.address(member) for member in self.everyone)

    def secure_hosts(self):
        """Returns the ports with TLS for ZooKeeper clients, as host:port,..."""
        addresses = [self.address(member).rpartition(":") for member in self.everyone]
        return ",".join(f"{host}:{int(port) + SECURE_OFFSET}" for host, _, port in addresses)

    def ca_file(self):
        """Returns the certificates of the members' authorities; "" without TLS."""
        return os.path.join(self.tls_directory, "ca.pem") if self.tls_directory else ""

    # Processes

    def last_pid(self, member):
        """Returns the pid of the member's last process, which may have ended; 0 if there was none."""
        with contextlib.suppress(OSError, ValueError):
            with open(os.path.join(self.member_dir(member), "server.pid"), encoding="ascii") as file:
                return int(file.read())
        return 0

    def pid(self, member):
        """Returns the pid of the member's process; 0 if it does not run."""
        pid = self.last_pid(member)
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return pid if file.read() else 0
        return 0

    def _note_launch(self, member):
        pid = self.last_pid(member)
        if pid:
            self.launched.setdefault(pid, member)

    def _statuses(self):
        """Returns [(pid, status)] of all processes whose end is recorded (sandbox.enter)."""
        with contextlib.suppress(OSError):
            with open(self.exits, encoding="ascii") as file:
                return [tuple(map(int, line.split())) for line in file if line.count(" ") == 1]
        return []

    def end_of(self, member):
        """Returns how the member's last process ended, such as "signal 9"; UNKNOWN if that is not recorded (yet)."""
        pid = self.last_pid(member)
        return next((_words_of(status) for ended, status in reversed(self._statuses()) if ended == pid),
                    UNKNOWN)

    def wait_for_end(self, member, seconds):
        """Returns how the member's last process ended; waits until that is recorded. Returns "" if the process runs:
        it was about to become another program when it seemed to have ended."""
        deadline = time.monotonic() + seconds
        while not self.pid(member):
            how = self.end_of(member)
            if how != UNKNOWN or time.monotonic() > deadline:
                return how
            time.sleep(0.02)
        return ""

    def strange_ends(self):
        """Returns [(member, pid, how)] of all servers that ended in another way than by being told to, by being
        killed, or in order to be started again."""
        found, to_start = [], {i: self.log(i).count(ENDS_TO_START_AGAIN) for i in self.everyone}
        for pid, status in self._statuses():
            if (pid not in self.launched or status in ENDS[self.server]
                    or (status == -signal.SIGTERM and pid in self.ended_early)):
                continue
            member = self.launched[pid]
            if status == REMOVED_STATUS and member in self.asked_to_leave:
                continue
            if status == 1 and to_start.get(member, 0) > 0:
                to_start[member] -= 1
            else:
                found.append((member, pid, _words_of(status)))
        return found

    def is_to_start_again(self, member):
        """Returns whether the member has ended with the message that it has to be started again."""
        return ENDS_TO_START_AGAIN in harness.end_of(self.log(member), 2)

    def running(self):
        return [i for i in self.numbers() if self.pid(i)]

    def signal(self, member, number):
        """Sends a signal to the member. Returns whether the member was running."""
        pid = self.pid(member)
        if number == signal.SIGTERM and pid and not _listens(pid):
            self.ended_early.add(pid)
        with contextlib.suppress(ProcessLookupError):
            if pid:
                os.kill(pid, number)
                return True
        return False

    def kill(self, *members):
        """Kills the members at once: signals all of them before it waits for the end of any."""
        with contextlib.ExitStack() as stack:
            ends = {}  # a descriptor that becomes readable when the process ends, by member
            for member in members:
                pid = self.pid(member)
                if pid:
                    ends[member] = os.pidfd_open(pid)
                    stack.callback(os.close, ends[member])
            for descriptor in ends.values():
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            for member, descriptor in ends.items():
                if not select.select([descriptor], [], [], KILLED_SECONDS)[0]:
                    raise RuntimeError(f"member {member} survives SIGKILL")

    def remove_data(self, member):
        """Kills the member, and removes its data."""
        self.kill(member)
        directory = self.member_dir(member)
        for name in os.listdir(directory):
            if name in ("myid", "zoo.cfg") or name.startswith("server."):
                continue
            path = os.path.join(directory, name)
            with contextlib.suppress(NotADirectoryError):
                shutil.rmtree(path)
                continue
            os.unlink(path)

    def server_line(self, member):
        """Returns the value of the member's server.N line."""
        host = self.address(member).rpartition(":")[0]
        return f"{host}:{self._peer_port(member)}:{self.ports.base + SECURE_OFFSET + member}"

    def replacement_of(self, member):
        """Returns the arguments of the command that puts the spare member in the place of `member`."""
        return "replace", member, "--with", f"{self.spare}={self.server_line(self.spare)}"

    def member_command(self, *arguments, seconds=CHANGE_SECONDS):
        """Starts `quorate member`, which gives up after so many seconds. Returns its process, whose standard output and
        errors are in one text."""
        if arguments[0] in ("remove", "replace"):
            self.asked_to_leave.add(int(arguments[1]))
        servers = ",".join(f"unix:{self._grpc_socket(member)}" for member in self.everyone)
        command = [quorate_cli.PROGRAM, "--server", servers, "member", *map(str, arguments), "--timeout", str(seconds)]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)

    def _grpc_socket(self, member):
        return os.path.join(self.parent, f"grpc-{member}.sock")

    def launch(self, member):
        """Starts the member, if it does not run, without waiting until it serves. Raises if it cannot be started."""
        if not self.pid(member):
            try:
                self.command("launch", member)
            finally:
                self._note_launch(member)

    # State, as the members report it

    def ask(self, member, word):
        """Returns the answer to a four-letter word; "" if there is none."""
        if not self.pid(member):
            return ""
        try:
            return zk.four_letter(self.address(member), word, ANSWER_SECONDS)
        except (OSError, zk.Closed):
            return ""

    def monitor(self, member):
        """Returns the answer to mntr as {key without zk_: text}."""
        lines = (line.split("\t", 1) for line in self.ask(member, "mntr").splitlines() if "\t" in line)
        return {key.removeprefix("zk_"): value for key, value in lines}

    def states(self):
        """Returns {member: (mode, zxid)}; the mode is "" if the member does not report one."""
        def state(member):
            text = self.ask(member, "srvr")
            facts = dict(re.findall(r"^([A-Za-z ]+): (.+)$", text, re.MULTILINE))
            return facts.get("Mode", ""), int(facts.get("Zxid", "0x0"), 16)

        numbers = list(self.numbers())
        return dict(zip(numbers, self.pool.map(state, numbers)))

    def leader_now(self):
        """Returns the number of the leader, or None. If two members report that they lead (one has just been
        deposed), returns the one with the newer tree."""
        leading = [(zxid, i) for i, (mode, zxid) in self.states().items() if mode in LEADING]
        return max(leading)[1] if leading else None

    def wait_until_all_serve(self, seconds):
        """Waits until all members serve. Returns how long that took, in seconds; raises with their modes if it takes
        longer than `seconds`."""
        begin = time.monotonic()
        while True:
            modes = {i: mode or "silent" for i, (mode, _) in self.states().items()}
            if all(mode in SERVING for mode in modes.values()) and set(LEADING) & set(modes.values()):
                return time.monotonic() - begin
            if time.monotonic() > begin + seconds:
                raise AssertionError(f"{seconds} s after all faults were healed the members are {modes}")
            time.sleep(0.1)

    def has_caught_up(self, member, since):
        """Returns whether a member that was wiped when its log had `since` characters counts as a member again."""
        return "counts as a member again" in self.log(member)[since:]

    # Clocks

    def clock_file(self, member):
        return os.path.join(self.parent, f"clock-{member}")

    def set_clock(self, member, seconds):
        """Sets the member's wall clock off by so many seconds; that takes effect within two seconds."""
        path = self.clock_file(member)
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(f"{seconds:+.3f}\n")
        os.replace(path + ".new", path)

    def remove(self):
        super().remove()
        for disk in self.disks.values():
            disk.remove()


def _listens(pid):
    """Returns whether the process handles SIGTERM already, instead of being ended by it."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            masks = [int(line.split()[1], 16) for line in file if line.startswith(("SigBlk:", "SigCgt:"))]
        return any(mask >> (signal.SIGTERM - 1) & 1 for mask in masks)
    return False


def _words_of(status):
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def clock_environment(path):
    """Returns the environment of a process whose wall clock is off by the value in the file, which is read again each
    second."""
    return {"LD_PRELOAD": CLOCK_LIBRARY, "FAKETIME_TIMESTAMP_FILE": path, "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
