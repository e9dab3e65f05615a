# SPDX-License-Identifier: Apache-2.0
"""Makes the page of a run: the clients' operations and their latencies, above the faults at the same times."""

import collections
import html
import json
import math
import os

import nemeses
import page_style
import recipe_operations

WIDTH, LEFT, RIGHT = 1160, 76, 12
PLOT = WIDTH - LEFT - RIGHT
SLICES_MAX = 240
LATENCIES = ((0.5, "p50"), (0.99, "p99"), (1.0, "max"))
# Longer pauses between two acknowledged writes are marked.
PAUSE_SECONDS = 1.0
TRACKS = ("process", "network", "disk", "clock", "membership")
TRACK_PX, ROW_GAP_PX = 12, 10
LETTER_PX = 5.5  # the approximate width of a letter in labels
STEPS_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
END_NS = 10**9
WRITES = ("create", "set", "delete", "multi", "add", *recipe_operations.FUNCTIONS)


def _lines(path):
    with open(path, encoding="utf-8") as file:
        for text in file:
            try:
                yield json.loads(text)
            except ValueError:  # the incomplete last line of a process that was killed
                continue


class Timeline:
    """The operations of the histories, counted in slices of the run's time."""

    def __init__(self, directory, begin, end):
        self.begin, self.end = begin, end
        self.slice_ns = max((end - begin) / SLICES_MAX, 250e6)
        count = max(1, math.ceil((end - begin) / self.slice_ns))
        self.counts = [collections.Counter() for _ in range(count)]
        self.latencies = [[] for _ in range(count)]
        self.writes, self.of_workload = [], collections.defaultdict(collections.Counter)
        for name in sorted(os.listdir(directory)):
            if name == "recipes.jsonl" or (name.startswith("history-") and name.endswith(".jsonl")):
                self._read(os.path.join(directory, name))
        self.writes.sort()

    def _read(self, path):
        begun = {}
        for line in _lines(path):
            what = line.get("e")
            if what == "invoke":
                begun[line["o"]] = line
            elif what in ("ok", "refused", "unknown") and line.get("o") in begun:
                invoke = begun.pop(line["o"])
                self.of_workload[invoke.get("w", "?")][what] += 1
                i = self.index(line["t"])
                if i is None:
                    continue
                self.counts[i][what] += 1
                if what != "unknown":
                    self.latencies[i].append((line["t"] - invoke["t"]) / 1e6)
                if what == "ok" and invoke.get("f") in WRITES:
                    self.writes.append(line["t"])

    def index(self, ns):
        i = int((ns - self.begin) / self.slice_ns)
        return i if 0 <= i < len(self.counts) else None

    def x(self, ns):
        return LEFT + PLOT * min(1, max(0, (ns - self.begin) / (self.end - self.begin)))

    def pauses(self):
        """Returns (begin, end) of each pause without an acknowledged write."""
        times = [self.begin, *(t for t in self.writes if self.begin <= t <= self.end), self.end]
        return [(a, b) for a, b in zip(times, times[1:]) if b - a > PAUSE_SECONDS * 1e9]

    def quantile(self, share):
        values = sorted(ms for of_slice in self.latencies for ms in of_slice)
        return values[min(len(values) - 1, int(share * len(values)))] if values else None


def _text(x, y, text, kind="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{html.escape(str(text))}</text>'


def _rect(x, y, width, height, kind, title=""):
    tip = f"<title>{html.escape(title)}</title>" if title else ""
    return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.1):.1f}" height="{max(height, 0.1):.1f}" '
            f'class="{kind}">{tip}</rect>')


def _nice(value):
    """Returns the next greater round number."""
    if value <= 0:
        return 1
    power = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value)


def _figure(value):
    if value is None:
        return "–"
    return f"{value:,.0f}".replace(",", " ") if value >= 100 else f"{value:.3g}"


def _grid(timeline, top, bottom):
    seconds = (timeline.end - timeline.begin) / 1e9
    step = next((s for s in STEPS_SECONDS if seconds / s <= 14), 7200)
    parts = []
    for second in range(0, int(seconds) + 1, step):
        x = timeline.x(timeline.begin + second * 1e9)
        label = f"{second} s" if seconds < 180 else f"{second // 60}:{second % 60:02d}"
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" class="grid"/>')
        parts.append(_text(x, bottom + 15, label, "axis", "middle"))
    return parts


def _operations(timeline, top, height):
    """Draws the operations a second, a bar for each slice: acknowledged, refused, and unknown ones."""
    seconds = timeline.slice_ns / 1e9
    most = _nice(max(sum(counts.values()) for counts in timeline.counts) / seconds)
    parts = [_text(LEFT, top - 8, "operations a second", "name")]
    for share in (0, 0.5, 1):
        y = top + height * (1 - share)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(_text(LEFT - 8, y + 4, _figure(most * share), "axis", "end"))
    for begin, end in timeline.pauses():
        x = timeline.x(begin)
        parts.append(_rect(x, top, timeline.x(end) - x, height, "pause",
                           f"no write was acknowledged for {(end - begin) / 1e9:.1f} s"))
    width = PLOT * timeline.slice_ns / (timeline.end - timeline.begin)
    for i, counts in enumerate(timeline.counts):
        y = top + height
        for what in ("ok", "refused", "unknown"):
            if counts[what]:
                tall = height * counts[what] / seconds / most
                tall = max(tall, 2) if what == "unknown" else tall
                y -= tall
                x = timeline.x(timeline.begin + i * timeline.slice_ns)
                parts.append(_rect(x, y, min(width, WIDTH - RIGHT - x) - (0.6 if width > 3 else 0), tall, what,
                                   f"{counts['ok']} ok, {counts['refused']} refused, {counts['unknown']} unknown"))
    return parts


def _latencies(timeline, top, height):
    """Draws the latencies on a logarithmic scale, from 0.1 ms to 10 s."""
    decades = (-1, 4)

    def y_of(ms):
        at = (math.log10(max(ms, 10 ** decades[0])) - decades[0]) / (decades[1] - decades[0])
        return top + height * (1 - min(1, at))

    parts = [_text(LEFT, top - 8, "how long they took", "name")]
    for power in range(decades[0], decades[1] + 1):
        y = y_of(10 ** power)
        label = f"{10 ** power:g} ms" if power < 3 else f"{10 ** (power - 3):g} s"
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(_text(LEFT - 8, y + 4, label, "axis", "end"))
    for share, name in reversed(LATENCIES):
        path, down = "", False
        for i, values in enumerate(timeline.latencies):
            if not values:
                down = False
                continue
            ordered = sorted(values)
            value = ordered[min(len(ordered) - 1, int(share * len(ordered)))]
            x = timeline.x(timeline.begin + (i + 0.5) * timeline.slice_ns)
            path += f"{'L' if down else 'M'}{x:.1f} {y_of(value):.1f}"
            down = True
        parts.append(f'<path d="{path}" class="line {name}"/>')
    return parts


class Faults:
    """The faults of a run, from nemesis.jsonl."""

    def __init__(self, lines, begin, end):
        self.all, open_ = [], {}
        for line in lines:
            if line["e"] == "fault":
                open_[line["fault"]] = line
            elif line["e"] == "healed" and line["fault"] in open_:
                self.all.append((open_.pop(line["fault"]), line["t"]))
        self.all += [(line, end) for line in open_.values()]
        self.all.sort(key=lambda pair: pair[0]["t"])
        self.begin = begin
        self.leaders = [(line["t"], line["member"]) for line in lines if line["e"] == "leader"]
        self.deaths = [line for line in lines if line["e"] == "died"]

    def describe(self, fault, end):
        who = ", ".join(f"member {i}" for i in fault["members"])
        return (f"{fault['nemesis']}: {who + ': ' if who else ''}{fault['text']} "
                f"({(fault['t'] - self.begin) / 1e9:.1f} s, for {(end - fault['t']) / 1e9:.1f} s)")


def _bar(x, end, free_until, y, lane, name, title):
    """Draws a fault, with its name inside or behind it, where there is free space."""
    width, needed = max(3, end - x), LETTER_PX * len(name) + 6
    parts = [_rect(x, y + 1, width, TRACK_PX - 2, f"fault {lane}", title)]
    if width > needed:
        parts.append(_text(x + 4, y + TRACK_PX - 3.2, name, "label"))
    elif free_until - x - width > needed:
        parts.append(_text(x + width + 3, y + TRACK_PX - 3.2, name, "label beside"))
    return parts


def _rows(timeline, faults, size, top):
    """Draws a row for each member: four tracks, one for each lane, on a band while the member leads."""
    parts = [_text(LEFT, top - 8, "what happened to whom", "name")]
    row_px = TRACK_PX * len(TRACKS) + ROW_GAP_PX
    for member in range(1, size + 1):
        y = top + (member - 1) * row_px
        parts.append(_text(LEFT - 8, y + row_px / 2, f"member {member}", "axis", "end"))
        parts.append(_rect(LEFT, y, PLOT, row_px - ROW_GAP_PX, "row"))
    for (since, leader), until in zip(faults.leaders, [t for t, _ in faults.leaders[1:]] + [timeline.end]):
        if leader and timeline.x(until) > timeline.x(since):
            parts.append(_rect(timeline.x(since), top + (leader - 1) * row_px,
                               timeline.x(until) - timeline.x(since), row_px - ROW_GAP_PX, "leads",
                               f"member {leader} leads"))
    bottom = top + size * row_px
    workers_y = bottom
    parts.append(_text(LEFT - 8, workers_y + 13, "workers", "axis", "end"))
    parts.append(_rect(LEFT, workers_y, PLOT, 18, "row"))
    bars = collections.defaultdict(list)  # by row and track
    for fault, end in faults.all:
        lane = nemeses.LANE_OF[fault["nemesis"]]
        if lane == "workers":
            bars[workers_y + 3, lane].append((fault, end))
        for member in fault["members"]:
            bars[top + (member - 1) * row_px + TRACKS.index(lane) * TRACK_PX, lane].append((fault, end))
    for (y, lane), there in bars.items():
        for (fault, end), (after, _) in zip(there, [*there[1:], ({"t": timeline.end}, 0)]):
            parts += _bar(timeline.x(fault["t"]), timeline.x(end), timeline.x(after["t"]), y, lane,
                          fault["nemesis"], faults.describe(fault, end))
    for death in faults.deaths:
        for member in death["members"]:
            parts.append(_text(timeline.x(death["t"]), top + (member - 1) * row_px + 32, "✕", "death", "middle"))
    return parts, bottom + 18


def _chart(timeline, faults, size):
    parts, bottom = _rows(timeline, faults, size, 400)
    drawn = _grid(timeline, 28, bottom) + _operations(timeline, 28, 150) + _latencies(timeline, 216, 146) + parts
    return (f'<svg viewBox="0 0 {WIDTH} {bottom + 24:.0f}" role="img" aria-label="operations, latencies and '
            f'faults over time">{"".join(drawn)}</svg>')


def _legend():
    def entry(kind, text):
        return f'<span><i class="key {kind}"></i>{text}</span>'

    return ('<p class="legend">' + entry("ok", "acknowledged") + entry("refused", "refused") +
            entry("unknown", "in doubt") + entry("pause", f"no write for over {PAUSE_SECONDS:g} s") +
            "".join(entry(f"stroke {name}", name) for _, name in LATENCIES) + '<b></b>' +
            entry("fault process", "process") + entry("fault network", "network") + entry("fault disk", "disk") +
            entry("fault clock", "clock") + entry("fault membership", "membership") +
            entry("fault workers", "workers") + entry("leads", "leads") + "</p>")


def _tiles(timeline, outcome):
    seconds = (timeline.end - timeline.begin) / 1e9
    pauses = timeline.pauses()
    busy = len({int((t - timeline.begin) / 1e8) for t in timeline.writes if timeline.begin <= t <= timeline.end})
    totals = outcome["totals"]
    share = outcome.get("share")
    tiles = [
        (_figure(totals.get("ok", 0)), "operations acknowledged"),
        (_figure(totals.get("unknown", 0)), "in doubt"),
        (_figure(outcome["faults"]), "faults"),
        (f"{_figure(outcome.get('steady_seconds'))} s", "of steady periods"),
        (_figure(share and 100 * share) + " %", "of the possible rate"),
        (f"{100 * busy / max(1, seconds * 10):.0f} %", "of the time with writes, by 0.1 s"),
        (f"{max((b - a for a, b in pauses), default=0) / 1e9:.1f} s" if pauses else f"< {PAUSE_SECONDS:g} s",
         "longest time without a write"),
        (f"{_figure(timeline.quantile(0.5))} / {_figure(timeline.quantile(0.99))} ms", "p50 / p99"),
    ]
    return '<div class="tiles">' + "".join(f"<div><b>{a}</b><small>{b}</small></div>" for a, b in tiles) + "</div>"


def _table(head, rows, kind=""):
    cells = "".join(f"<th>{html.escape(str(cell))}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<table class="{kind}"><tr>{cells}</tr>{body}</table>'


def checks_of(outcome):
    """Returns the checks of the history checker and of the recipes."""
    return (outcome.get("verdict") or {}).get("checks", []) + outcome.get("recipes", [])


def counts_of(check):
    """Returns the counts of a check, in words."""
    if "saw" in check:
        return check["saw"]
    counts = [f"{_figure(n)} {what}" for what, n in check.items()
              if isinstance(n, int) and not isinstance(n, bool) and (n or what not in ("not decided", "wrong"))]
    return ", ".join(counts)


def _verdicts(outcome):
    """Makes a row for each check with its counts, and for each violation the lines of the history that show it."""
    rows, windows = [], ""
    for check in checks_of(outcome):
        mark = '<span class="good">✓</span>' if check["ok"] else '<span class="bad">✕</span>'
        rows.append((mark, html.escape(check["name"]), html.escape(counts_of(check))))
        for violation in check["violations"]:
            windows += (f'<h3><span class="bad">✕</span> {html.escape(check["name"])}: '
                        f'{html.escape(violation["invariant"])}</h3><p>{html.escape(violation["details"])}</p>'
                        f"<pre>{html.escape(chr(10).join(violation['window']))}</pre>")
    return "<h2>Verdicts</h2>" + _table(("", "check", "what it saw"), rows, "checks") + windows if rows else ""


def _workloads(timeline):
    rows = [(html.escape(name), *(counts[what] for what in ("ok", "refused", "unknown")))
            for name, counts in sorted(timeline.of_workload.items())]
    return "<h2>Workloads</h2>" + _table(("workload", "acknowledged", "refused", "in doubt"), rows, "checks")


def _fault_table(faults):
    rows = [(f"{(fault['t'] - faults.begin) / 1e9:.1f} s", f"{(end - fault['t']) / 1e9:.1f} s",
             f'<i class="key fault {nemeses.LANE_OF[fault["nemesis"]]}"></i>{html.escape(fault["nemesis"])}',
             " ".join(map(str, fault["members"])), html.escape(fault["text"])) for fault, end in faults.all]
    return (f"<details><summary>All {len(rows)} faults</summary>" +
            _table(("at", "for", "nemesis", "members", ""), rows) + "</details>")


def write(directory):
    """Makes DIRECTORY/index.html from the files of a run (nemesis.jsonl, outcome.json, the histories, and
    recipes.jsonl, the history of the recipes). Returns its path."""
    log = list(_lines(os.path.join(directory, "nemesis.jsonl")))
    with open(os.path.join(directory, "outcome.json"), encoding="utf-8") as file:
        outcome = json.load(file)
    about = log[0]
    begin = next((line["t"] for line in log if line["e"] == "begin"), about["t"])
    # After that time there are only the last reads.
    end = next((line["t"] for line in log if line["e"] == "all healed"), log[-1]["t"]) + END_NS
    timeline = Timeline(directory, begin, max(end, begin + 1))
    faults = Faults(log, begin, end)
    configuration = [("seed", about["seed"]), ("server", about["server"]), ("members", about["size"]),
                     ("time", f"{about['seconds']:g} s"),
                     ("workers", f"{len(about['frontends'])} ({', '.join(about['frontends'])}) of {about['clients']} clients"),
                     ("session timeout", f"{about['session_timeout_ms']} ms"),
                     ("workloads", ", ".join(about["workloads"])), ("nemeses", ", ".join(about["nemeses"]) or "none")]
    configuration += [("seeded bug", value) for value in about["environment"].values()]
    configuration += [(f"left out: {name}", why) for name, why in about["left_out"].items()]
    repeat = (f"tests/chaos/run --minutes {about['seconds'] / 60:g} --seed {about['seed']} --size {about['size']} "
              f"--workers {len(about['frontends'])} --session-timeout-ms {about['session_timeout_ms']} "
              f"--nemesis {','.join(about['nemeses']) or 'none'} --workload {','.join(about['workloads'])}")
    repeat += " --tls" if about.get("tls") else ""
    served = outcome.get("served_after")
    body = [
        _heading(outcome),
        _tiles(timeline, outcome), _legend(), _chart(timeline, faults, about["size"] + ("new-number" in about["nemeses"])),
        "".join(f"<p>{html.escape(note)}</p>" for note in outcome.get("notes", [])),
        f"<p>All members served {served:.1f} s after the last fault was healed.</p>" if served is not None else "",
        _verdicts(outcome), _workloads(timeline), "<h2>Configuration</h2>",
        _table(("", ""), [(html.escape(key), html.escape(str(value))) for key, value in configuration], "plain"),
        f"<pre>{html.escape(repeat)}</pre>", _fault_table(faults),
    ]
    path = os.path.join(directory, "index.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(page_style.document(f"chaos, seed {about['seed']}", "\n".join(body)))
    return path


def _heading(outcome):
    problems = outcome["problems"]
    text = {0: "Nothing is wrong", 1: "One problem"}.get(len(problems), f"{len(problems)} problems")
    mark = '<span class="bad">✕</span>' if problems else '<span class="good">✓</span>'
    return f"<h1>{mark} {text}</h1>" + "".join(f'<pre class="problem">{html.escape(p)}</pre>' for p in problems)
