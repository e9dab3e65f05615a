#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Tests Kazoo's DataWatch in several processes while another process writes: the values that a watcher receives
never go back, whichever member it moves to, and the last one is the last written value."""

import multiprocessing
import time

import kazoo_common as common

WATCHERS = 4
PATH = "/interop/watched"
LAST = b"last"


def watcher(hosts, deadline, has_seen):
    """Returns the received [(mzxid, version, data)]. `has_seen`: set when the watcher has received a change."""
    shown = []
    with common.Client(hosts) as client:
        client.DataWatch(PATH, lambda data, stat: shown.append((stat.mzxid, stat.version, data)))
        while not shown or shown[-1][2] != LAST:
            common.check(time.monotonic() < deadline, f"the last value never came; last: {shown[-1:]}")
            if len(shown) > 1:
                has_seen.set()
            time.sleep(0.01)
    return shown, client.connection_losses


def writer(hosts, end, deadline, watchers_have_seen):
    """Returns {version: data} of the answered writes. Goes on after `end` until all watchers have received a change,
    because they may begin late."""
    written = {}
    with common.Client(hosts) as client:
        count = 0
        while time.monotonic() < end or (
                time.monotonic() < deadline and not all(seen.is_set() for seen in watchers_have_seen)):
            count += 1
            data = b"%d" % count
            stat = client.retry(client.set, PATH, data)
            written[stat.version] = data
            time.sleep(0.002)
        written[client.retry(client.set, PATH, LAST).version] = LAST
    return written, client.connection_losses


def program(hosts, seconds):
    with common.Client(hosts) as client:
        client.delete("/interop", recursive=True)
        client.create(PATH, b"0", makepath=True)
    workers = common.Workers()
    end = time.monotonic() + seconds
    deadline = end + common.PATIENCE_SECONDS / 2
    have_seen = [multiprocessing.Event() for _ in range(WATCHERS)]
    for has_seen in have_seen:
        workers.start(watcher, hosts, deadline, has_seen)
    workers.start(writer, hosts, end, deadline, have_seen)
    *watched, (written, losses) = workers.results(seconds + common.PATIENCE_SECONDS)
    for shown, watcher_losses in watched:
        losses += watcher_losses
        for before, after in zip(shown, shown[1:]):
            common.check(before[0] < after[0] and before[1] < after[1],
                         f"shown version {after[1]} (zxid {after[0]}) after version {before[1]} "
                         f"(zxid {before[0]})")
        for _, version, data in shown:
            common.check(written.get(version, data) == data,
                         f"version {version} was shown as {data}, but written as {written.get(version)}")
        common.check(len(shown) > 2, "a watcher saw almost nothing")
    return (f"{len(written)} writes, {sum(len(shown) for shown, _ in watched)} values shown to "
            f"{WATCHERS} watchers, {losses} connection losses")


if __name__ == "__main__":
    common.main(program)
