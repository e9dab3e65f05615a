# SPDX-License-Identifier: Apache-2.0
"""Plans the faults of a run and their times. The plan follows from the seed; only choices that depend on the
run, such as the leader, are made later."""

import collections
import random

import steady
import nemeses

STEADY_SECONDS = (0.3, 1.6)  # between two episodes of faults
# Now and then, in runs that are not short, there is no fault for long enough to check the end of abandoned
# sessions.
REST, REST_MIN_SECONDS = 0.06, 60
FIRST_SECONDS = 1.0  # before the first fault
# How often faults of several lanes overlap.
TOGETHER = 0.4
LENGTHS = ("short", "middle", "long")
AT_ONCE = ("transfer",)  # faults without a duration
# A server reads the offset of its clock once a second (members.clock_environment).
LONGER = {"clock": 2.5}

Planned = collections.namedtuple("Planned", "at seconds nemesis seed")


def make(seed, seconds, names, timeout_seconds):
    """Returns the faults of a run of `seconds`, in order. `timeout_seconds`: the timeout of sessions; long faults last
    longer than that."""
    chance = random.Random(seed)
    faults, at, bag = [], FIRST_SECONDS, []
    while names and at < seconds - 2:
        if not bag:  # makes all names equally frequent
            bag = chance.sample(sorted(names), len(names))
        picked = [bag.pop()]
        if chance.random() < TOGETHER:
            others = [name for name in sorted(names)
                      if nemeses.LANE_OF[name] not in map(nemeses.LANE_OF.get, picked)]
            for name in chance.sample(others, min(len(others), chance.choice((1, 1, 2)))):
                if nemeses.LANE_OF[name] not in map(nemeses.LANE_OF.get, picked):
                    picked.append(name)
        end = at
        for i, name in enumerate(picked):
            begin = at + (chance.uniform(0, 1.5) if i else 0)
            length = _length(chance, timeout_seconds)
            length = max(length, LONGER.get(name, 0))
            length = 0 if name in AT_ONCE else min(length, max(0.1, seconds - begin))
            faults.append(Planned(round(begin, 3), round(length, 3), name, chance.randrange(1 << 32)))
            end = max(end, begin + length)
        at = end + chance.uniform(*STEADY_SECONDS)
        if chance.random() < REST and seconds >= REST_MIN_SECONDS:
            at += steady.rest_seconds(timeout_seconds)
    return sorted(faults)


def _length(chance, timeout_seconds):
    kind = chance.choices(LENGTHS, (4, 4, 2))[0]
    if kind == "short":
        return chance.uniform(0.1, 0.8)
    if kind == "middle":
        return chance.uniform(0.8, timeout_seconds)
    return chance.uniform(1.2, 1.8) * timeout_seconds
