#!/usr/bin/python3 -B
"""Kazoo's Counter from several processes: exact when no connection was lost. Kazoo repeats an
increment whose answer was lost, so each lost connection may count once too often, and never less."""

import time

import kazoo_common as common

WORKERS = 4


def worker(hosts, end):
    with common.Client(hosts) as client:
        counter = client.Counter("/interop/counter")
        done = 0
        # Once at least, also on a machine where it begins late.
        while time.monotonic() < end or not done:
            counter += 1
            done += 1
    return done, client.connection_losses


def program(hosts, seconds):
    with common.Client(hosts) as client:
        client.delete("/interop", recursive=True)
        client.ensure_path("/interop/counter")
    workers = common.Workers()
    for _ in range(WORKERS):
        workers.start(worker, hosts, time.monotonic() + seconds)
    results = workers.results(seconds + common.PATIENCE_SECONDS)
    done, losses = (sum(column) for column in zip(*results))
    with common.Client(hosts) as client:
        client.sync("/interop/counter")
        value = client.Counter("/interop/counter").value
    common.check(all(count > 0 for count, _ in results), "a process never counted")
    common.check(done <= value <= done + losses,
                 f"the counter is {value} after {done} increments and {losses} connection losses")
    return f"counted to {value} with {done} increments, {losses} connection losses"


if __name__ == "__main__":
    common.main(program)
