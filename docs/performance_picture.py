#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Writes the picture and the table of docs/performance.md, from the figures of PERFORMANCE.md.

    docs/performance_picture.py            writes docs/performance.svg and the table
    docs/performance_picture.py --check    fails if they are not those of PERFORMANCE.md"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE, PAGE = ROOT / "docs/performance.svg", ROOT / "docs/performance.md"
BEGIN, END = "<!-- The table is written by docs/performance_picture.py. -->\n", "<!-- The end of the table. -->\n"
# The rows of PERFORMANCE.md that are shown, and what they are.
WORKS = {
    "write, 1 x 1": "one client writes",
    "write, 30 x 1": "30 clients write",
    "write, 30 x 32": "30 clients write, 32 requests each",
    "read, 30 x 1": "30 clients read",
    "read, 30 x 32": "30 clients read, 32 requests each",
    "connect and close, 10 at a time": "clients come and go",
    "one write, 1,000 watchers: events": "events to 1,000 watchers",
    "lock, 20 contenders: hand-overs": "20 clients want one lock",
}
WIDTH, MARGIN, LABEL, BAR = 760, 20, 250, 12
OURS, THEIRS = "#2a7ae2", "#b0b7c3"


def number(text):
    """Returns the first number of a cell, such as that of "1.81 [1.77 – 1.85]"."""
    found = re.search(r"-?[\d,]*\.?\d+", text)
    if not found:
        sys.exit(f"PERFORMANCE.md: no number in the cell {text!r}")
    return float(found.group().replace(",", ""))


def row(text, heading, name):
    """Returns the cells of the row `name` in the section `heading`, without its name."""
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == name:
            return cells[1:]
    sys.exit(f"PERFORMANCE.md: the section {heading!r} has no row {name!r}; adapt {pathlib.Path(__file__).name} to it")


def figures(text):
    """Returns what is shown of PERFORMANCE.md: for each work its ratios and times of processors, and the pauses in ms."""
    works = {}
    for name in WORKS:
        rate, p50, p99, _, _, ours, theirs = map(number, row(text, "Quorate beside ZooKeeper", name)[:7])
        works[name] = {"rate": rate, "p50": p50, "p99": p99, "cpu": (ours, theirs)}
    pauses = {}
    for label, signal in (("the leader is killed", "SIGKILL"), ("the leader hangs", "SIGSTOP")):
        pauses[label] = tuple(map(number, row(text, "Quorate beside ZooKeeper", f"{label} ({signal})")[:2]))
    pauses["a restart of all: 20,000 are back"] = tuple(
        max(map(float, row(text, "Everyone comes back", system)[3].split(", "))) * 1000 for system in ("Quorate", "ZooKeeper"))
    return works, pauses


def shown(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


class Drawing:
    def __init__(self):
        self.parts, self.y = [], MARGIN

    def text(self, x, y, words, kind="label", anchor="start"):
        escaped = words.replace("&", "&amp;").replace("<", "&lt;")
        self.parts.append(f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">{escaped}</text>')

    def heading(self, words, remark):
        self.y += 22
        self.text(MARGIN, self.y, words, "heading")
        self.text(WIDTH - MARGIN, self.y, remark, "remark", "end")
        self.y += 10

    def bars(self, label, values, most, unit):
        """Draws a row: Quorate's bar above ZooKeeper's, each with its value."""
        self.text(MARGIN, self.y + BAR + 4, label)
        for value, colour in zip(values, (OURS, THEIRS)):
            length = max(2.0, value / most * (WIDTH - LABEL - 2 * MARGIN - 80))
            self.parts.append(f'<rect x="{LABEL}" y="{self.y:.0f}" width="{length:.1f}" height="{BAR - 2}" fill="{colour}"/>')
            self.text(LABEL + length + 6, self.y + BAR - 3, f"{shown(value)}{unit}", "value")
            self.y += BAR
        self.y += 6

    def svg(self):
        height = self.y + MARGIN
        style = ("text{font-family:sans-serif;fill:#1d2530}.heading{font-size:15px;font-weight:bold}.label{font-size:12px}"
                 ".value{font-size:10px}.remark{font-size:11px;fill:#5b6675}")
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img">',
            "<title>Quorate beside ZooKeeper: rate, latency, processor time and pauses</title>",
            f"<style>{style}</style>", f'<rect width="{WIDTH}" height="{height:.0f}" rx="8" fill="#ffffff"/>',
            *self.parts, "</svg>", ""])


def picture(works, pauses):
    drawing = Drawing()
    drawing.text(WIDTH - MARGIN, drawing.y + 4, "blue: Quorate    grey: ZooKeeper 3.8", "remark", "end")
    panels = (("Rate", "ZooKeeper = 1, more is better", lambda work: (work["rate"], 1), ""),
              ("Latency, p99", "ZooKeeper = 1, less is better", lambda work: (work["p99"], 1), ""),
              ("Processor time of all servers for an operation", "less is better", lambda work: work["cpu"], " us"))
    for heading, remark, values_of, unit in panels:
        drawing.heading(heading, remark)
        for name, label in WORKS.items():
            pair = values_of(works[name])
            # Times differ by three orders of magnitude: each pair has its own scale.
            most = max(pair) if unit else max(max(values_of(work)) for work in works.values())
            drawing.bars(label, pair, most, unit)
    drawing.heading("Longest pause when servers fail", "less is better")
    for label, pair in pauses.items():
        drawing.bars(label, pair, max(pair), " ms")
    return drawing.svg()


def table(works):
    lines = ["| work | rate | p50 | p99 | processor time of the servers for an operation |", "| --- | --: | --: | --: | --: |"]
    for row_name, label in WORKS.items():
        work = works[row_name]
        ours, theirs = map(shown, work["cpu"])
        ratios = " | ".join(shown(work[name]) for name in ("rate", "p50", "p99"))
        lines.append(f"| {label} | {ratios} | {ours} us of {theirs} us |")
    return "\n".join(lines) + "\n"


def with_table(page, lines):
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{PAGE.name} does not have the marks of the table")
    return f"{before}{begin}\n{lines}\n{end}{after}"


def main():
    works, pauses = figures((ROOT / "PERFORMANCE.md").read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    wanted = {PICTURE: picture(works, pauses), PAGE: with_table(page, table(works))}
    if sys.argv[1:] == ["--check"]:
        stale = [path.name for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
        if stale:
            sys.exit(f"{', '.join(stale)}: not the figures of PERFORMANCE.md; run docs/performance_picture.py")
        return
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
