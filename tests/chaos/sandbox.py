"""A process tree that leaves nothing behind, whatever ends it.

The program goes on in namespaces of its own for processes and mounts. When its first process ends,
the kernel ends all others and takes its mounts away; network namespaces without a name go with their
last process. Nothing of this needs anybody to clean up."""

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
    """Makes a directory for this run, and removes those of runs that are over, whatever ended them."""
    parent = tempfile.gettempdir()
    for name in os.listdir(parent):
        lock = os.path.join(parent, name, LOCK)
        if name.startswith(SCRATCH) and os.path.exists(lock) and _lock(lock) is not None:
            shutil.rmtree(os.path.dirname(lock), ignore_errors=True)
    directory = tempfile.mkdtemp(prefix=SCRATCH)
    # Taken for as long as any process of the run lives that has not become another program.
    _lock(os.path.join(directory, LOCK))
    return directory


def _lock(path):
    """The descriptor of the file, locked; None if somebody else has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor
    except BlockingIOError:
        os.close(descriptor)
        return None


def enter(directory):
    """Returns "" in a process of a namespace of its own, or, in this one, why that cannot be.
    This process waits for that one, hands signals to it, removes the run's directory (scratch), and ends
    with its exit status. To the file `exits` there, a line "PID STATUS" is added for each process that ends
    without a parent, as servers do; the status is negative for a signal."""
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
        # The first process of a namespace: it also waits for those that have lost their parents.
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
    """This thread, and those that it makes from now on, go into a network namespace."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _call("setns", descriptor, CLONE_NEWNET)
    finally:
        os.close(descriptor)
