# SPDX-License-Identifier: Apache-2.0
"""Tests `quorate lock` and `quorate elect`: one holder at a time, exit status, signals, lost sessions, kills."""

import json
import os
import signal
import socket
import subprocess
import tempfile

import cli
import harness


def shared_the_status_is_that_of_the_command(cluster):
    where, path = cli.servers(cluster), cli.fresh("lock")
    assert cli.run(where, "lock", path, "--", "sh", "-c", "echo $QUORATE_PATH; exit 7").output == f"{path}\n"
    assert cli.run(where, "lock", path, "--", "sh", "-c", "exit 7").status == 7
    assert cli.run(where, "lock", path, "--", "true").status == 0
    assert cli.run(where, "lock", path, "--", "sh", "-c", "kill -9 $$").status == 137
    missing = cli.run(where, "lock", path, "--", "no-such-command-anywhere", status=127)
    assert "no-such-command-anywhere" in missing.errors, missing
    assert cli.run(where, "lock", path, "--", "/etc/passwd", status=126).errors
    assert cli.run(where, "lock", path, "--", "cat", typed="through\n", status=0).output == "through\n"
    # Options behind the command belong to the command, even if they look like those of quorate.
    assert cli.run(where, "lock", path, "--", "echo", "--json", "--", "-q", status=0).output == "--json -- -q\n"
    for wrong in (["lock"], ["lock", path], ["lock", "relative", "--", "true"],
                  ["lock", path, "--timeout", "x", "--", "true"]):
        assert cli.run(where, *wrong, status=2).errors


def shared_one_at_a_time(cluster):
    where, path = cli.servers(cluster), cli.fresh("turns")
    with tempfile.TemporaryDirectory() as directory:
        # mkdir fails if another command runs at the same time.
        command = f"mkdir {directory}/inside && echo $QUORATE_FENCING_TOKEN >>{directory}/tokens && rmdir {directory}/inside"
        runs = [cli.Running(where, "lock", path, "--", "sh", "-c", command) for _ in range(8)]
        try:
            assert [run.wait() for run in runs] == [0] * len(runs), [run.lines for run in runs]
        finally:
            for run in runs:
                run.__exit__()
        with open(f"{directory}/tokens", encoding="utf-8") as file:
            tokens = [int(line) for line in file]
    assert len(set(tokens)) == len(runs) and tokens == sorted(tokens), tokens


def shared_who_has_it_is_told(cluster):
    where, path = cli.servers(cluster), cli.fresh("taken")
    with cli.Running(where, "lock", path, "--", "sh", "-c", "echo has it; exec sleep 1000") as holder:
        holder.wait_line("has it")
        for timeout in ("0", "0.3"):
            outcome = cli.run(where, "lock", path, "--timeout", timeout, "--", "true", status=1)
            assert f"process {holder.process.pid}" in outcome.errors and path in outcome.errors, outcome
        # A waiter that is interrupted leaves no znode behind.
        with cli.Running(where, "lock", path, "--", "true") as waiter, \
                cli.Running(where, "watch", path, "--children") as watch:
            watch.wait_line("watching")
            _wait_for_line(where, path, 2)
            waiter.signal(signal.SIGINT)
            assert waiter.wait() == 130
            watch.wait_line("deleted")
        assert len(_line(where, path)) == 1
        assert holder.stop() == 143
        assert not _line(where, path)


def _line(where, path):
    """Returns the znodes of the contenders of a lock."""
    return json.loads(cli.run(where, "--json", "shell", "--", "ls", path, status=0).output)["children"]


def _wait_for_line(where, path, count):
    deadline = cli.Deadline()
    while len(_line(where, path)) < count:
        deadline.check(f"fewer than {count} wait for {path}")


def shared_signals_are_passed_on(cluster):
    where, path = cli.servers(cluster), cli.fresh("signals")
    script = "trap 'echo hup' HUP; trap 'echo usr1' USR1; trap 'echo term; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    with cli.Running(where, "lock", path, "--", "sh", "-c", script) as run:
        run.wait_line("ready")
        for number, word in ((signal.SIGHUP, "hup"), (signal.SIGUSR1, "usr1"), (signal.SIGTERM, "term")):
            run.signal(number)
            run.wait_line(word)
        assert run.wait() == 5
    # Processes that the command has started end with it.
    with cli.Running(where, "lock", path, "--", "sh", "-c", "sleep 1000 & echo pid $!; exit 3") as run:
        pid = int(run.wait_line("pid").split()[1])
        assert run.wait() == 3
        _wait_until_gone(pid)


def shared_signals_that_were_ignored_stay_so(cluster):
    where, path = cli.servers(cluster), cli.fresh("ignored")

    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with cli.Running(where, "lock", path, "--", "sh", "-c", "echo runs; exec sleep 1000") as holder:
        holder.wait_line("runs")
        with cli.Running(where, "lock", path, "--", "echo", "after", preexec_fn=ignore) as waits:
            _wait_for_line(where, path, 2)
            waits.signal(signal.SIGHUP)
            holder.stop()
            waits.wait_line("after")
            assert waits.wait() == 0


def shared_signals_are_heard_while_no_member_answers(_cluster):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        with cli.Running(where, "lock", "/a", "--session-timeout", "86400", "--", "true") as waits:
            silent.accept()[0].close()
            waits.signal(signal.SIGTERM)
            assert waits.wait() == 128 + signal.SIGTERM


def shared_nobody_has_to_read_what_is_said(cluster):
    where, path = cli.servers(cluster), cli.fresh("unread")
    read, write = os.pipe()
    try:
        os.set_blocking(write, False)
        while True:
            try:
                os.write(write, b"x" * 4096)
            except BlockingIOError:
                break
        os.set_blocking(write, True)
        command = ["lock", path, "--", "sh", "-c", "echo $$; exec sleep 1000"]
        with subprocess.Popen([cli.PROGRAM, "--server", where, *command], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=write) as process:
            try:
                pid = int(process.stdout.readline())
                cli.shell(where, "delete", f"{path}/{_line(where, path)[0]}")
                _wait_until_gone(pid)
            finally:
                process.kill()
    finally:
        os.close(read)
        os.close(write)


def _wait_until_gone(pid):
    def runs():
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                return file.read().rsplit(")", 1)[1].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):  # the process may end between opening and reading the file
            return False
    deadline = cli.Deadline()
    while runs():
        deadline.check(f"process {pid} still exists")


def shared_the_command_dies_with_its_lock_command(cluster):
    where, path = cli.servers(cluster), cli.fresh("dies")
    with cli.Running(where, "lock", path, "--session-timeout", 4, "--", "sh", "-c", "echo pid $$; exec sleep 1000") as run:
        pid = int(run.wait_line("pid").split()[1])
        run.signal(signal.SIGKILL)
        run.wait()
        _wait_until_gone(pid)
    # The session expires, and the next contender gets the lock.
    assert cli.run(where, "lock", path, "--", "true").status == 0


def shared_a_stolen_lock_ends_the_command(cluster):
    where, path = cli.servers(cluster), cli.fresh("stolen")
    script = "trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    with cli.Running(where, "lock", path, "--", "sh", "-c", script) as run:
        run.wait_line("ready")
        cli.shell(where, "delete", f"{path}/{_line(where, path)[0]}")
        run.wait_line("told")
        assert run.wait() == 1
        assert path in run.wait_line("was lost while the command ran")
    # A command that ignores SIGTERM is killed.
    with cli.Running(where, "lock", path, "--kill-after", "0.2", "--", "sh", "-c",
                     "trap '' TERM; echo ready; while :; do sleep 0.05; done") as run:
        run.wait_line("ready")
        cli.shell(where, "delete", f"{path}/{_line(where, path)[0]}")
        run.wait_line("killed")
        assert run.wait() == 1


def alone_no_member_serves(server):
    # The timeout that the servers grant is decisive.
    with harness.Cluster(server, settings=["maxSessionTimeout=4000"]) as cluster:
        where, path = cli.servers(cluster), cli.fresh("nobody")
        with cli.Running(where, "lock", path, "--session-timeout", "4000",
                         "--", "sh", "-c", "echo pid $$; exec sleep 1000") as run:
            pid = int(run.wait_line("pid").split()[1])
            for member in cluster.numbers():
                cluster.kill(member)
            run.wait_line("no member has served for 666 ms")
            _wait_until_gone(pid)
            assert run.wait() == 1


def alone_a_dying_member_does_not_disturb(server):
    with harness.Cluster(server) as cluster:
        where, path = cli.servers(cluster), cli.fresh("member")
        with cli.Running(where, "lock", path, "--", "sh", "-c",
                         "trap 'echo told; exit 9' TERM; echo ready; while :; do sleep 0.05; done") as run:
            run.wait_line("ready")
            for member in cluster.numbers():
                cluster.kill(member)
                cli.shell(where, "create", cli.fresh("alive"))
                cluster.restart(member)
            assert run.process.poll() is None and not any("told" in line for line in run.lines), run.lines
            assert run.stop() == 9


def shared_the_leader_runs_the_command(cluster):
    where, path = cli.servers(cluster), cli.fresh("elect")
    with tempfile.TemporaryDirectory() as directory:
        script = (f"mkdir {directory}/inside || exit 50; trap 'rmdir {directory}/inside; exit 0' TERM; "
                  "echo leads; while :; do sleep 0.05; done")
        arguments = ["elect", path, "--restart-after", "0.1", "--session-timeout", "4", "--", "sh", "-c", script]
        with cli.Running(where, *arguments) as one:
            one.wait_line("leads")
            with cli.Running(where, *arguments) as other:
                _wait_for_line(where, path, 2)
                assert not any("leads" in line for line in other.lines)
                assert one.stop() == 0
                other.wait_line("leads")
                # quorate is killed, and its command with it, without running its trap.
                with cli.Running(where, *arguments) as third:
                    _wait_for_line(where, path, 2)
                    other.signal(signal.SIGKILL)
                    other.wait()
                    os.rmdir(f"{directory}/inside")
                    third.wait_line("leads")
                    assert third.stop() == 0


def shared_a_command_that_ends_is_started_again(cluster):
    where, path = cli.servers(cluster), cli.fresh("again")
    arguments = ["elect", path, "--restart-after", "0.1", "--", "sh", "-c", "echo $QUORATE_FENCING_TOKEN runs; exit 3"]
    with cli.Running(where, *arguments) as one:
        one.wait_line("ended with status 3", 3)
        tokens = [int(line.split()[0]) for line in one.lines if line.endswith(" runs")]
        assert tokens == sorted(set(tokens)), tokens
        with cli.Running(where, *arguments) as other:
            other.wait_line(" runs")  # the other candidate has led, too
            one.wait_line(" runs", len([line for line in one.lines if line.endswith(" runs")]) + 1)
            other.signal(signal.SIGINT)
            assert other.wait() in (3, 130)
        one.signal(signal.SIGTERM)
        assert one.wait() in (3, 143)


def alone_a_leader_that_was_stopped_is_no_leader(server):
    with harness.Cluster(server) as cluster:
        where, path = cli.servers(cluster), cli.fresh("stopped")
        arguments = ["elect", path, "--restart-after", "0.1", "--session-timeout", "4", "--", "sh", "-c",
                     "trap 'echo told; exit 0' TERM; echo leads; while :; do sleep 0.05; done"]
        with cli.Running(where, *arguments) as one, cli.Running(where, *arguments) as other:
            leader, waiter = (one, other) if _first_with((one, other), "leads") is one else (other, one)
            leader.signal(signal.SIGSTOP)
            waiter.wait_line("leads")
            leader.signal(signal.SIGCONT)
            leader.wait_line("told")
            assert waiter.stop() == 0
            leader.wait_line("leads", 2)  # with a new session
            assert leader.stop() == 0


def _first_with(runs, text):
    deadline = cli.Deadline()
    while True:
        for run in runs:
            if any(text in line for line in list(run.lines)):
                return run
        deadline.check(f"no process printed {text}")
