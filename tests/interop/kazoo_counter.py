#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Tests Kazoo's Counter with several processes. It is exact if no connection was lost. Kazoo repeats an
increment whose answer was lost, so the counter may be too high by one for each lost connection, and never too
low."""

import time

import kazoo_common as common

WORKERS = 4


def worker(hosts, end):
    with common.Client(hosts) as client:
        counter = client.Counter("/interop/counter")
        done = 0
        # At least once, even if this worker begins late on a busy machine.
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
