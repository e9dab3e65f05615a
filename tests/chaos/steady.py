"""When a run was steady: no fault that servers or the network between them feel, the same leader all
along, and a machine that did not stall."""

# After the end of a fault, or the first word of a leader: connections have to be made again.
SETTLE_NS = 1_000_000_000
# Some faults are written down right after they were done.
BEFORE_NS = 100_000_000
# What must not matter: servers measure time with clocks that only grow, and a client that is stopped or
# killed is like any other that says nothing.
DOES_NOT_MATTER = ("clock", "worker-pause", "worker-kill")
# A session that was left without a word is over after its timeout, whatever the timeout of the leader
# before; this later at most (kEndsLateMs, checkers/ephemeral_check.cc).
TIMEOUTS, ENDS_LATE_SECONDS = 2, 2.0
MARGIN_SECONDS = 0.3
# So many stalls of a run are the machine's. One that stalls again and again may be made to by its servers,
# which have to get on then as they do at any time.
STALLS_MAX = 5


def rest_seconds(timeout_seconds):
    """So long after the last fault, sessions with that timeout that were left without a word are checked."""
    return SETTLE_NS / 1e9 + TIMEOUTS * timeout_seconds + ENDS_LATE_SECONDS + MARGIN_SECONDS


def periods(lines):
    """[(from, to)] in ns of the log of a run (nemesis.jsonl)."""
    found = _follow(lines)[0]
    # What a stall cuts is steady before it and after it. What happened meanwhile may be written down before it.
    for begin, end in stalls(lines):
        parts = [part for a, b in found for part in ((a, min(b, begin)), (max(a, end + SETTLE_NS), b))]
        found = [(a, b) for a, b in parts if a < b]
    return found


def since(lines):
    """Since when (ns) there is no fault, no stall and the same leader, at the end of these lines; None: it is
    not so."""
    begin = _follow(lines)[1]
    return None if begin is None else max([begin, *(end for _, end in stalls(lines))])


def stalls(lines):
    """[(from, to)] in ns of those that are the machine's."""
    return [(line["since"], line["t"]) for line in list(lines) if line["e"] == "stall"][:STALLS_MAX]


def last_reads_met_a_stall(lines):
    """So that they may not have been made in a steady period that is long enough, though the servers left them one."""
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
