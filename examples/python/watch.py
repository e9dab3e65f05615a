# SPDX-License-Identifier: Apache-2.0
"""Prints each change of a znode once and in order, also when its server fails, until its data are "end".

    watch.py SERVER,SERVER,... PATH"""

import sys
import threading

from quorate.v1 import types_pb2
from quorate_session import Failed, Session


def main():
    path = sys.argv[2]
    session = Session(sys.argv[1].split(","))
    changed, changes = threading.Condition(), []

    def on_event(event):
        with changed:
            changes.append(event)
            changed.notify()

    session.watch(path, on_event)
    print("watching", path, flush=True)
    while True:
        with changed:
            changed.wait_for(lambda: changes)
            event = changes.pop(0)
        if event is None:
            print("events may be missing", flush=True)
            continue
        print("event", types_pb2.EventType.Name(event.type), event.zxid, flush=True)
        try:
            if session.get(path)[0] == b"end":
                break
        except Failed:
            pass  # it was deleted
    session.close()


if __name__ == "__main__":
    main()
