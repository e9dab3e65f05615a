# SPDX-License-Identifier: Apache-2.0
"""Converts the output of recipes' workers (tests/native/recipes/history.h) into operations like those of the other
clients, for the figures of a run and its page."""

import collections
import json
import os

import recipes_history

# The workload and function, as in histories (history.h), that an event begins.
BEGINS = {"acquiring": ("lock", "acquire"), "offering": ("queue", "offer"), "taking": ("queue", "take"),
          "began": ("commit", "coordinate"), "resumed": ("commit", "coordinate"), "voting": ("commit", "decide")}
FUNCTIONS = tuple(sorted({function for _, function in BEGINS.values()}))
# The events that end an operation, and its outcome.
OUTCOMES = {"acquired": "ok", "offered": "ok", "took": "ok", "coordinated": "ok", "decided": "ok", "failed": "refused"}
# Events that end all operations that a process has begun, except those of locks, for which `lost` is about the holder.
OF_ALL = {"no-space": "refused", "lost": "unknown", "error": "unknown"}

Operation = collections.namedtuple("Operation", "begin end process thread workload function outcome")


class Operations:
    """The operations of the processes that write one history file, which is read as it grows."""

    def __init__(self, path):
        self.path, self.position = path, 0
        self.under_way = {}  # (begin, workload, function), by process and thread
        self.all, self.totals, self.last_ok_ns = [], collections.Counter(), None

    def read(self):
        """Reads the lines that were added since the last call."""
        if not os.path.exists(self.path):
            return
        with open(self.path, "rb") as file:
            file.seek(self.position)
            *lines, _ = file.read().split(b"\n")
        self.position += sum(len(line) + 1 for line in lines)
        for line in lines:
            ns, process, thread, event, _ = recipes_history.parse(self.path, line)
            self._take(ns, process, thread, event)

    def _take(self, ns, process, thread, event):
        if event in BEGINS:
            # An operation that is under way already had no result: a consumer that waits for an item begins again from
            # time to time.
            self.under_way[process, thread] = (ns, *BEGINS[event])
        elif event in OUTCOMES:
            self._end(process, thread, ns, OUTCOMES[event])
        elif event in OF_ALL:
            self._end_all(process, ns, OF_ALL[event], ("queue", "commit"))

    def end_killed(self, process, ns):
        """Ends the operations of a process that was killed at `ns`. REQUIRES: all its output was read."""
        self._end_all(process, ns, "unknown", ("lock", "queue", "commit"))

    def _end_all(self, process, ns, outcome, workloads):
        for (other, thread), (_, workload, _) in list(self.under_way.items()):
            if other == process and workload in workloads:
                self._end(process, thread, ns, outcome)

    def _end(self, process, thread, ns, outcome):
        begun = self.under_way.pop((process, thread), None)
        if begun is None:  # such as after the release of a lock failed
            return
        begin, workload, function = begun
        self.all.append(Operation(begin, ns, process, thread, workload, function, outcome))
        self.totals[outcome] += 1
        if outcome == "ok":
            self.last_ok_ns = ns


def save(operations, path):
    """Writes the operations in the form of a worker's history, with the fields that the page reads."""
    with open(path, "w", encoding="utf-8") as file:
        for number, operation in enumerate(sorted(operations), 1):
            who = {"p": operation.process, "c": operation.thread}
            for line in ({"t": operation.begin, **who, "e": "invoke", "o": number, "w": operation.workload,
                          "f": operation.function},
                         {"t": operation.end, **who, "e": operation.outcome, "o": number}):
                file.write(json.dumps(line) + "\n")
