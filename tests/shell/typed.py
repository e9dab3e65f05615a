# SPDX-License-Identifier: Apache-2.0
"""Tests `quorate shell` at a pseudo-terminal: editing, history, completion, events above the line."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import tempfile
import termios
import time

import cli
import harness

TAB, UP, END, INTERRUPT = "\t", "\x1b[A", "\x04", "\x03"
# Control sequences of the terminal: cursor moves and colours.
SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x07")


class Terminal:
    """A `quorate` at a terminal of its own, with a home directory."""

    def __init__(self, where, home, arguments=("shell",)):
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
            os.environ.update(HOME=home, TERM="xterm", LC_ALL="C.UTF-8")
            os.execv(cli.PROGRAM, [cli.PROGRAM, "--server", where, *arguments])
        self.text, self.seen, self.status = "", 0, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.file)

    def type(self, keys):
        os.write(self.file, keys.encode())

    def _read(self, deadline):
        """Reads more text. Returns False at the end of the output."""
        left = deadline - time.monotonic()
        assert left > 0 and select.select([self.file], [], [], left)[0], f"no output in time: {self.text!r}"
        try:
            data = os.read(self.file, 65536)
        except OSError:
            return False
        self.text += SEQUENCES.sub("", data.decode(errors="replace"))
        return bool(data)

    def wait(self, text):
        """Waits for `text` behind the text of the previous wait. Returns everything up to it."""
        deadline = time.monotonic() + cli.SECONDS
        while (at := self.text.find(text, self.seen)) < 0:
            assert self._read(deadline), f"the program ended: {self.text!r}"
        before, self.seen = self.text[self.seen:at], at + len(text)
        return before

    def wait_prompt(self):
        prompt = self.wait(") ") + self.wait("] ")
        # From here on the editor reads single keys, without line editing by the terminal.
        assert not termios.tcgetattr(self.file)[3] & termios.ICANON, f"a prompt, but lines are edited by the terminal: {prompt!r}"
        return prompt

    def wait_end(self):
        deadline = time.monotonic() + cli.SECONDS
        while self._read(deadline):
            pass
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status


def _home():
    return tempfile.TemporaryDirectory(prefix="quorate-home-")


def shared_lines_are_answered(cluster):
    path = cli.fresh("typed")
    with _home() as home, Terminal(cli.servers(cluster), home) as terminal:
        assert "CONNECTED" in terminal.wait_prompt()
        terminal.type(f"create {path} 'a b'\n")
        terminal.wait(f"Created {path}")
        terminal.wait_prompt()
        terminal.type(f"get {path}\n")
        terminal.wait("\na b\r\n")
        terminal.wait_prompt()
        terminal.type(END)
        assert terminal.wait_end() == 0


def shared_tab_completes_commands_and_paths(cluster):
    where, path = cli.servers(cluster), cli.fresh("tab")
    cli.shell(where, typed=f"create {path}\ncreate {path}/alpha\ncreate {path}/alphabet\n"
              f"create '{path}/with space'\ncreate {path}/alpha/below x\n")
    with _home() as home, Terminal(where, home) as terminal:
        terminal.wait_prompt()
        terminal.type("getA" + TAB + "c" + TAB + f"{path}\n")  # a space follows
        terminal.wait("'world,'anyone")
        terminal.wait_prompt()
        terminal.type("delet" + TAB + TAB)  # delete, deleteall
        terminal.wait("deleteall")
        terminal.wait_prompt()
        terminal.wait("delete")
        terminal.type(INTERRUPT)
        terminal.wait_prompt()
        terminal.type(f"ls {path}/a" + TAB)
        terminal.wait("lpha")
        terminal.type(TAB)  # alpha, alphabet
        terminal.wait("alphabet")
        terminal.wait_prompt()
        terminal.type("b" + TAB + "\n")  # alphabet has no children
        terminal.wait("[]")
        terminal.wait_prompt()
        terminal.type(f"ls {path}/w" + TAB + "\n")  # with a backslash before the space
        terminal.wait("[]")
        terminal.wait_prompt()
        terminal.type(f"ls {path}/alph" + TAB + "/" + TAB + "\n")
        terminal.wait("[]")
        terminal.wait_prompt()
        terminal.type(f"ls -s {path[:-1]}" + TAB)  # behind an option
        terminal.wait(path[:-1])
        terminal.type(INTERRUPT)
        terminal.wait_prompt()
        terminal.type("printwatches o" + TAB)
        terminal.wait("off  on")
        terminal.type(INTERRUPT)
        terminal.wait("^C")


def shared_history_is_kept_without_passwords(cluster):
    where, path = cli.servers(cluster), cli.fresh("history")
    with _home() as home:
        file = os.path.join(home, ".quorate_history")
        with open(file, "w", encoding="utf-8"):  # one that others can read
            os.chmod(file, 0o644)
        with Terminal(where, home) as terminal:
            terminal.wait_prompt()
            for line in (f"create {path} x", "addauth digest ann:secret", f" get {path}", f"stat {path}"):
                terminal.type(line + "\n")
                terminal.wait_prompt()
            terminal.type("quit\n")
            assert terminal.wait_end() == 0
        with open(file, encoding="utf-8") as lines:
            assert lines.read() == f"create {path} x\nstat {path}\nquit\n"
        assert os.stat(file).st_mode & 0o777 == 0o600
        with Terminal(where, home) as terminal:
            terminal.wait_prompt()
            terminal.type(UP + UP)
            terminal.wait(f"stat {path}")
            terminal.type("\n")
            terminal.wait("numChildren = 0")
            terminal.wait_prompt()
            terminal.type("history\n")
            terminal.wait(f"0 - stat {path}")
            terminal.wait_prompt()
            terminal.type("redo 0\n")
            terminal.wait("numChildren = 0")


def shared_events_are_shown_above_the_line(cluster):
    where, path = cli.servers(cluster), cli.fresh("above")
    cli.shell(where, "create", path)
    with _home() as home, Terminal(where, home) as terminal:
        terminal.wait_prompt()
        terminal.type(f"addWatch {path}\n")
        terminal.wait_prompt()
        terminal.type(f"get {path}")
        terminal.wait(f"get {path}")
        cli.shell(where, "set", path, "new")
        terminal.wait(f"type:NodeDataChanged path:{path}")
        terminal.wait_prompt()
        terminal.wait(f"get {path}")  # the typed text is shown again
        terminal.type("\n")
        terminal.wait("\nnew\r\n")


def shared_control_characters_do_no_harm(cluster):
    where, path = cli.servers(cluster), cli.fresh("control")
    cli.shell(where, "create", path, "a\x1b[2Jb\x07")
    assert cli.shell(where, "get", path).output == "a\x1b[2Jb\x07\n"
    with _home() as home, Terminal(where, home) as terminal:
        terminal.wait_prompt()
        terminal.type(f"get {path}\n")
        terminal.wait("a\\x1b[2Jb\\x07")


def alone_a_shell_without_servers_can_connect(server):
    with _home() as home, Terminal("127.0.0.1:1", home) as terminal, harness.Cluster(server) as cluster:
        terminal.wait("127.0.0.1:1")
        terminal.wait("CLOSED")
        terminal.wait_prompt()
        terminal.type(f"connect {cli.servers(cluster)}\n")
        terminal.wait("(CONNECTED)")
        terminal.wait("] ")
        terminal.type("ls /\n")
        terminal.wait("[zookeeper]")


def shared_a_command_under_a_lock_has_the_terminal(cluster):
    where, path = cli.servers(cluster), cli.fresh("terminal")
    script = "trap 'echo interrupted; exit 4' INT; read word; echo got $word; while :; do read rest; done"
    with _home() as home, Terminal(where, home, ["lock", path, "--", "sh", "-c", script]) as terminal:
        terminal.type("a-word\n")
        terminal.wait("got a-word")
        terminal.type("\x1a")  # Ctrl-Z does not stop the command
        terminal.type(INTERRUPT)
        terminal.wait("interrupted")
        assert terminal.wait_end() == 4
    with _home() as home, Terminal(where, home, ["elect", path, "--", "sh", "-c", "echo leads; exec sleep 1000"]) as terminal:
        terminal.wait("leads")
        terminal.type(INTERRUPT)
        assert terminal.wait_end() == 130
