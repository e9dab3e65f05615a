# SPDX-License-Identifier: Apache-2.0
"""Checks that clients made progress. A cluster that answers no client makes no mistake that a history could show."""

import bisect
import collections
import re

GAP_SECONDS = 30  # the longest time that a client may wait for an answer, whatever happens
STEADY_SECONDS = 3  # in a steady period of that length, each client completes an operation if it does enough of them
STEADY_OPERATIONS = 15
SETTLE_NS = 1_000_000_000  # the time that a worker has to continue after it was stopped
# The shares of the possible operations that clients have to complete, in steady periods and in the whole run. The second
# share applies to runs with all faults or none that are not short: runs with only a few, frequent faults may not reach it.
SHARE_STEADY, SHARE_ALL = 0.6, 0.4
ALL_MIN_SECONDS = 60
# The shares are not checked if all clients together do more operations a second: that may be too much for the machine.
RATE_MAX = 1200

# Matches the begin of a line that records an answer (history.h).
ANSWER = re.compile(r'\{"t":(\d+),"p":\d+,"c":(\d+),"e":"(ok|refused)"')
# Matches a line that records that a client stays away for a while.
AWAY = re.compile(r'\{"t":(\d+),"p":\d+,"c":(\d+),"e":"disconnected".*"reason":"the client is away for (\d+) ms"')

# A worker. `clients`: the numbers of its clients. `begin`, `end`: the time of its work in ns. `pauses`: (begin, end) of
# the times when it was stopped.
Source = collections.namedtuple("Source", "label path clients begin end pauses")


class Progress:
    """The progress of the clients of some workers, as figures, and its `problems`."""

    def __init__(self, sources, periods, rate):
        """`periods`: the steady periods, (begin, end) in ns. `rate`: the most operations a second of a client."""
        self.rate, self.problems = rate, []
        self.steady_seconds = sum(end - begin for begin, end in periods) / 1e9
        self.waits, self.still = [], []  # (seconds, text), the longest wait of each client; texts
        self.done, self.possible = collections.Counter(), collections.Counter()
        for source in sources:
            self._take(source, periods)
        if self.waits and max(self.waits)[0] > GAP_SECONDS:
            self.problems.append(f"{max(self.waits)[1]} was not answered for {max(self.waits)[0]:.0f} s")
        if self.still:
            self.problems.append(f"{self.still[0]}, and there was no fault (one of {len(self.still)} such times)")

    def share(self, what="all"):
        """Returns the share of the possible operations that clients completed; `what`: "all" or "steady". None if no
        operation was possible."""
        return self.done[what] / self.possible[what] if self.possible[what] else None

    def check_shares(self, is_all_checked):
        for what, least in (("steady", SHARE_STEADY), ("all", SHARE_ALL)):
            share = self.share(what)
            if share is not None and share < least and (what == "steady" or is_all_checked):
                self.problems.append(f"clients got {100 * share:.0f} % of the possible operations done"
                                     f"{' while there was no fault' if what == 'steady' else ''}: "
                                     f"{100 * least:.0f} % are the least that is expected")

    def _take(self, source, periods):
        answers = {client: [] for client in source.clients}
        pauses = {client: list(source.pauses) for client in source.clients}
        acknowledged = {client: [] for client in source.clients}
        with open(source.path, encoding="utf-8", errors="replace") as file:
            for text in file:
                away = AWAY.match(text)
                if away and int(away[2]) in pauses:
                    pauses[int(away[2])].append((int(away[1]), int(away[1]) + int(away[3]) * 1_000_000))
                match = ANSWER.match(text)
                if match and int(match[2]) in answers and source.begin <= int(match[1]) <= source.end:
                    answers[int(match[2])].append(int(match[1]))
                    if match[3] == "ok":
                        acknowledged[int(match[2])].append(int(match[1]))
        for client in source.clients:
            work = active(source, pauses[client])
            steady = [(max(a, begin), min(b, end)) for a, b in work for begin, end in periods if begin < b and a < end]
            times = sorted(acknowledged[client])
            self._count("all", times, work)
            self._count("steady", times, steady)
            waits = [source.begin, *sorted(answers[client]), source.end]
            longest = max((b - a - stopped(pauses[client], a, b)) / 1e9 for a, b in zip(waits, waits[1:]))
            self.waits.append((longest, f"client {client} of {source.label}"))
            for begin, end in steady:
                seconds = (end - begin) / 1e9
                if (seconds >= STEADY_SECONDS and seconds * self.rate >= STEADY_OPERATIONS
                        and bisect.bisect(times, end) == bisect.bisect(times, begin)):
                    self.still.append(f"client {client} of {source.label} got nothing done from {begin} to {end} ns, "
                                      f"in {seconds:.1f} s")

    def _count(self, what, times, spans):
        for begin, end in spans:
            self.done[what] += bisect.bisect(times, end) - bisect.bisect(times, begin)
            self.possible[what] += self.rate * (end - begin) / 1e9


def active(source, pauses):
    """Returns the times when a client or worker was not stopped, after it had time to continue."""
    spans, begin = [], source.begin
    for stop, go_on in sorted(pauses):
        spans.append((begin, min(stop, source.end)))
        begin = max(begin, go_on + SETTLE_NS)
    spans.append((begin, source.end))
    return [(a, b) for a, b in spans if a < b]


def stopped(pauses, begin, end):
    """Returns for how many ns there was a pause between `begin` and `end`. Pauses of a worker and of its client may
    overlap."""
    total, last = 0, begin
    for stop, go_on in sorted(pauses):
        total += max(0, min(end, go_on) - max(last, stop))
        last = max(last, go_on)
    return total
