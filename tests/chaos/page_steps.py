# SPDX-License-Identifier: Apache-2.0
"""Tests the page and the terminal lines of a run, with a small invented run."""

import argparse
import collections
import html.parser
import json
import os

import page
import recipe_operations
import report

SECOND = 10**9
BEGIN = 100  # in seconds, as all times in this file
VOID = ("meta", "line", "path")
LOG = (
    (99, "run", {"seed": 7, "seconds": 10, "size": 3, "server": "quorate", "workloads": ["register", "lock", "queue"],
                 "nemeses": ["kill-leader", "worker-pause"], "frontends": ["zookeeper", "native"], "clients": 2,
                 "session_timeout_ms": 1500, "left_out": {"ring": "of three all are neighbours"}, "environment": {}}),
    (BEGIN, "begin", {}),
    (BEGIN, "leader", {"member": 1}),
    (103, "fault", {"fault": 1, "nemesis": "kill-leader", "members": [1], "text": "killed"}),
    (103.5, "leader", {"member": 3}),
    (105, "healed", {"fault": 1, "nemesis": "kill-leader"}),
    (106, "died", {"members": [2], "text": "signal 11"}),
    (108, "fault", {"fault": 2, "nemesis": "worker-pause", "members": [], "text": "worker 2 stopped"}),
    (109, "all healed", {}),
)
# The output of the recipes' workers. Of four acquisitions two succeed, and SIGKILL cuts the last one short. The
# consumer begins to wait twice for its item. The producer that loses its session does not know whether its last item
# is in the queue.
RECIPES = """
101.0 1 1 acquiring mutex
101.1 1 1 acquired mutex 5
101.2 1 1 acquiring mutex
101.3 1 2 acquiring mutex
101.4 1 1 lost mutex 5
101.5 1 2 failed mutex DeadlineExceeded
101.6 1 1 acquired mutex 6
105.2 1 1 acquiring mutex
101.0 2 1 offering a /queue 0
101.1 2 1 offered a /queue 0
101.2 2 2 taking /queue
101.3 2 2 taking /queue
101.4 2 2 took a /queue 0
101.5 2 1 offering b /queue 0
101.6 2 1 lost Unavailable
102.0 3 1 began t1
102.1 4 1 voting t1 yes
102.2 3 1 coordinated t1 commit
102.3 4 1 decided t1 commit
"""
WINDOW = ['{"t":1,"e":"ok","data":"<one>"}', '{"t":2,"e":"ok","data":"two & more"}']
OUTCOME = {
    "problems": ["consistency: a session does not see time go back: <script>", "queue: lost"],
    "verdict": {"checks": [
        {"name": "consistency", "ok": False, "reads": 1234, "not decided": 0, "wrong": 1, "undecided": [], "violations": [
            {"invariant": "a session does not see time go back", "details": "<script>", "window": WINDOW}]},
        {"name": "register", "ok": True, "registers": 4, "not decided": 0, "wrong": 0, "undecided": [], "violations": []}]},
    "recipes": [
        {"name": "lock", "ok": True, "saw": "2 acquired", "violations": []},
        {"name": "queue", "ok": False, "saw": "", "violations": [
            {"invariant": "each item is taken once, in its order", "details": "b is lost", "window": []}]}],
    "totals": {"ok": 76, "refused": 1, "unknown": 2}, "served_after": 1.25, "faults": 2, "notes": ["a note"],
    "steady_seconds": 4.5, "share": 0.5, "share_steady": 0.75,
}


class _Reader(html.parser.HTMLParser):
    """Parses the page. `shapes`: (class, attributes, title) of each rectangle. `rows`: the texts of the cells of each row
    of a table. `texts`: all other texts, by tag. Fails if tags are not closed in their order."""

    def __init__(self):
        super().__init__()
        self.open, self.shapes, self.rows, self.texts = [], [], [], collections.defaultdict(list)

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        if tag == "rect":
            attributes = dict(attrs)
            self.shapes.append([attributes["class"], attributes, ""])
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag in ("h1", "h2", "h3", "p", "pre", "text"):
            self.texts[tag].append("")

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open and self.open[-1] == tag, f"{tag} is closed, but the open tags are {self.open}"
            self.open.pop()

    def handle_data(self, data):
        if "title" in self.open and "rect" in self.open:
            self.shapes[-1][2] += data
        elif "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data
        else:
            for tag in ("h1", "h2", "h3", "p", "pre", "text"):
                if tag in self.open:
                    self.texts[tag][-1] += data

    def of(self, kind):
        return [(attributes, title) for name, attributes, title in self.shapes if name == kind]


def _write_lines(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def _operations(directory):
    """Returns the operations of the recipes' workers, read in two pieces that end within lines."""
    path = os.path.join(directory, "recipes.txt")
    operations = recipe_operations.Operations(path)
    operations.read()  # the file does not exist yet
    lines = [line.split(" ", 1) for line in RECIPES.strip().splitlines()]
    text = "".join(f"{int(float(second) * SECOND)} {rest}\n" for second, rest in lines)
    half = len(text) // 2
    for piece in (text[:half], text[half:]):
        with open(path, "a", encoding="ascii") as file:
            file.write(piece)
        operations.read()
    operations.end_killed(1, 106 * SECOND)
    return operations


def _make_run(directory):
    os.makedirs(directory)
    _write_lines(os.path.join(directory, "nemesis.jsonl"),
                 ({"t": int(second * SECOND), "e": what, **fields} for second, what, fields in LOG))
    lines, number = [], 0
    for tenth in [*range(1, 30), *range(50, 90)]:  # nothing from 2.9 to 5.0
        number += 1
        begin = BEGIN * SECOND + tenth * SECOND // 10
        lines += [{"t": begin - 2000000, "e": "invoke", "o": number, "w": "register", "f": "set"},
                  {"t": begin, "e": "refused" if tenth == 60 else "ok", "o": number}]
    _write_lines(os.path.join(directory, "history-1.jsonl"), lines)
    operations = _operations(directory)
    recipe_operations.save(operations.all, os.path.join(directory, "recipes.jsonl"))
    with open(os.path.join(directory, "outcome.json"), "w", encoding="utf-8") as file:
        json.dump(OUTCOME, file)


def the_page_shows_what_happened(options):
    directory = os.path.join(options.directory, "page")
    _make_run(directory)
    with open(page.write(directory), encoding="utf-8") as file:
        text = file.read()
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open, f"{reader.open} are not closed"
    assert "<script" not in text
    assert reader.texts["h1"] == ["✕ 2 problems"], reader.texts["h1"]
    _check_chart(reader)
    for row in (
            ["✕", "consistency", "1 234 reads, 1 wrong"], ["✓", "register", "4 registers"], ["✓", "lock", "2 acquired"],
            ["✕", "queue", ""],
            ["register", "68", "1", "0"], ["lock", "2", "1", "1"], ["queue", "2", "0", "1"], ["commit", "2", "0", "0"],
            ["left out: ring", "of three all are neighbours"],
            ["3.0 s", "2.0 s", "kill-leader", "1", "killed"], ["8.0 s", "2.0 s", "worker-pause", "", "worker 2 stopped"]):
        assert row in reader.rows, f"{row} is not among {reader.rows}"
    assert reader.texts["h3"] == ["✕ consistency: a session does not see time go back",
                                  "✕ queue: each item is taken once, in its order"], reader.texts["h3"]
    assert "\n".join(WINDOW) in reader.texts["pre"] and OUTCOME["problems"][0] in reader.texts["pre"], reader.texts["pre"]
    assert {"<script>", "b is lost", "a note"} <= set(reader.texts["p"]), reader.texts["p"]
    return f"{len(reader.shapes)} shapes, {len(reader.rows)} rows"


def _check_chart(reader):
    """The chart covers 10 s, from the begin until a second after the end of the faults."""
    def place(second):
        return page.LEFT + page.PLOT * second / 10

    def is_at(attributes, begin, end):
        x, width = float(attributes["x"]), float(attributes["width"])
        return abs(x - place(begin)) < 0.2 and abs(x + width - place(end)) < 0.2

    for kind, begin, end, title in (
            ("fault process", 3, 5, "kill-leader: member 1: killed (3.0 s, for 2.0 s)"),
            ("fault workers", 8, 10, "worker-pause: worker 2 stopped (8.0 s, for 2.0 s)"),
            ("pause", 2.9, 5, "no write was acknowledged for 2.1 s"),
            ("leads", 0, 3.5, "member 1 leads"), ("leads", 3.5, 10, "member 3 leads")):
        found = reader.of(kind)
        assert any(is_at(attributes, begin, end) and told == title for attributes, told in found), f"{kind}: {found}"
    assert len(reader.of("pause")) == 2, reader.of("pause")  # the other pause is at the end
    counted = collections.Counter()
    for _, title in {(attributes["x"], title) for kind in ("ok", "refused", "unknown")
                     for attributes, title in reader.of(kind)}:
        for words in title.split(", "):
            counted[words.split()[1]] += int(words.split()[0])
    assert counted == {"ok": 74, "refused": 2, "unknown": 2}, counted
    assert "✕" in reader.texts["text"], "the death of a member is not shown"


def the_terminal_says_what_happened():
    assert report.live_line(7.4, 60, ({"ok": 12, "refused": 3, "unknown": 1}, 0.26), ["pause", "loss"]) == (
        "    7 of 60 s  ok 12  refused 3  unknown 1  last write 0.3 s ago  faults: loss, pause")
    assert report.live_line(0, 60, ({"ok": 0, "refused": 0, "unknown": 0}, None), []) == (
        "    0 of 60 s  ok 0  refused 0  unknown 0  last write -  faults: -")
    lines = report.summary(argparse.Namespace(**OUTCOME))
    assert lines == [
        "2 faults; 76 ok, 1 refused, 2 unknown",
        "4 s were steady; of the operations that were possible, clients got done 50 % in all, 75 % in steady periods",
        "all members served 1.2 s after the last fault was healed",
        "FAIL consistency: 1 234 reads, 1 wrong", "ok   register: 4 registers", "ok   lock: 2 acquired", "FAIL queue: ",
        "a note", *(f"PROBLEM: {problem}" for problem in OUTCOME["problems"])], lines
    good = dict(OUTCOME, problems=[], verdict=None, recipes=[], notes=[], steady_seconds=None, served_after=None)
    lines = report.summary(argparse.Namespace(**good))
    assert lines == ["2 faults; 76 ok, 1 refused, 2 unknown", "nothing is wrong"], lines
