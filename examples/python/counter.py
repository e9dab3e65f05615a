# SPDX-License-Identifier: Apache-2.0
"""Counts to N in a znode, one write each, while servers may fail: each write is made exactly once, so that the version of
the znode is N at the end.

    counter.py SERVER,SERVER,... [N]"""

import sys

from quorate_session import Failed, Session, operation

PATH = "/examples-counter"


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    session = Session(sys.argv[1].split(","))
    try:
        session.write(operation(delete={"path": PATH}))
    except Failed:
        pass  # there was none
    session.write(operation(create={"path": PATH, "data": b"0"}))
    for i in range(1, count + 1):
        # With the version, a write that was made twice would fail.
        session.write(operation(set={"path": PATH, "data": str(i).encode(), "version": i - 1}))
        print("wrote", i, flush=True)
    data, stat = session.get(PATH, linearizable=True)
    print(f"read {data.decode()} version {stat.version}, over {session.streams} streams", flush=True)
    session.close()


if __name__ == "__main__":
    main()
