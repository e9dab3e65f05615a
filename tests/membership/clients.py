# SPDX-License-Identifier: Apache-2.0
"""Tests ZooKeeper's reconfig by ZooKeeper's Java and C clients and by Curator. Their programs are in tests/interop."""

import contextlib
import os
import subprocess
import threading

import harness
from changes import members
from reconfig import ENABLED, PATIENCE_SECONDS, SUPER, jvm, joining, servers_outside
from writer import Writer

SOURCES = os.path.join(harness.ROOT, "tests/interop/curator")
C_PROGRAM = os.path.join(os.environ.get("QUORATE_BIN", os.path.join(harness.ROOT, ".bazel/opt-bin")),
                         "tests/interop/mt_reconfig")
PROGRAM_SECONDS = 3 * PATIENCE_SECONDS


def _hosts(cluster, *numbers):
    return ",".join(cluster.address(i) for i in numbers)


def _java(cluster, main_class):
    classes = os.path.join(cluster.parent, "classes")
    jvm.compile_sources(SOURCES, jvm.CURATOR, classes)
    return jvm.command(main_class, jvm.CURATOR, classes)


@contextlib.contextmanager
def _three_members_and_two_servers_outside():
    with harness.Cluster(size_max=5, settings=ENABLED) as cluster, servers_outside(cluster, 4, 5):
        yield cluster


def _moves(program):
    """Lets a program move a cluster from the members 1 to 3 to 4 and 5. Arguments of `program`: the cluster; result: the
    words of its command line. The program gets HOSTS NEW_HOSTS CREDENTIALS JOINING LEAVING behind them."""
    with _three_members_and_two_servers_outside() as cluster:
        words = [*program(cluster), cluster.hosts(), _hosts(cluster, 4, 5), SUPER, joining(cluster, 4, 5), "1,2,3"]
        status, output = harness.run_in_group(words, PROGRAM_SECONDS, cluster.parent)
        assert status == 0, f"{status}:\n{output}"
        assert "members changed by " in output, output
        cluster.members = [4, 5]
        assert sorted(members(cluster)) == [4, 5]
        with Writer(cluster, 4, "/after") as writer:
            writer.wait_for_more()
        return output.strip().splitlines()[-1]


def test_zookeeperadmin_of_java_moves_a_cluster_and_its_session_to_members_4_and_5():
    return _moves(lambda cluster: _java(cluster, "Admin"))


def test_the_c_library_moves_a_cluster_and_its_session_to_members_4_and_5():
    if not os.access(C_PROGRAM, os.X_OK):
        raise AssertionError(f"{C_PROGRAM} is missing: bazel build --config=opt //tests/interop:all")
    return _moves(lambda cluster: [C_PROGRAM])


def test_curator_changes_the_members_and_its_clients_follow_them_when_the_first_three_are_gone():
    with _three_members_and_two_servers_outside() as cluster:
        # The lines of the members 1 to 3 are given again, with the addresses for clients, which the tracker needs.
        program = subprocess.Popen(
            [*_java(cluster, "Ensemble"), cluster.hosts(), _hosts(cluster, 1, 2, 3, 4, 5), _hosts(cluster, 4, 5), SUPER,
             joining(cluster, 1, 2, 3, 4, 5), "1,2,3"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cluster.parent)
        with program:
            # Curator tries for ever, so that a change which cannot succeed would not end.
            timer = threading.Timer(PROGRAM_SECONDS, program.kill)
            timer.start()
            try:
                said = ""
                for line in program.stdout:  # with notes of the Java machine, perhaps
                    said += line
                    if line == "shrunk\n":
                        cluster.kill_all()
                        program.stdin.write("\n")
                        program.stdin.flush()
                        break
                said += program.communicate(timeout=PROGRAM_SECONDS)[0]
            finally:
                timer.cancel()
                program.kill()
        assert program.returncode == 0, f"exit status {program.returncode}:\n{harness.end_of(said)}"
        cluster.members = [4, 5]
        assert sorted(members(cluster)) == [4, 5]
        return said.strip().splitlines()[-1]
