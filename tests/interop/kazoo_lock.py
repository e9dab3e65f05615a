#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Tests Kazoo's Lock with several processes: there are never two holders at once, and a holder sees all writes of
earlier holders, whichever member it is connected to."""

import time

import kazoo_common as common

WORKERS = 4


def worker(hosts, end, history):
    losses, entered = 0, False
    with common.Client(hosts) as client:
        client.ensure_path("/interop/lock-work")
        # At least once, even if this worker begins late on a busy machine.
        while time.monotonic() < end or not entered:
            with client.Lock("/interop/lock"):
                history.add(what="enter")
                # Reads, then writes: the number is exact only if the lock excludes others, and this member has applied
                # everything up to the release of the lock. To set the same value again does no harm.
                value = int(client.retry(client.get, "/interop/lock-work")[0] or b"0")
                client.retry(client.set, "/interop/lock-work", b"%d" % (value + 1))
                history.add(what="leave", value=value + 1)
                entered = True
        losses = client.connection_losses
    return losses


def program(hosts, seconds):
    with common.Client(hosts) as client:
        client.delete("/interop", recursive=True)
    history = common.History()
    try:
        workers = common.Workers()
        for _ in range(WORKERS):
            workers.start(worker, hosts, time.monotonic() + seconds, history)
        losses = sum(workers.results(seconds + common.PATIENCE_SECONDS))
        events = history.read()
    finally:
        history.remove()
    entries = common.check_exclusive(events)
    common.check(len(entries) == WORKERS, f"only {len(entries)} of {WORKERS} processes got the lock")
    written = [event["value"] for event in events if event["what"] == "leave"]
    wrong = [value for number, value in enumerate(written, 1) if value != number]
    common.check(not wrong, f"writes under the lock were lost; wrong values: {common.some(wrong)}")
    return f"{len(written)} times locked, {losses} connection losses"


if __name__ == "__main__":
    common.main(program)
