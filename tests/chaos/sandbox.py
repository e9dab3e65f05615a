# SPDX-License-Identifier: Apache-2.0
"""Runs the program so that no process or mount outlives it, however it ends.

The program continues in namespaces of its own for processes and mounts. When its first process ends,
the kernel ends all others and removes its mounts. Network namespaces without a name end with their
last process. So no clean-up is needed."""

import atexit
import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile

CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x20000000, 0x40000000
PR_SET_PDEATHSIG = 1
SCRATCH, LOCK = "quorate-chaos-", "lock"
_libc = ctypes.CDLL(None, use_errno=True)
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def _call(name, *arguments):
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def scratch():
    """Makes a directory for this run, and removes the directories of runs that have ended in any way."""
    parent = tempfile.gettempdir()
    for name in os.listdir(parent):
        lock = os.path.join(parent, name, LOCK)
        if name.startswith(SCRATCH) and os.path.exists(lock) and _lock(lock) is not None:
            shutil.rmtree(os.path.dirname(lock), ignore_errors=True)
    directory = tempfile.mkdtemp(prefix=SCRATCH)
    # The lock is held as long as a process of the run lives that has not executed another program.
    _lock(os.path.join(directory, LOCK))
    return directory


def _lock(path):
    """Locks the file and returns its descriptor; None if another process holds the lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor
    except BlockingIOError:
        os.close(descriptor)
        return None


def enter(directory):
    """Continues in a new process in namespaces of its own, where this returns "". If that is not possible, returns the
    reason in this process. Otherwise this process waits for the new one, forwards signals to it, removes the run's
    directory (scratch), and ends with its exit status. The file `exits` there gets a line "PID STATUS" for each process
    that ends without a parent, as servers do; the status is negative for a signal."""
    def at_end():
        shutil.rmtree(directory, ignore_errors=True)

    exits = os.path.join(directory, "exits")
    sys.stdout.flush()
    try:
        _call("unshare", CLONE_NEWNS | CLONE_NEWPID)
    except OSError as error:
        atexit.register(at_end)
        return str(error)
    first = os.fork()
    if first:
        _wait(first, at_end, os.devnull)
    _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "proc", "proc", "/proc"], check=True)
    program = os.fork()
    if program:
        # This is the first process of the namespace, so it also waits for processes that have lost their parents.
        _wait(program, lambda: None, exits)
    for number in FORWARDED:
        signal.signal(number, signal.SIG_DFL)
    return ""


def _wait(child, at_end, exits):
    for number in FORWARDED:
        signal.signal(number, lambda number, _: os.kill(child, number))
    while True:
        pid, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        with open(exits, "a", encoding="ascii") as file:
            file.write(f"{pid} {code}\n")
        if pid == child:
            at_end()
            os._exit(code if code >= 0 else 128 - code)


def enter_network(path):
    """Moves this thread, and the threads that it starts from now on, into a network namespace."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _call("setns", descriptor, CLONE_NEWNET)
    finally:
        os.close(descriptor)
