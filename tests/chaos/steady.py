# SPDX-License-Identifier: Apache-2.0
"""Finds the steady periods of a run: no fault affects the servers or the network between them, the leader
stays the same, and the machine does not stall."""

# How long after the end of a fault, or the first report of a leader, a steady period begins: connections
# have to be made again.
SETTLE_NS = 1_000_000_000
# Some faults are recorded shortly after they began.
BEFORE_NS = 100_000_000
# Faults that do not end a steady period: servers measure time with monotonic clocks, and a client that is
# stopped or killed is like any other silent client.
DOES_NOT_MATTER = ("clock", "worker-pause", "worker-kill")
# An abandoned session ends at most this long after twice its timeout: one timeout for the leader before
# (kEndsLateMs, checkers/ephemeral_check.cc).
TIMEOUTS, ENDS_LATE_SECONDS = 2, 2.0
MARGIN_SECONDS = 0.3
# How many stalls of a run are attributed to the machine. Further stalls may be caused by the servers, and
# excuse no lack of progress.
STALLS_MAX = 5


def rest_seconds(timeout_seconds):
    """Returns how long after the last fault the end of abandoned sessions with that timeout can be checked."""
    return SETTLE_NS / 1e9 + TIMEOUTS * timeout_seconds + ENDS_LATE_SECONDS + MARGIN_SECONDS


def periods(lines):
    """Returns the steady periods, [(from, to)] in ns, of the log of a run (nemesis.jsonl)."""
    found = _follow(lines)[0]
    # A stall splits a steady period into a part before it and a part after it. Events during the stall may be
    # recorded before it.
    for begin, end in stalls(lines):
        parts = [part for a, b in found for part in ((a, min(b, begin)), (max(a, end + SETTLE_NS), b))]
        found = [(a, b) for a, b in parts if a < b]
    return found


def since(lines):
    """Returns the time (ns) since which, at the end of these lines, there is no fault, no stall and the same leader;
    None if the end is not in a steady period."""
    begin = _follow(lines)[1]
    return None if begin is None else max([begin, *(end for _, end in stalls(lines))])


def stalls(lines):
    """Returns the stalls, [(from, to)] in ns, that are attributed to the machine."""
    return [(line["since"], line["t"]) for line in list(lines) if line["e"] == "stall"][:STALLS_MAX]


def last_reads_met_a_stall(lines):
    """Returns whether a stall overlaps the last reads. Then these may not have been in a steady period that is long
    enough, although the servers caused no fault."""
    asked = next((line["t"] for line in lines if line["e"] == "last reads"), None)
    return asked is not None and any(end > asked for _, end in stalls(lines))


def _follow(lines):
    found, active, leader, begin = [], set(), None, None

    def disturbed(ns):
        nonlocal begin
        if begin is not None and ns - BEFORE_NS > begin + SETTLE_NS:
            found.append((begin + SETTLE_NS, ns - BEFORE_NS))
        begin = None

    for line in list(lines):
        what, ns = line["e"], line["t"]
        if line.get("nemesis") in DOES_NOT_MATTER or what == "stall":
            continue
        if what == "fault":
            active.add(line["fault"])
            disturbed(ns)
        elif what in ("died", "finished"):
            disturbed(ns)
        elif what == "leader":
            disturbed(ns)
            leader = line["member"]
        elif what == "healed":
            disturbed(ns)
            active.discard(line["fault"])
        if begin is None and not active and leader is not None and what != "finished":
            begin = ns
    return found, begin
