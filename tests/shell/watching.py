# SPDX-License-Identifier: Apache-2.0
"""Tests `quorate watch`: lines, JSON, --exec, members that die, lost sessions."""

import json
import os
import signal
import tempfile

import cli
import harness


def shared_changes_are_printed(cluster):
    where, path = cli.servers(cluster), cli.fresh("watched")
    with cli.Running(where, "watch", path) as one, cli.Running(where, "watch", path, "--children") as children, \
            cli.Running(where, "watch", path, "--recursive", "--json") as subtree:
        for watch in (one, children, subtree):
            watch.wait_line("watching")
        cli.shell(where, typed=f"create {path}\ncreate {path}/a\ncreate {path}/a/b\nset {path}/a/b x\n"
                  f"set {path} x\ndelete {path}/a/b\ndeleteall {path}\n")
        for watch in (one, children, subtree):
            watch.wait_line("deleted", {one: 1, children: 2, subtree: 3}[watch])
            assert watch.stop() == 0
        what = [f"{kind} {path}" for kind in ("created", "changed", "deleted")]
        assert [line.split()[0] + " " + line.split()[2] for line in one.lines[1:]] == what, one.lines
        zxids = [int(line.split()[1], 16) for line in one.lines[1:]]
        assert zxids == sorted(set(zxids)), zxids
        assert [line.split()[0] + " " + line.split()[2] for line in children.lines[1:]] == [
            f"created {path}", f"created {path}/a", f"changed {path}", f"deleted {path}/a", f"deleted {path}"]
        events = [json.loads(line) for line in subtree.lines[1:]]
        assert [(e["event"], e["path"]) for e in events] == [
            ("created", path), ("created", path + "/a"), ("created", path + "/a/b"), ("changed", path + "/a/b"),
            ("changed", path), ("deleted", path + "/a/b"), ("deleted", path + "/a"), ("deleted", path)], events
        assert events[0]["zxid"] == hex(zxids[0])


def shared_an_earlier_watch_goes_on(cluster):
    where, path = cli.servers(cluster), cli.fresh("goes-on")
    with cli.Running(where, "watch", path, "--count", 1) as watch:
        watch.wait_line("watching")
        cli.shell(where, "create", path)
        assert watch.wait() == 0
        zxid = watch.wait_line("created").split()[1]
    cli.shell(where, "set", path, "missed")
    outcome = cli.run(where, "watch", path, "--after", zxid, "--count", 1, status=0)
    assert outcome.output.startswith("changed 0x") and outcome.output.count("\n") == 1, outcome
    cli.run(where, "watch", path, "--after", "x", status=2)
    cli.run(where, "watch", "relative", status=2)
    cli.run(where, "watch", path, "--children", "--recursive", status=2)


def shared_a_command_is_run_for_each_change(cluster):
    where, path = cli.servers(cluster), cli.fresh("exec")
    with tempfile.TemporaryDirectory() as directory:
        file = os.path.join(directory, "out")
        command = f"echo $QUORATE_EVENT $QUORATE_PATH $QUORATE_ZXID >>{file}; [ $QUORATE_EVENT != changed ]"
        with cli.Running(where, "watch", path, "--exec", command, "--count", "3") as watch:
            watch.wait_line("watching")
            cli.shell(where, typed=f"create {path}\nset {path} x\ndelete {path}\n")
            assert watch.wait() == 0
            watch.wait_line(f"--exec ended with status 1 for changed {path}")
        with open(file, encoding="utf-8") as lines:
            found = [line.split() for line in lines]
    assert [line[:2] for line in found] == [["created", path], ["changed", path], ["deleted", path]], found


def shared_a_signal_ends_it_with_its_command(cluster):
    where, path = cli.servers(cluster), cli.fresh("ends")
    with cli.Running(where, "watch", path, "--exec", "echo runs; exec sleep 1000") as watch:
        watch.wait_line("watching")
        cli.shell(where, "create", path)
        watch.wait_line("runs")
        watch.signal(signal.SIGINT)
        assert watch.wait() == 0


def alone_nothing_is_missed_when_members_die(server):
    with harness.Cluster(server) as cluster:
        where, path = cli.servers(cluster), cli.fresh("members")
        with cli.Running(where, "watch", path, "--recursive") as watch:
            watch.wait_line("watching")
            cli.shell(where, "create", path)
            for member in cluster.numbers():
                cluster.kill(member)
                cli.shell(where, "create", f"{path}/{member}")
                cluster.restart(member)
            # Kills all members at once; the session survives in the log.
            for member in cluster.numbers():
                cluster.kill(member)
            watch.wait_line("no member serves")
            cluster.command("start")
            watch.wait_line("reconnected to")
            cli.shell(where, "create", f"{path}/last")
            watch.wait_line(f"{path}/last")
            assert watch.stop() == 0
            events = [line for line in watch.lines if " 0x" in line]
            assert [line.split()[2] for line in events] == [path] + [f"{path}/{i}" for i in (1, 2, 3, "last")], (
                watch.lines)


def alone_a_lost_session_is_replaced(server):
    # A watch that is stopped for longer than its session timeout begins another session, and prints the events that it
    # missed.
    with harness.Cluster(server, settings=["maxSessionTimeout=4000"]) as cluster:
        where, path = cli.servers(cluster), cli.fresh("replaced")
        with cli.Running(where, "watch", path) as watch:
            watch.wait_line("watching")
            watch.signal(signal.SIGSTOP)
            _wait_for_expiry(where)
            # No session receives this event: the old one has ended, and the next one has not begun.
            cli.shell(where, "create", path)
            watch.signal(signal.SIGCONT)
            watch.wait_line("created")
            cli.shell(where, "set", path, "x")
            watch.wait_line("changed")
            assert watch.stop() == 0


def _wait_for_expiry(where):
    """Waits until a session that begins now has expired. Then all sessions that were silent since then have expired."""
    path = cli.fresh("expiry")
    with cli.Running(where, "watch", path, "--count", 2) as watch:
        watch.wait_line("watching")
        with cli.Running(where, "shell", typed=True) as shell:
            shell.process.stdin.write(f"create -e {path}\n")
            shell.process.stdin.flush()
            shell.wait_line("Created")
        watch.wait_line("deleted")
        assert watch.wait() == 0
