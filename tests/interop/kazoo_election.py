#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Tests Kazoo's Election: there are never two leaders, and when the process of a leader dies, its ephemeral node
is deleted with its session, and another process leads."""

import os
import time

import kazoo_common as common

WORKERS = 4
# Short, so that the death of a leader is noticed within the test.
SESSION_SECONDS = 4
# A session ends at most a tick of 2 s after its timeout, which starts again with each leader of the
# cluster. So this time begins when no more members are killed. It is long enough for a busy machine; a
# session that never ends is found nevertheless.
TAKEOVER_SECONDS = SESSION_SECONDS + 2 + 20


def worker(hosts, end, history, dies):
    with common.Client(hosts, SESSION_SECONDS) as client:
        election = client.Election("/interop/election", f"worker {os.getpid()}")

        def lead():
            history.add(what="enter")
            common.check(f"worker {os.getpid()}" == election.contenders()[0],
                         "the leader is not the first contender")
            time.sleep(0.03)
            history.add(what="leave", dies=dies)
            if dies:
                os._exit(0)  # as by SIGKILL: the session is left to time out

        while time.monotonic() < end:
            election.run(lead)
            time.sleep(0.01)  # lets the others lead before this process is a candidate again
    return client.connection_losses


def program(hosts, seconds):
    with common.Client(hosts) as client:
        client.delete("/interop", recursive=True)
        client.ensure_path("/interop/election")
    history = common.History()
    try:
        workers = common.Workers()
        end = time.monotonic() + max(seconds, SESSION_SECONDS + 4)
        for number in range(WORKERS):
            workers.start(worker, hosts, end, history, number == 0)
        losses = sum(count for count in workers.results(seconds + common.PATIENCE_SECONDS)
                     if count is not None)
        events = history.read()
    finally:
        history.remove()
    entries = common.check_exclusive(events)
    common.check(len(entries) == WORKERS, f"only {len(entries)} of {WORKERS} processes led")
    deaths = [i for i, event in enumerate(events) if event.get("dies")]
    common.check(len(deaths) == 1 and deaths[0] + 1 < len(events), "no process led after the death")
    takeover = events[deaths[0] + 1]["time"] - events[deaths[0]]["time"]
    common.check(takeover < seconds + TAKEOVER_SECONDS, f"{takeover:.1f} s without a leader after a death")
    return (f"{sum(entries.values())} terms, {takeover:.1f} s from a leader's death to the next, "
            f"{losses} connection losses")


if __name__ == "__main__":
    common.main(program)
