# SPDX-License-Identifier: Apache-2.0
"""The scripts that run in pods of Kubernetes. Each "pod" is a process that start.sh becomes, with an address of its own on
the loopback interface, so that all have the same ports, as pods do."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request

import administration
import harness
import zkwire as zk

SCRIPTS = os.path.join(harness.ROOT, "deploy/kubernetes/scripts")
QUORATE = os.path.join(harness.ROOT, ".bazel/opt-bin/tools/quorate")
HOSTS = "127.77.7.%d"
SECONDS = 90


class Pods:
    """A StatefulSet with its volumes. Use as a context manager."""

    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="quorate-pods-")
        self.path = self.temporary.name
        self.ports = harness.Reservation(4)
        self.processes = {}
        self.tls = ""
        self.initial_members = 3
        self.hosts = HOSTS
        self.prefix = {}  # by ordinals: the words before a command that runs in a pod
        os.mkdir(f"{self.path}/secrets", 0o700)
        for name in ("administrator-token", "member-secret"):
            with open(f"{self.path}/secrets/{name}", "w", encoding="utf-8") as file:
                file.write(f"a secret for the {name}\n".replace(" ", "-"))
            os.chmod(f"{self.path}/secrets/{name}", 0o440)  # as a volume of Kubernetes has them

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.ports.release()
        self.temporary.cleanup()

    def environment(self, ordinal, **variables):
        base = self.ports.base
        for kind in ("conf", "data"):
            os.makedirs(f"{self.path}/{ordinal}/{kind}", 0o700, exist_ok=True)
        values = {"QUORATED": harness.SERVERS["quorate"], "QUORATE": QUORATE, "POD_NAME": f"quorate-{ordinal}",
                  "POD_INITIAL_MEMBERS": str(self.initial_members), "POD_REPLICAS_FILE": f"{self.path}/replicas",
                  "POD_HOSTS": self.hosts, "POD_TLS": self.tls,
                  "POD_SECRETS": f"{self.path}/secrets", "POD_DATA": f"{self.path}/{ordinal}/data",
                  "POD_CONF": f"{self.path}/{ordinal}/conf", "POD_LISTEN": self.hosts % ordinal,
                  "POD_LISTEN_FOR_MEMBERS_ON_ALL": "false", "POD_CLIENT_PORT": str(base + 1), "POD_GRPC_PORT": str(base + 2),
                  "POD_HTTP_PORT": str(base + 3), "POD_PEER_PORT": str(base + 4), "POD_ELECTION_PORT": str(base + 101),
                  "POD_TLS_PORT": str(base + 102)}
        return {**os.environ, **values, **variables}

    def set_replicas(self, count):
        """Says how many pods there shall be, as the chart's ConfigMap does."""
        with open(f"{self.path}/replicas", "w", encoding="utf-8") as file:
            file.write(str(count))

    def start(self, ordinal):
        environment = self.environment(ordinal)
        with open(f"{self.path}/{ordinal}/log", "a", encoding="utf-8") as log:
            self.processes[ordinal] = subprocess.Popen([*self.prefix.get(ordinal, ()), f"{SCRIPTS}/start.sh"], env=environment,
                                                       stdout=log, stderr=subprocess.STDOUT)

    def stop(self, ordinal):
        """Stops a pod as Kubernetes does, by SIGTERM. Returns the exit status."""
        process = self.processes.pop(ordinal)
        process.send_signal(signal.SIGTERM)
        return process.wait(timeout=30)

    def lose_volume(self, ordinal):
        """Ends a pod with its machine and its data."""
        process = self.processes.pop(ordinal)
        process.kill()
        process.wait()
        shutil.rmtree(f"{self.path}/{ordinal}")

    def server_lines(self, ordinal):
        """Returns the numbers in the server.N lines."""
        with open(f"{self.path}/{ordinal}/conf/zoo.cfg", encoding="utf-8") as file:
            return [int(line.split("=")[0].removeprefix("server.")) for line in file if line.startswith("server.")]

    def log(self, ordinal):
        with open(f"{self.path}/{ordinal}/log", encoding="utf-8") as file:
            return file.read()

    def script(self, name, *arguments, ordinal=0, status=0, **variables):
        """Runs a script in a pod. Returns both outputs."""
        result = subprocess.run([*self.prefix.get(ordinal, ()), f"{SCRIPTS}/{name}", *map(str, arguments)],
                                env=self.environment(ordinal, **variables), capture_output=True, text=True, timeout=SECONDS,
                                check=False)
        assert result.returncode == status, f"{result.stdout}{result.stderr}\n" + "\n".join(
            harness.end_of(self.log(i), 10) for i in self.processes)
        return result.stdout + result.stderr

    def members(self, *arguments, ordinal=0):
        """Runs members.sh in a pod. Returns the line with the members."""
        output = self.script("members.sh", *arguments, ordinal=ordinal)
        return next(line for line in output.splitlines() if line.startswith("members: "))

    def probe(self, ordinal, path):
        """Returns the status of a probe; 0 without an answer."""
        try:
            with urllib.request.urlopen(f"http://{self.hosts % ordinal}:{self.ports.base + 3}{path}", timeout=2) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def await_ready(self, *ordinals):
        for ordinal in ordinals:
            def ready(ordinal=ordinal):
                assert self.processes[ordinal].poll() is None, harness.end_of(self.log(ordinal))
                return self.probe(ordinal, "/health/ready") == 200
            try:
                harness.wait_for(f"pod {ordinal} is ready", ready, SECONDS)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{harness.end_of(self.log(ordinal))}") from error

    def connect(self, ordinal):
        return zk.Connection(f"{self.hosts % ordinal}:{self.ports.base + 1}")

    def make_leader(self, ordinal):
        with open(f"{self.path}/secrets/administrator-token", encoding="utf-8") as file:
            token = file.read().strip()

        def leads():
            leader = self.leader()
            if leader not in (None, ordinal):
                administration.transfer_leadership(f"{self.hosts % leader}:{self.ports.base + 2}", ordinal + 1, token)
            return leader == ordinal
        harness.wait_for(f"pod {ordinal} leads", leads, SECONDS)

    def leader(self):
        """Returns the ordinal of the leader."""
        found = [i for i in self.processes if "Mode: leader" in zk.four_letter(f"{self.hosts % i}:{self.ports.base + 1}", "srvr")]
        return found[0] if found else None


def a_cluster_grows_and_shrinks_while_its_data_stays():
    with Pods() as pods:
        for ordinal in range(3):
            pods.start(ordinal)
        pods.await_ready(0, 1, 2)
        with pods.connect(1) as connection:
            connection.create("/kept", b"data")
        for ordinal in (3, 4):
            pods.start(ordinal)
        harness.wait_for("the new pods answer probes", lambda: pods.probe(4, "/health/live") == 200, SECONDS)
        assert pods.probe(4, "/health/ready") == 503, "a pod that is no member is ready"
        assert (members := pods.members(5)) == "members: 1 2 3 4 5", members
        pods.await_ready(3, 4)
        with pods.connect(4) as connection:
            assert connection.get("/kept")[0] == b"data"
        # A pod that starts again has the same lines as before, although there are more members now.
        assert pods.stop(1) == 0
        pods.start(1)
        pods.await_ready(1)
        assert (members := pods.members(3, "--remove", ordinal=1)) == "members: 1 2 3", members
        assert (members := pods.members(3, ordinal=4)) == "members: 1 2 3", members  # run twice
        for ordinal in (4, 3):
            pods.stop(ordinal)
        pods.await_ready(0, 1, 2)
        with pods.connect(0) as connection:
            assert connection.get("/kept")[0] == b"data"


def a_pod_that_stops_waits_for_the_others_and_hands_its_leadership_over():
    with Pods() as pods:
        for ordinal in range(3):
            pods.start(ordinal)
        pods.await_ready(0, 1, 2)
        leader = pods.leader()
        assert "Safe: " in pods.script("prestop.sh", ordinal=leader)
        assert pods.stop(leader) == 0
        harness.wait_for("another pod leads", lambda: pods.leader() is not None, SECONDS)
        assert "hand" in pods.log(leader), harness.end_of(pods.log(leader))
        # Two of three are left: now it is not safe, and the wait ends all the same.
        other = pods.leader()
        assert "although it is not safe" in pods.script("prestop.sh", ordinal=other, POD_STOP_SECONDS="1")
        pods.start(leader)
        pods.await_ready(leader)
        assert "Safe: " in pods.script("prestop.sh", ordinal=other)


def a_pod_with_an_empty_volume_is_filled_by_the_others():
    with Pods() as pods:
        for ordinal in range(3):
            pods.start(ordinal)
        pods.await_ready(0, 1, 2)
        with pods.connect(0) as connection:
            connection.create("/kept", b"data")
        pods.lose_volume(1)
        pods.start(1)
        pods.await_ready(1)
        with pods.connect(1) as connection:
            connection.sync("/")
            assert connection.get("/kept")[0] == b"data"


def _grown_to_five(pods):
    for ordinal in range(5):
        pods.start(ordinal)
    pods.await_ready(0, 1, 2)
    with pods.connect(0) as connection:
        connection.create("/kept", b"data")
    assert (members := pods.members(5)) == "members: 1 2 3 4 5", members
    pods.await_ready(3, 4)


def a_first_pod_with_an_empty_volume_is_filled_by_a_leader_that_came_later():
    with Pods() as pods:
        _grown_to_five(pods)
        pods.make_leader(4)
        pods.lose_volume(1)
        pods.start(1)
        pods.await_ready(1)
        assert pods.leader() == 4, pods.leader()
        with pods.connect(1) as connection:
            connection.sync("/")
            assert connection.get("/kept")[0] == b"data"
        # It starts again with the same lines, whoever answers.
        pods.stop(1)
        pods.start(1)
        pods.await_ready(1)
        assert pods.server_lines(1) == [1, 2, 3, 4, 5], pods.server_lines(1)


def the_first_pods_found_no_second_cluster_when_all_their_volumes_are_lost():
    with Pods() as pods:
        _grown_to_five(pods)
        for ordinal in range(3):
            pods.lose_volume(ordinal)
        for ordinal in range(3):
            pods.start(ordinal)
        for ordinal in range(3):
            harness.wait_for(f"pod {ordinal} runs", lambda ordinal=ordinal: pods.probe(ordinal, "/health/live") == 200, SECONDS)
            assert pods.server_lines(ordinal) == [1, 2, 3, 4, 5], pods.server_lines(ordinal)
        # The leader takes a moment to notice that it has lost its followers.
        harness.wait_for("no pod is ready", lambda: [pods.probe(ordinal, "/health/ready") for ordinal in range(5)] == [503] * 5,
                         SECONDS)


def the_answer_of_the_newest_leader_counts():
    """With a program in place of `quorate` that gives each pod's answer."""
    def answer(term, from_leader, *members):
        return json.dumps({"from_leader": from_leader, "leader": 0, "term": term, "changing": False, "members": [
            {"id": number, "role": role, "peer": "a:1", "problem": 'says "id": 9,'} for number, role in members]}, indent=2)

    with Pods() as pods:
        answers = {1: answer(0, False, *((number, "unknown") for number in range(1, 9))),  # waits to be admitted
                   2: answer(5, False, (1, "unknown"), (3, "follower"), (8, "unknown")),
                   3: answer(5, True, (1, "follower"), (4, "leader"), (6, "observer"), (7, "follower")),
                   4: answer(4, True, (1, "follower"), (5, "leader"))}
        for ordinal, text in answers.items():
            with open(f"{pods.path}/{HOSTS % ordinal}", "w", encoding="utf-8") as file:
                file.write(text)
        with open(f"{pods.path}/quorate", "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\ncat "{pods.path}/${{2%:*}}"\n')
        os.chmod(f"{pods.path}/quorate", 0o700)
        pods.script("start.sh", QUORATED="/bin/true", QUORATE=f"{pods.path}/quorate")
        with open(f"{pods.path}/0/conf/zoo.cfg", encoding="utf-8") as file:
            lines = dict(line.strip().split("=") for line in file if line.startswith("server."))
        assert list(lines) == ["server.1", "server.4", "server.6", "server.7"], lines
        observer, other = (f"{HOSTS % i}:{pods.ports.base + 4}:{pods.ports.base + 101}" for i in (5, 6))
        client = f";{HOSTS % 0}:{pods.ports.base + 1}"
        assert lines["server.6"] == f"{observer}:observer{client}" and lines["server.7"] == other + client, lines


def a_cluster_shrinks_below_its_first_members_and_grows_again():
    with Pods() as pods:
        for ordinal in range(3):
            pods.start(ordinal)
        pods.await_ready(0, 1, 2)
        assert (members := pods.members(1)) == "members: 1", members
        pods.await_ready(0)
        assert "nothing to wait for" in pods.script("prestop.sh", ordinal=2)
        for ordinal in (1, 2):
            pods.lose_volume(ordinal)
            pods.start(ordinal)
        harness.wait_for("the pods answer probes", lambda: pods.probe(2, "/health/live") == pods.probe(1, "/health/live") == 200,
                         SECONDS)
        assert (members := pods.members(3)) == "members: 1 2 3", members
        pods.await_ready(0, 1, 2)


def a_cluster_of_one_grows_to_three_and_shrinks_to_one():
    with Pods() as pods:
        pods.initial_members = 1
        pods.set_replicas(1)
        pods.start(0)
        pods.await_ready(0)
        assert "this is the only member" in pods.script("prestop.sh")
        with pods.connect(0) as connection:
            connection.create("/kept", b"data")
        pods.set_replicas(3)
        for ordinal in (1, 2):
            pods.start(ordinal)
        assert (members := pods.members(3)) == "members: 1 2 3", members
        pods.await_ready(0, 1, 2)
        assert "Safe: " in pods.script("prestop.sh", ordinal=0)
        # The first pod, too, is filled by the others when it has lost its data.
        pods.make_leader(1)
        pods.lose_volume(0)
        pods.start(0)
        pods.await_ready(0)
        assert pods.server_lines(0) == [1, 2, 3], pods.server_lines(0)
        with pods.connect(0) as connection:
            connection.sync("/")
            assert connection.get("/kept")[0] == b"data"
        assert (members := pods.members(1, "--remove")) == "members: 1", members
        for ordinal in (2, 1):
            pods.stop(ordinal)
        pods.set_replicas(1)
        assert pods.stop(0) == 0
        pods.start(0)
        pods.await_ready(0)
        with pods.connect(0) as connection:
            assert connection.get("/kept")[0] == b"data"


def the_only_first_pod_begins_no_second_cluster_beside_others():
    with Pods() as pods:
        pods.initial_members = 1
        pods.set_replicas(1)
        pods.start(0)
        pods.await_ready(0)
        with pods.connect(0) as connection:
            connection.create("/kept", b"data")
        pods.set_replicas(3)
        for ordinal in (1, 2):
            pods.start(ordinal)
        assert (members := pods.members(3)) == "members: 1 2 3", members
        pods.await_ready(1, 2)
        # All pods stop, the first one loses its volume, and starts before the others.
        for ordinal in (2, 1):
            pods.stop(ordinal)
        pods.lose_volume(0)
        pods.start(0)
        harness.wait_for("the first pod waits", lambda: "waits for a pod that has the cluster" in pods.log(0), SECONDS)
        assert pods.processes[0].poll() is None and not os.path.exists(f"{pods.path}/0/data/zoo.cfg.members")
        for ordinal in (1, 2):
            pods.start(ordinal)
        pods.await_ready(0, 1, 2)
        with pods.connect(0) as connection:
            connection.sync("/")
            assert connection.get("/kept")[0] == b"data"


def a_pod_that_waits_for_the_cluster_stops_at_once():
    with Pods() as pods:
        pods.initial_members = 1
        pods.start(0)  # without a file that tells how many pods there shall be
        harness.wait_for("the first pod waits", lambda: "waits for a pod that has the cluster" in pods.log(0), SECONDS)
        assert pods.stop(0) == 0


def an_empty_number_is_written_again():
    with Pods() as pods:
        os.makedirs(f"{pods.path}/0/data")
        for content in ("", "1\n"):
            with open(f"{pods.path}/0/data/myid", "w", encoding="utf-8") as file:
                file.write(content)
            pods.script("start.sh", QUORATED="/bin/true")
            with open(f"{pods.path}/0/data/myid", encoding="utf-8") as file:
                assert file.read() == "1\n"
            assert sorted(os.listdir(f"{pods.path}/0/data")) == ["myid", "zoo.cfg.members"]


def data_of_a_version_that_kept_no_members_has_the_lines_it_began_with():
    for ordinal, expected in ((1, [1, 2, 3]), (4, [1, 2, 3, 4, 5])):
        with Pods() as pods:
            os.makedirs(f"{pods.path}/{ordinal}/data/log")
            pods.script("start.sh", ordinal=ordinal, QUORATED="/bin/true")
            assert pods.server_lines(ordinal) == expected, pods.server_lines(ordinal)


def pods_with_tls_take_what_cert_manager_makes():
    with Pods() as pods:
        pods.tls = f"{pods.path}/tls"
        os.mkdir(pods.tls)
        # One certificate for all pods.
        names = ",".join(["quorate", *(HOSTS % i for i in range(3))])
        made = subprocess.run([QUORATE, "certs", "create", f"{pods.path}/certs", names], capture_output=True, text=True,
                              check=False)
        assert made.returncode == 0, made.stderr
        with open(f"{pods.path}/certs/quorate.pem", encoding="utf-8") as file:
            text = file.read()
        key_at = text.index("-----BEGIN PRIVATE KEY")
        key_end = text.index("-----END PRIVATE KEY-----") + len("-----END PRIVATE KEY-----\n")
        with open(f"{pods.path}/certs/ca.pem", encoding="utf-8") as file:
            authority = file.read()
        certificate = text[:key_at] + text[key_end:]
        for name, content in (("tls.key", text[key_at:key_end]), ("tls.crt", certificate), ("ca.crt", authority)):
            with open(f"{pods.tls}/{name}", "w", encoding="utf-8") as file:
                file.write(content)
            os.chmod(f"{pods.tls}/{name}", 0o640)
        for ordinal in range(3):
            pods.start(ordinal)
        pods.await_ready(0, 1, 2)
        assert (members := pods.members(3)) == "members: 1 2 3", members
        assert "Safe: " in pods.script("prestop.sh", ordinal=2)
        with open(f"{pods.path}/0/conf/zoo.cfg", encoding="utf-8") as file:
            assert "\nclientPort=" not in file.read(), "clients are served without TLS"


def wrong_variables_are_named():
    with Pods() as pods:
        assert "the number of members is missing" in pods.script("members.sh", status=1)
        assert "is no number of members" in pods.script("start.sh", status=1, POD_INITIAL_MEMBERS="many")
        os.makedirs(f"{pods.path}/1/data")
        with open(f"{pods.path}/1/data/myid", "w", encoding="utf-8") as file:
            file.write("1\n")
        assert "is that of member 1, and this pod has member 2" in pods.script("start.sh", ordinal=1, status=1)


TESTS = (a_cluster_grows_and_shrinks_while_its_data_stays, a_pod_that_stops_waits_for_the_others_and_hands_its_leadership_over,
         a_pod_with_an_empty_volume_is_filled_by_the_others,
         a_first_pod_with_an_empty_volume_is_filled_by_a_leader_that_came_later,
         the_first_pods_found_no_second_cluster_when_all_their_volumes_are_lost,
         the_answer_of_the_newest_leader_counts,
         a_cluster_shrinks_below_its_first_members_and_grows_again, a_cluster_of_one_grows_to_three_and_shrinks_to_one,
         the_only_first_pod_begins_no_second_cluster_beside_others, a_pod_that_waits_for_the_cluster_stops_at_once,
         an_empty_number_is_written_again, data_of_a_version_that_kept_no_members_has_the_lines_it_began_with,
         pods_with_tls_take_what_cert_manager_makes,
         wrong_variables_are_named)


def run(runner):
    for test in TESTS:
        runner.run(f"deploy pods: {test.__name__.replace('_', ' ')}", test)
