"""What workers of recipes print (tests/native/recipes/history.h), as operations like those of the other clients: for the
figures of a run, and its page."""

import collections
import json
import os

import recipes_history

# Which event begins what: workload and function, as in histories (history.h).
BEGINS = {"acquiring": ("lock", "acquire"), "offering": ("queue", "offer"), "taking": ("queue", "take"),
          "began": ("commit", "coordinate"), "resumed": ("commit", "coordinate"), "voting": ("commit", "decide")}
FUNCTIONS = tuple(sorted({function for _, function in BEGINS.values()}))
# How it ends.
OUTCOMES = {"acquired": "ok", "offered": "ok", "took": "ok", "coordinated": "ok", "decided": "ok", "failed": "refused"}
# All that a process has begun ends so; but of a lock, `lost` tells who had it.
OF_ALL = {"no-space": "refused", "lost": "unknown", "error": "unknown"}

Operation = collections.namedtuple("Operation", "begin end process thread workload function outcome")


class Operations:
    """Of the processes whose history one file is, read as it grows."""

    def __init__(self, path):
        self.path, self.position = path, 0
        self.under_way = {}  # (begin, workload, function), by process and thread
        self.all, self.totals, self.last_ok_ns = [], collections.Counter(), None

    def read(self):
        """What has come since."""
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
            # One that is there already came to nothing: who waits for an item starts again from time to time.
            self.under_way[process, thread] = (ns, *BEGINS[event])
        elif event in OUTCOMES:
            self._end(process, thread, ns, OUTCOMES[event])
        elif event in OF_ALL:
            self._end_all(process, ns, OF_ALL[event], ("queue", "commit"))

    def end_killed(self, process, ns):
        """What a process had begun that was killed then; all that it has printed was read."""
        self._end_all(process, ns, "unknown", ("lock", "queue", "commit"))

    def _end_all(self, process, ns, outcome, workloads):
        for (other, thread), (_, workload, _) in list(self.under_way.items()):
            if other == process and workload in workloads:
                self._end(process, thread, ns, outcome)

    def _end(self, process, thread, ns, outcome):
        begun = self.under_way.pop((process, thread), None)
        if begun is None:  # such as the release of a lock that failed
            return
        begin, workload, function = begun
        self.all.append(Operation(begin, ns, process, thread, workload, function, outcome))
        self.totals[outcome] += 1
        if outcome == "ok":
            self.last_ok_ns = ns


def save(operations, path):
    """Writes them as the history of a worker is written, as far as the page reads it."""
    with open(path, "w", encoding="utf-8") as file:
        for number, operation in enumerate(sorted(operations), 1):
            who = {"p": operation.process, "c": operation.thread}
            for line in ({"t": operation.begin, **who, "e": "invoke", "o": number, "w": operation.workload,
                          "f": operation.function},
                         {"t": operation.end, **who, "e": operation.outcome, "o": number}):
                file.write(json.dumps(line) + "\n")
