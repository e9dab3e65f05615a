# SPDX-License-Identifier: Apache-2.0
"""Waits for a lock, holds it until a line arrives on standard input, and releases it. Any number of these programs, of
../node/lock.js, and of programs in C++ and Java (Curator) wait for the lock in one queue.

    lock.py SERVER,SERVER,... PATH"""

import sys
import threading

from quorate_session import Session


def main():
    # A lock is lost some time after its holder failed: with a session of 4 s, after that time.
    session = Session(sys.argv[1].split(","), timeout_seconds=4)
    lock = session.lock(sys.argv[2])
    token = lock.acquire(on_waiting=lambda ahead: print("waiting", ahead, flush=True))
    print("held", token, flush=True)
    asked = threading.Event()

    def wait_for_line():
        sys.stdin.readline()
        asked.set()

    threading.Thread(target=wait_for_line, daemon=True).start()
    while not asked.wait(0.05):
        if lock.lost.is_set():
            print("lost", flush=True)
            return 1
    lock.release()
    print("released", flush=True)
    session.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
