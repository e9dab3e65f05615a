#!/usr/bin/python3 -B
"""Kazoo's Lock, from several processes: never two inside at once, and the one who is inside sees
everything that its predecessors wrote, whichever member it talks to."""

import time

import kazoo_common as common

WORKERS = 4


def worker(hosts, end, history):
    losses, entered = 0, False
    with common.Client(hosts) as client:
        client.ensure_path("/interop/lock-work")
        # Once at least, also on a machine where it begins late.
        while time.monotonic() < end or not entered:
            with client.Lock("/interop/lock"):
                history.add(what="enter")
                # Read, then write: exact only if the lock excludes and if this member is as new as
                # the release of the lock. Setting the same value twice does no harm.
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
    common.check(not wrong, f"writes under the lock were lost; the values that are wrong, {common.some(wrong)}")
    return f"{len(written)} times locked, {losses} connection losses"


if __name__ == "__main__":
    common.main(program)
