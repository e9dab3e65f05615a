# SPDX-License-Identifier: Apache-2.0
"""Writes the document from the results: blocks for headings, text, tables and charts, and their form in
Markdown.

`results` is {name of a row: its result}, see rows.py."""

import dataclasses
import statistics

import rows
from rows import BUDGET, GROWTH, GROWTHS, ROWS

LABELS = ("Quorate", "ZooKeeper")
# The compared figures: the name, the key among the ratios of `quorate bench`, and whether more is better.
FIGURES = (("rate", "operations_per_second", True), ("p50", "p50", False), ("p99", "p99", False),
           ("p99.9", "p99.9", False), ("cpu", "server_cpu", False))
GROWTH_FIGURES = tuple(figure for figure in FIGURES if figure[0] != "p99.9")
NAMES = {"rate": "rate", "p50": "p50", "p99": "p99", "p99.9": "p99.9", "cpu": "server CPU",
         "pause_ms": "pause", "bytes": "memory", "restart_seconds": "restart"}
UNITS = {"pause_ms": " ms", "bytes": " B", "restart_seconds": " s"}
AT_LEAST = ("rate",)
SINGULAR = {"watches": "watch", "members": "member"}
NOT_KNOWN = "–"
# The numbers of growing threads and functions that are shown.
THREADS_SHOWN, FUNCTIONS_SHOWN = 3, 6


@dataclasses.dataclass
class Heading:
    text: str


@dataclasses.dataclass
class Text:
    text: str


@dataclasses.dataclass
class Items:
    items: list


@dataclasses.dataclass
class Table:
    header: list
    rows: list


@dataclasses.dataclass
class Bar:
    """A ratio on an axis around 1."""
    label: str
    series: int
    median: float
    quartile1: float
    quartile3: float
    limit: float = None


@dataclasses.dataclass
class Chart:
    title: str
    series: list
    bars: list


# --- Figures as text


def number(value):
    """Formats a value with three significant digits, without an exponent."""
    if value is None:
        return NOT_KNOWN
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def signed(value):
    return ("-" if value < 0 else "+") + number(abs(value))


def bold(text):
    return f"**{text}**"


def spread_text(spread):
    if not spread:
        return NOT_KNOWN
    return (f"{number(spread['median'])} [{number(spread['quartile1'])} – "
            f"{number(spread['quartile3'])}]")


def is_behind(spread, more_is_better):
    """Returns whether Quorate is worse in three quarters of the pairs."""
    if not spread:
        return False
    return spread["quartile3"] < 1 if more_is_better else spread["quartile1"] > 1


def quotient(dividend, divisor):
    return dividend / divisor if dividend is not None and divisor else None


def size_text(size, unit):
    return f"{size:,} {SINGULAR.get(unit, unit) if size == 1 else unit}"


# --- What the budget says


@dataclasses.dataclass
class Verdict:
    """One line of the budget, or one figure in which Quorate is worse."""
    row: str
    figure: str
    value: float
    limit: float = None

    @property
    def met(self):
        return self.value >= self.limit if self.figure in AT_LEAST else self.value <= self.limit

    @property
    def words(self):
        unit = UNITS.get(self.figure, "")
        word = "not" if self.figure in AT_LEAST else "more than"
        return f"{NAMES[self.figure]} {number(self.value)}{unit}, {word} {self.limit:g}{unit}"


def budget_text(budget):
    sign = {True: "≥", False: "≤"}
    return ", ".join(f"{NAMES[figure]} {sign[figure in AT_LEAST]} {limit:g}{UNITS.get(figure, '')}"
                     for figure, limit in budget.items())


def result_cell(verdicts, behind):
    parts = []
    if verdicts:
        missed = [verdict.words for verdict in verdicts if not verdict.met]
        parts.append(bold("missed: " + "; ".join(missed)) if missed else "met")
    if behind:
        parts.append(bold("behind: " + ", ".join(NAMES[figure] for figure in behind)))
    return "; ".join(parts)


# --- The sections


class Document:
    """Collects blocks, verdicts, the figures in which Quorate is worse, and those that grow by more."""

    def __init__(self, results):
        self.results = results
        self.blocks, self.verdicts, self.behind, self.growing = [], [], [], []
        self.not_measured = []

    def add(self, *blocks):
        self.blocks += [block for block in blocks if not isinstance(block, Table) or block.rows]

    def measured(self, section):
        """Returns [(row, result)] of a section, without the rows that could not be measured."""
        found = []
        for row in ROWS:
            result = self.results.get(row.name) if row.section == section else None
            if result is None:
                continue
            if "error" in result:
                self.not_measured.append(f"{row.title}: {result['error'].splitlines()[0]}")
            else:
                found.append((row, result))
        return found

    def verdicts_of(self, row, values):
        """Returns the verdicts on {figure: value} of a row, for the figures that have a budget."""
        verdicts = [Verdict(row.title, figure, values[figure], limit)
                    for figure, limit in row.budget.items() if values.get(figure) is not None]
        self.verdicts += verdicts
        return verdicts

    def note_behind(self, row, figures):
        if figures:
            self.behind.append(f"{row.title}: {', '.join(NAMES[figure] for figure in figures)}")
        return figures

    # 1

    def budget(self):
        found = self.measured(BUDGET)
        loads = [pair for pair in found if not pair[0].name.startswith("failover")]
        failures = [pair for pair in found if pair[0].name.startswith("failover")]
        if not found:
            return
        self.add(Heading("Quorate beside ZooKeeper"), Text(
            "Each ratio is Quorate's figure divided by ZooKeeper's: the median of all pairs of "
            "neighbouring slices of one run, and in brackets the middle half of the pairs. Of the rate "
            "more is better, of all others less. \"30 x 32\" is 30 connections with 32 requests under way "
            "on each, spread over three members; values have 100 bytes. Where a workload has several "
            "latencies, it is the first one of those that `quorate bench` lists. Server CPU is "
            "microseconds of processor time of all three servers together for each operation."))
        header = ["work", "rate", "p50", "p99", "p99.9", "server CPU", "CPU/op, us: Quorate",
                  "ZooKeeper", "budget", "result"]
        table, bars = Table(header, []), []
        for row, result in loads:
            workload = result["runs"][0]["document"]["workloads"][0]
            table.rows.append(self.load_cells(row, workload))
            bars += ratio_bars(row, workload["ratios"])
        self.add(table)
        if bars:
            self.add(Chart("Quorate / ZooKeeper", ["rate", "p99", "server CPU"], bars))
        if failures:
            self.failovers(failures)

    def load_cells(self, row, workload):
        ratios = dict(workload["ratios"])
        if row.name == "open-loop":
            ratios["operations_per_second"] = None  # the rate is given, not measured
        cells, behind, medians = [row.title], [], {}
        for figure, key, more in FIGURES:
            spread = ratios.get(key)
            is_worse = is_behind(spread, more)
            behind += [figure] if is_worse else []
            medians[figure] = spread and spread["median"]
            cells.append(bold(spread_text(spread)) if is_worse else spread_text(spread))
        cells += [number(measurement["server_cpu_us"]) for measurement in workload["measurements"]]
        verdicts = self.verdicts_of(row, medians)
        return [*cells, budget_text(row.budget), result_cell(verdicts, self.note_behind(row, behind))]

    def failovers(self, failures):
        self.add(Text(
            "When the leader dies or hangs: the longest time in which no write was answered over all 30 "
            "connections, at 500 writes a second. These are times of timeouts and elections, so that they "
            "may be read as they are; the median, then all rounds. The leader's own connections are lost "
            "with it in any case, a third of them at first; they stay where they went, so that the next "
            "leader may have had more."))
        table = Table(["failure", "Quorate, ms", "ZooKeeper, ms", "ratio of medians",
                       "connections dropped a round: Quorate", "ZooKeeper", "budget", "result"], [])
        for row, result in failures:
            measured = result["runs"][0]["document"]["workloads"][0]["measurements"]
            medians = [statistics.median(m["pauses_ms"]) for m in measured]
            verdicts = self.verdicts_of(row, {"pause_ms": medians[0]})
            behind = ["pause_ms"] if medians[0] > medians[1] else []
            table.rows.append([
                row.title, *(f"{number(median)} ({', '.join(map(number, m['pauses_ms']))})"
                             for median, m in zip(medians, measured)),
                number(quotient(*medians)),
                *(number(m["connections_dropped"] / len(m["pauses_ms"])) for m in measured),
                budget_text(row.budget), result_cell(verdicts, self.note_behind(row, behind))])
        self.add(table)

    def limit(self):
        found = self.measured(rows.LIMIT)
        if not found:
            return
        self.add(Heading("Quorate beside the limit of the machine"), Text(LIMIT_OF_THE_MACHINE))
        table = Table(["work", "rate", "p50", "p99", "server CPU", "rate: Quorate", "limit",
                       "p50, us: Quorate", "limit", "CPU/op, us: Quorate", "limit", "budget", "result"], [])
        for row, result in found:
            table.rows.append(self.turns_cells(row, [limit_figures(run) for run in result["runs"]], result["limits"]))
        self.add(table)

    def linearizable(self):
        found = self.measured(rows.LINEARIZABLE)
        if not found:
            return
        self.add(Heading("What linearizable reads cost"), Text(
            "Two clusters of Quorate in turns, one with `linearizableReads=true`: its figures divided by those of the "
            "other. A server answers such a read when a majority has confirmed its leader after the read came; reads "
            "that wait at the same time share that."))
        table = Table(["work", "rate", "p50", "p99", "server CPU", "CPU/op, us: linearizable", "plain", "budget",
                       "result"], [])
        for row, result in found:
            workload = result["runs"][0]["document"]["workloads"][0]
            spreads = {figure: workload["ratios"].get(key) for figure, key, _ in GROWTH_FIGURES}
            verdicts = self.verdicts_of(row, {figure: spread and spread["median"] for figure, spread in spreads.items()})
            table.rows.append([
                row.title, *map(spread_text, spreads.values()),
                *(number(measurement["server_cpu_us"]) for measurement in workload["measurements"]),
                budget_text(row.budget), result_cell(verdicts, [])])
        self.add(table)

    def tls(self):
        found = self.measured(rows.TLS)
        if not found:
            return
        self.add(Heading("What TLS costs"), Text(
            "A cluster of Quorate whose connections, of clients and between members, all have TLS 1.3 with certificates of "
            "both sides, in turns with one without TLS: its figures divided by those of the other. The last columns "
            "compare it in the same way with ZooKeeper with TLS and the same certificates."))
        table = Table(["work", "rate", "p50", "p99", "server CPU", "CPU/op, us: TLS", "plain", "budget", "result",
                       "rate / ZooKeeper's", "server CPU / ZooKeeper's", "CPU/op, us: ZooKeeper"], [])
        loads = [pair for pair in found if "failover" not in pair[0].name]
        for row, result in loads:
            plain, theirs = (run["document"]["workloads"][0] for run in result["runs"])
            spreads = {figure: plain["ratios"].get(key) for figure, key, _ in GROWTH_FIGURES}
            verdicts = self.verdicts_of(row, {figure: spread and spread["median"] for figure, spread in spreads.items()})
            table.rows.append([
                row.title, *map(spread_text, spreads.values()),
                *(number(measurement["server_cpu_us"]) for measurement in plain["measurements"]),
                budget_text(row.budget), result_cell(verdicts, []),
                *(spread_text(theirs["ratios"].get(key)) for key in ("operations_per_second", "server_cpu")),
                number(theirs["measurements"][1]["server_cpu_us"])])
        if loads:
            self.add(table)
        self.tls_failovers([pair for pair in found if "failover" in pair[0].name])

    def tls_failovers(self, found):
        if not found:
            return
        self.add(Text("The longest time in which no write was answered, as above: milliseconds, the median, then all rounds."))
        table = Table(["failure", "TLS", "plain", "budget", "result", "TLS, beside ZooKeeper", "ZooKeeper with TLS"], [])
        for row, result in found:
            pauses = [[m["pauses_ms"] for m in run["document"]["workloads"][0]["measurements"]] for run in result["runs"]]
            cells = [[f"{number(statistics.median(rounds))} ({', '.join(map(number, rounds))})" for rounds in run]
                     for run in pauses]
            verdicts = self.verdicts_of(row, {"pause_ms": statistics.median(pauses[0][0])})
            table.rows.append([row.title, *cells[0], budget_text(row.budget), result_cell(verdicts, []), *cells[1]])
        self.add(table)

    def etcd(self):
        found = self.measured(rows.ETCD)
        if not found:
            return
        self.add(Heading("gRPC: Quorate beside etcd"), Text(BESIDE_ETCD))
        table = Table(["work", "rate", "p50", "p99", "server CPU", "rate: Quorate", "etcd", "p50, us: Quorate", "etcd",
                       "CPU/op, us: Quorate", "etcd", "budget", "result"], [])
        for row, result in found:
            table.rows.append(self.turns_cells(row, result["runs"], result["others"]))
        self.add(table)

    def turns_cells(self, row, ours, theirs):
        """Returns the cells of a row whose sides took turns, and have their figures by the keys of LIMIT_FIGURES."""
        spreads = {figure: spread_of([one[key] / other[key] for one, other in zip(ours, theirs)])
                   for figure, key in LIMIT_FIGURES}
        verdicts = self.verdicts_of(row, {figure: spread["median"] for figure, spread in spreads.items()})
        values = [number(statistics.median(one[key] for one in side))
                  for key in ("operations_per_second", "p50_us", "server_cpu_us") for side in (ours, theirs)]
        return [row.title, *map(spread_text, spreads.values()), *values, budget_text(row.budget), result_cell(verdicts, [])]

    def herd(self):
        for _, result in self.measured(rows.HERD):
            points = result["points"]
            self.add(Heading("Everyone comes back"), Text(
                f"{points[0]['sessions']:,} clients, each with a session and a connection, whose servers are all killed "
                "(SIGKILL) and started again at once. The clients do what ZooKeeper's Java library does: they wait up to "
                "a second before they connect to the next server. Seconds from the kill until sessions are back, of "
                "each round; and how many connections the clients began for that."))
            table = Table(["system", "first", "median", "p99", "last", "connections begun", "sessions lost"], [])
            for system, label in zip(rows.SYSTEMS, LABELS):
                of_system = [point for point in points if point["system"] == system]
                cells = [", ".join(number(point["seconds"][name]) for point in of_system)
                         for name in ("first", "median", "p99", "last")]
                lost = sum(point["lost"] + point["sessions"] - point["back"] for point in of_system)
                table.rows.append([label, *cells, number(statistics.median(point["attempts"] for point in of_system)),
                                   str(lost)])
            self.add(table)

    def where(self):
        found = self.measured(rows.WHERE)
        if not found:
            return
        self.add(Heading("Where the time goes"), Text(
            "Quorate alone, at the same loads: microseconds of processor time of all three servers for each "
            "operation, how much of it is spent in the kernel, and what `quorate bench` itself takes, which "
            "shares the processors with them; how many operations a second that leaves room for, if no "
            "processor ever had to wait; the threads that take it; how often threads run out of work "
            "and are woken again; and the system calls."))
        table = Table(["work", "operations/s", "server CPU/op, us", "in the kernel", "bench CPU/op, us",
                       "room for, operations/s", "threads, us", "wake-ups/op", "system calls/op"], [])
        for row, result in found:
            table.rows.append([row.title, *where_cells(result)])
        self.add(table, Text(WHERE_IT_GOES))

    def slowest(self):
        for _, result in self.measured(rows.SLOWEST):
            self.add(Heading("What the slowest writes wait for"), Text(
                "The load of the row at half of ZooKeeper's best rate, and less of it, at three members of "
                "Quorate alone on the machine, with their data on the disk and in memory (`/dev/shm`, where a "
                "sync costs nothing): what is gone in memory is the disk. Milliseconds, and how much of the "
                "processors servers and load generator use."))
            table = Table(["data", "writes/s", "p50", "p99", "p99.9", "slowest", "server CPU/op, us",
                           "of the processors"], [])
            for run in result["runs"]:
                measured = run["document"]["workloads"][0]["measurements"][0]
                latencies = measured["latencies"]["setData"]
                busy = ((measured["server_cpu_us"] + measured["tool_cpu_us"])
                        * measured["operations_per_second"] / 1e6 / result["processors"])
                table.rows.append([
                    f"on {run['place']}" if run["place"] == "disk" else "in memory",
                    number(measured["operations_per_second"]),
                    *(number(latencies[f"{figure}_us"] / 1000) for figure in ("p50", "p99", "p99.9", "max")),
                    number(measured["server_cpu_us"]), f"{busy:.0%}"])
            self.add(table, Text(SLOWEST_WRITES))

    # 2

    def idle(self):
        for row, result in self.measured(rows.IDLE):
            workload = result["runs"][0]["document"]["workloads"][0]
            spread = workload["ratios"]["server_cpu"]
            behind = ["cpu"] if is_behind(spread, False) else []
            cells = [number(cpu_ms_a_second(m)) for m in workload["measurements"]]
            self.add(Heading("Idle"), Text(
                "Three members with 100 sessions that do nothing but stay: milliseconds of processor time "
                "that all three servers use in a second. Quorate's members hear from one another every 100 ms, "
                "which is what it costs to notice in 0.3 seconds that a leader hangs."))
            self.add(Table(["", "Quorate, ms/s", "ZooKeeper, ms/s", "ratio", "result"], [
                [row.title, *cells, spread_text(spread),
                 result_cell([], self.note_behind(row, behind))]]))

    # 3

    def growth(self):
        found = {(result["kind"], result["system"]): result
                 for _, result in self.measured(GROWTH)}
        if not found:
            return
        self.add(Heading("Growth"), Text(
            "How each cost changes when one thing grows and all else stays: two clusters of the same system, "
            "the large one and the base, are measured in turns in one run, and the figures of the large one "
            "are divided by those of the base. 1 is: it makes no difference. \"Grows by more\" is where "
            "Quorate gets worse by more than a tenth, and by more than ZooKeeper does: the middle halves "
            "of the pairs do not meet. That is no word on which of them is the better one: how much "
            "processor time Quorate needs for an operation beside ZooKeeper is in the last column but one. "
            "The load is 30 x 8; \"watch\" has 100 watchers. Nodes to read and write are chosen at "
            "random among 1,000, but where the number of znodes grows, among all that have come "
            "last. Java goes on compiling while it runs: a ratio of ZooKeeper's just below 1 means "
            "nothing."))
        for kind in GROWTHS:
            results = [found.get((kind, system)) for system in rows.SYSTEMS]
            if any(results):
                self.growth_of(kind, results)

    def growth_of(self, kind, results):
        title, unit = GROWTHS[kind].title, GROWTHS[kind].unit
        base = next(result for result in results if result)["runs"][0]["base"]
        points = [growth_points(result) for result in results]
        table, bars = Table(["work", "size", "", "rate", "p50", "p99", "server CPU", "CPU/op, us",
                             "Quorate / ZooKeeper", "result"], []), []
        for work, size in dict.fromkeys([*points[0], *points[1]]):
            sides = [point.get((work, size)) for point in points]
            label = f"{work}, {size_text(size, unit)}"
            result, ratio = self.growth_result(f"{title}, {label}", sides)
            for series, side in enumerate(sides):
                if not side:
                    continue
                spreads = [side["ratios"][key] for _, key, _ in GROWTH_FIGURES]
                table.rows.append([work, size_text(size, unit), LABELS[series],
                                   *map(spread_text, spreads),
                                   number(side["measurements"][0]["server_cpu_us"]),
                                   *((ratio, result) if series == 0 else ("", ""))])
                if spreads[-1]:
                    bars.append(Bar(label, series, *(spreads[-1][k] for k in (
                        "median", "quartile1", "quartile3"))))
        self.add(Text(f"{bold(title)}, beside {size_text(base, unit)}:"), table)
        if bars:
            self.add(Chart(f"{title}: server CPU/op beside {size_text(base, unit)}", list(LABELS),
                           bars))

    def growth_result(self, label, sides):
        """Returns (the cell of the table, the ratio of processor time)."""
        if not all(sides):
            return "not measured beside ZooKeeper", NOT_KNOWN
        worse = [NAMES[figure] for figure, key, more in GROWTH_FIGURES
                 if grows_by_more(*(side["ratios"][key] for side in sides), more)]
        ratio = quotient(*(side["measurements"][0]["server_cpu_us"] for side in sides))
        parts = []
        if worse:
            parts.append(bold("grows by more: " + ", ".join(worse)))
            self.growing.append(f"{label}: {', '.join(worse)}")
        if ratio is not None and ratio > 1:
            parts.append(bold("behind: server CPU"))
            self.behind.append(f"{label}: server CPU {number(ratio)}")
        return "; ".join(parts), number(ratio)

    def growth_where(self):
        points = [point for _, result in self.measured(rows.GROWTH_WHERE) for point in result["points"]]
        if not points:
            return
        self.add(Heading("What grows, and why"), Text(HOW_GROWTH_IS_PROFILED))
        if not all(point[side]["functions"] for point in points for side in ("base", "large")):
            self.add(Text(bold("There is no profile of some of it, as `perf` could not take one, or not while the "
                               "load went on: only how much processor time is spent.")))
        self.add(*(Text(text) for kind, text in WHAT_GROWS.items()
                   if kind in {point["kind"] for point in points}), Text(WHAT_TAILS_ARE))
        self.add(Table(["work", "size", "CPU/op, us: base → large", "grown by", "of it in the kernel",
                        "threads that grow most", "functions that grow most"], [
                            growth_where_cells(point) for point in points]))

    # 4

    def tail(self):
        for row, result in self.measured(rows.TAIL):
            workload = result["runs"][0]["document"]["workloads"][0]
            measured = workload["measurements"]
            self.add(Heading("Tail"), Text(
                f"{result['minutes']:g} minutes, half of them for each, of a steady load of "
                f"{result['rate']:,} operations a second, half of them reads, over a tree of "
                f"{result['nodes']:,} nodes. It is a quarter of the rate of writes that ZooKeeper could do. "
                f"Every {result['snap_count']:,} writes a member takes a snapshot, begins new files "
                f"of the log and removes old ones. They take turns of {result['minutes'] * 60 / 8:g} seconds, "
                "so that what a system leaves for the kernel to write falls into its own turn, as a rule; "
                "at the end of a turn the rest is written. Latency counts from the time at which a request "
                "should have begun. Read the ratios; the times in brackets are those of this machine."))
            table = Table(["figure", "Quorate / ZooKeeper", "(Quorate, ZooKeeper)", "result"], [])
            figures = steady_figures(measured, ("setData", "getData"))
            for name, values, unit in figures:
                ratio = quotient(*values)
                is_worse = ratio is not None and ratio > 1
                if is_worse:
                    self.behind.append(f"{row.title}: {name} {number(ratio)}")
                table.rows.append([name, bold(number(ratio)) if is_worse else number(ratio),
                                   f"{number(values[0])}{unit}, {number(values[1])}{unit}",
                                   bold("behind") if is_worse else ""])
            table.rows.append(["snapshots taken by the three members", NOT_KNOWN,
                               ", ".join(map(str, result["snapshots"])), ""])
            self.add(table)

    # 5

    def checkpoints(self):
        for _, result in self.measured(rows.CHECKPOINTS):
            self.add(Heading("Checkpoints"), Text(
                f"Quorate beside itself: two clusters of three, each with a tree of {result['nodes']:,} nodes "
                f"and a steady load of {result['rate']:,} writes a second, {result['load_seconds']:g} seconds of it "
                f"for each. The one takes a checkpoint every {result['snap_count']:,} writes, the other one "
                "takes none. Latency counts from the time at which a request should have begun. A checkpoint "
                "writes to the disk that the writes of both clusters wait for; with the data in memory "
                "(`/dev/shm`) what is left is what it does to the servers themselves."))
            columns = [name for run in result["runs"] for name in (
                f"with / without, {run['place']}", "with", "without")]
            figures = [self.checkpoint_figures(run) for run in result["runs"]]
            self.add(Table(["figure", *columns], [
                [cells[0][0], *(cell for of_run in cells for cell in of_run[1:])] for cells in zip(*figures)]))

    @staticmethod
    def checkpoint_figures(run):
        measured = run["document"]["workloads"][0]["measurements"]
        return [*([name, number(quotient(*values)), *(f"{number(value)}{unit}" for value in values)]
                  for name, values, unit in steady_figures(measured, ("setData",))),
                ["checkpoints of the three members", NOT_KNOWN, *map(str, run["snapshots"])]]

    # 6

    def memory(self):
        found = self.measured(rows.MEMORY)
        if not found:
            return
        self.add(Heading("Memory and restart"), Text(
            "One server each; nodes with 100 bytes of data and names of 24 bytes: all in one directory "
            "(flat), in directories of 20, or in chains of 20, each the only child of the one above. "
            "Memory is what the process has grown by since it was empty (RSS), for each node: "
            "after the nodes were created, and after a restart. ZooKeeper's depends on how much heap it "
            "is allowed (-Xmx4g here), so that what lives on its heap after a full collection stands "
            "beside it; and an empty JVM has heap already, which it then fills without growing: where "
            "it has grown by less than what lives there, the ratio is that to the latter. A restart is "
            "timed from the start of the process until it serves, after it was stopped in good order, with "
            "its files in the page cache; the median."))
        table = Table(["tree", "nodes", "B/node, created: Quorate", "ZooKeeper", "ratio",
                       "B/node, restarted: Quorate", "ZooKeeper", "ratio",
                       "B/node, ZooKeeper's live heap", "restart, s: Quorate", "ZooKeeper", "ratio",
                       "budget", "result"], [])
        for row, result in found:
            points = [result["points"][system] for system in rows.SYSTEMS]
            for i, pair in enumerate(zip(*points)):
                table.rows.append(self.memory_cells(row, result["shape"], pair, is_first=i == 0))
        self.add(table)

    def memory_cells(self, row, shape, pair, is_first):
        nodes = pair[0]["nodes"]
        cells, behind = [shape, f"{nodes:,}"], []
        heap = pair[1].get("heap_bytes")
        for key in ("loaded_bytes", "restarted_bytes"):
            each = [point[key] / nodes for point in pair]
            used = max(each[1], (heap or 0) / nodes)
            cells += [*map(number, each), number(quotient(each[0], used))]
            behind += ["bytes"] if each[0] > used and "bytes" not in behind else []
        restart = [statistics.median(point["restart_seconds"]) for point in pair]
        behind += ["restart_seconds"] if restart[0] > restart[1] else []
        cells += [number(heap and heap / nodes), *map(number, restart), number(quotient(*restart))]
        # The budget of a restart is for the smaller tree.
        values = {"bytes": pair[0]["loaded_bytes"] / nodes,
                  "restart_seconds": restart[0] if is_first else None}
        verdicts = self.verdicts_of(row, values)
        return [*cells, budget_text({v.figure: v.limit for v in verdicts}),
                result_cell(verdicts, self.note_behind(row, behind))]


# The figures of a row beside the limit: the name in the budget, and the name in the output of `limit`.
LIMIT_FIGURES = (("rate", "operations_per_second"), ("p50", "p50_us"), ("p99", "p99_us"),
                 ("cpu", "server_cpu_us"))


def limit_figures(run):
    """Returns the figures of a run of `quorate bench` by the names that `limit` gives them."""
    measured = run["document"]["workloads"][0]["measurements"][0]
    latencies = next(iter(measured["latencies"].values()))
    return {**latencies, **{key: measured[key] for key in ("operations_per_second", "server_cpu_us")}}


def spread_of(values):
    if len(values) < 2:
        return {"median": values[0], "quartile1": values[0], "quartile3": values[0]}
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": median, "quartile1": low, "quartile3": high}


def where_cells(result):
    measurement = result["runs"][0]["document"]["workloads"][0]["measurements"][0]
    threads = sorted(result["threads"].items(), key=lambda thread: -thread[1]["us"])
    total = sum(figures["us"] for _, figures in threads)
    kernel = sum(figures["kernel_us"] for _, figures in threads)
    accounted = kernel + sum(figures["user_us"] for _, figures in threads)
    # The kinds of threads; threads that take hardly any time are left out.
    shares = [f"{name} {number(figures['us'])}" for name, figures in threads
              if figures["us"] > total / 50]
    calls = sorted((result["calls"] or {}).items(), key=lambda call: -call[1])
    texts = [f"{name} {number(count)}" for name, count in calls
             if count > sum(count for _, count in calls) / 50]
    share = quotient(kernel, accounted)
    return [number(measurement["operations_per_second"]), number(total),
            NOT_KNOWN if share is None else f"{share:.0%}", number(result["tool_cpu_us"]),
            number(quotient(result["processors"] * 1e6, total + result["tool_cpu_us"])),
            ", ".join(shares), number(sum(figures["sleeps"] for _, figures in threads)),
            ", ".join(texts) or NOT_KNOWN]


def ratio_bars(row, ratios):
    bars = []
    for series, key, figure in ((0, "operations_per_second", "rate"), (1, "p99", "p99"),
                                (2, "server_cpu", "cpu")):
        spread = ratios.get(key)
        if spread and not (row.name == "open-loop" and figure == "rate"):
            bars.append(Bar(row.title, series, spread["median"], spread["quartile1"],
                            spread["quartile3"], row.budget.get(figure)))
    return bars


def cpu_ms_a_second(measurement):
    if measurement["server_cpu_us"] is None:
        return None
    return measurement["server_cpu_us"] * measurement["operations"] / measurement["seconds"] / 1000


def steady_figures(measured, series):
    """Returns [(name, values, unit)] of a load at a fixed rate, with a value for each measurement."""
    figures = [(f"{share} of {name}", [m["latencies"][name][f"{share}_us"] / 1000 for m in measured],
                " ms")
               for name in series for share in ("p50", "p99", "p99.9", "max")]
    return [*figures,
            ("longest time without an answer", [m["longest_pause_ms"] for m in measured], " ms"),
            ("server CPU/op", [m["server_cpu_us"] for m in measured], " us")]


def growth_points(result):
    """Returns {(workload, size): the workload's part of bench's document}."""
    return {(workload["name"], run["size"]): workload for run in (result or {}).get("runs", ())
            for workload in run["document"]["workloads"]}


def growth_where_cells(point):
    base, large = point["base"], point["large"]
    unit = GROWTHS[point["kind"]].unit
    grown, in_kernel = (signed(large[figure] - base[figure]) for figure in ("cpu_us", "kernel_us"))
    return [point["work"], f"{size_text(point['size'], unit)} beside {size_text(point['base_size'], unit)}",
            f"{number(base['cpu_us'])} → {number(large['cpu_us'])}", grown, in_kernel,
            *(grown_text(base[each], large[each], most)
              for each, most in (("threads", THREADS_SHOWN), ("functions", FUNCTIONS_SHOWN)))]


def grown_text(base, large, most):
    """Returns a text about the names whose microseconds have grown most, without those with little growth."""
    grown = {name: spent - base.get(name, 0) for name, spent in large.items()}
    least = sum(more for more in grown.values() if more > 0) / 50
    names = sorted((name for name in grown if grown[name] > least), key=grown.get, reverse=True)[:most]
    return ", ".join(f"{name} {signed(grown[name])}" for name in names) or NOT_KNOWN


def grows_by_more(ours, theirs, more_is_better):
    """Returns whether growth makes Quorate worse by more than a tenth, and by more than ZooKeeper."""
    if not ours or not theirs:
        return False
    if more_is_better:
        return ours["median"] < 0.9 and ours["quartile3"] < theirs["quartile1"]
    return ours["median"] > 1.1 and ours["quartile1"] > theirs["quartile3"]


# --- The whole


def head_blocks(results):
    environments = {}
    for result in results.values():
        if "environment" in result:
            environments.setdefault(tuple(result["environment"].items()), []).append(result)
    blocks = [Heading("How it was measured")]
    if len(environments) > 1:
        blocks.append(Text(bold("The rows were measured in different environments, and do not belong "
                                "together: measure all of them again.")))
    if any(result.get("quick") for result in results.values()):
        blocks.append(Text(bold("Rows were measured with --quick: short, and small. They show that "
                                "the measurement works, not how fast anything is.")))
    for facts, found in environments.items():
        begun = sorted(result["begun"] for result in found)
        loads = sorted(result["load_average"] for result in found)
        table = Table(["", ""], [[key, value] for key, value in facts])
        table.rows.append(["begun", begun[0] if begun[0] == begun[-1] else f"{begun[0]} to {begun[-1]}"])
        table.rows.append(["load average when a row began",
                           f"{loads[0]:.1f} to {loads[-1]:.1f}, with what it left of the row before"])
        blocks.append(table)
    return blocks


def summary_blocks(document):
    met = sum(verdict.met for verdict in document.verdicts)
    blocks = [Heading("In short")]
    if document.verdicts:
        missed = [f"{v.row}: {v.words}" for v in document.verdicts if not v.met]
        blocks.append(Text(f"{met} of {len(document.verdicts)} figures of the budget are met."
                           + (" Missed:" if missed else "")))
        blocks.append(Items(missed))
    if document.behind:
        blocks += [Text("Quorate is behind ZooKeeper in:"), Items(document.behind)]
    else:
        blocks.append(Text("There is no figure below in which Quorate is behind ZooKeeper."))
    if document.growing:
        blocks += [Text("What grows by more at Quorate than at ZooKeeper, where nothing is said of who is "
                        "better:"), Items(document.growing)]
    if document.not_measured:
        blocks += [Text("What could not be measured:"), Items(document.not_measured)]
    return [block for block in blocks if not isinstance(block, Items) or block.items]


INTRODUCTION = (
    "Quorate and Debian's Apache ZooKeeper, with three members each unless something else is said, and the "
    "load generator on one machine, the data of both on one disk, each system with its own default "
    "settings (all writes are synced), ZooKeeper with a heap of 1 to 5 GB a member. "
    "`tools/performance/run` measures all of it and writes this page; `--help` tells how single rows are "
    "measured again.")
READING = (
    "What is to be read from it: ratios of two systems that took turns within one run, a second each, on "
    "the same machine with the same load (what the one has written is on the disk before the other's "
    "turn); and processor time, which hardly depends on what else the machine does. What is not: how many "
    "operations a second another machine does, or what a network between members costs; "
    "the load generator takes its share of the processors, as it does for both. "
    "Where the brackets reach from below 1 to above it, there is no difference to speak of.")


BESIDE_ETCD = (
    "Three members of Quorate and three of Debian's etcd 3.4, each with its own default settings, which answer the same "
    "calls over gRPC, made by one load generator (`tools/performance/grpc_load`) in turns within one run: unary calls of "
    "the tree beside those of etcd's KV service, a stream for each watcher, and both lock services. Quorate's figure is "
    "divided by etcd's. A linearizable get is etcd's default; the other one is its serializable get, which as Quorate's "
    "shows what one member has applied. C++ programs do better with sessions, which batch their requests.")


LIMIT_OF_THE_MACHINE = (
    "How far Quorate is from what this machine can do at all. The limit is a program of its own "
    "(`tools/performance/limit`): three single-threaded processes that do only the input and output which "
    "durable writes cannot avoid (receive, send to two followers, write and sync a batch, answer), with "
    "io_uring and without Raft, tree and sessions; for reads, three that answer 40 bytes with 120. Both have "
    "as many clients with one request at a time each, in turns within one run. Quorate's figure is divided by "
    "that of the limit: the median of the turns, and in brackets their middle half.")


WHERE_IT_GOES = (
    "Where a budget is missed, this is why, and what would be needed. A *write with nothing else under way* is "
    "a chain of threads that wake one another: the connection's, the node's and the log's on the leader, "
    "node and log of a follower, and back again; each wake-up costs more than what is done after it. With "
    "more under way each wake-up serves many, and nothing of this is left (30 x 32). Fewer are to be had by "
    "syncing on the thread that talks to the other members, which then falls silent whenever a disk "
    "stalls; by followers that hear only with the next write that a write is committed, whose clients "
    "then read and hear late; or by threads that spin instead of sleeping, and an idle cluster that costs "
    "as much as a busy one. None of it is worth it. Two more were built and measured, and brought too little: "
    "a leader that keeps writes back until those before them are committed, which makes fewer and larger "
    "batches (30 x 1: a rate of 0.97 times, for 2 % less processor time; with reads between the writes, "
    "1.09 times; locks are handed over in 1.2 times as long), and files of the log of which every byte was "
    "written before, so that a sync does not have to note in the file system that it is (30 x 1: a rate of "
    "1.06 times, for twice as much that is written; 1 x 1: no gain). *Connect and close* is two writes "
    "through the log "
    "and a TCP connection; *watch* is a send for each event, and a receive and a send to set the watch "
    "again. Their budgets are beyond the room that there is on this machine, with the client's own side of "
    "TCP included, and would be so with half of the servers' processor time; fewer system calls for many "
    "connections (io_uring) would come closer. Of the *tail at half of ZooKeeper's rate* the next section "
    "tells. *Memory* for a node contains what creating it has "
    "left in the process, such as entries of the log and buffers of the store: after a restart the same "
    "nodes take less, which is beside it.")


SLOWEST_WRITES = (
    "Most writes wait for the disk: in memory they take half of the time or less. The slowest hardly wait "
    "for it: of a thousand, one takes about as long in memory, some ten times as long as most, and longer "
    "where more writes a second leave the processors less to spare. They wait for processors. A write is "
    "some twenty wake-ups of threads, most of them one after the other, and each waits until one of the "
    "two processors is free of what three servers and the load generator do beside it. How much that is hardly depends "
    "on the rate, for at lower rates fewer writes share a wake-up. What "
    "would shorten it are fewer hand-overs between threads for a write that is alone, which is what was "
    "weighed above, or a processor for each member: machines of their own.")


HOW_GROWTH_IS_PROFILED = (
    "What grows by more above, at Quorate alone: the same load at the base and at the large cluster, twice "
    "each in turns, for some seconds in which `perf` takes samples of the processors. The time of a function, "
    "without that of others which it calls, is its share of the samples of the three servers, of the "
    "processor time that an operation takes; all of it in microseconds. What the kernel does while it "
    "keeps interrupts off counts where it lets them come again: `_raw_spin_unlock_irqrestore`, "
    "`finish_task_switch`, `handle_softirqs`. Where everything takes some percent more, with no function "
    "in front, the machine was slower at that time.")


# Texts by the kind of growth.
WHAT_GROWS = {
    "nodes": (
        "*A million znodes*: a read takes its time in the same functions as before, and longer in those that "
        "follow pointers into the tree: the slots and the name of the child (`ChildSet::FindIn`, "
        "`ChildSet::SegmentOf`), and its data, which is copied (`memmove`). No more is done, and nothing of "
        "it in the kernel: these wait for memory, where fewer nodes stay in the caches. A write does the "
        "same at each of three members, and frees the data that it replaces (`NodeMemory::Free`): that is what "
        "grows in the thread that applies. The rest is checkpoints, which have threads of their own "
        "(`checkpoint`, and `rocksdb:low`, which merges their files). They "
        "write what has changed, which of ten thousand nodes is the same ones many times, and of a million "
        "hardly any twice: more records are collected, sorted by name (`memcmp`) and merged. *Connect* has no "
        "use for the tree and does nothing else than before."),
    "sessions": (
        "*Ten thousand sessions*, at connect: all threads take somewhat longer, some half of it in the kernel. "
        "Nothing is done that grows with the sessions that are there: who says nothing is not looked at. "
        "But what is looked up and kept in order by session or connection takes longer (`SessionTable::Find`, "
        "`btree`), for the tables are larger than the caches, as is the kernel's table of a thread's sockets "
        "(`do_epoll_ctl`); and the disk is spoken to more often for each (`iowrite16`)."),
    "watches": (
        "*A million watches* make no difference to a connect: a change looks for the watches of its own node and of its "
        "parent, and as long as no node has a hundred of them, it is applied on the same thread as without any."),
    "values": (
        "*Bytes of data*: a write of 1,000 B is copied (`memmove`; in the kernel to the log's file, "
        "`copy_folio_from_iter_atomic`, and through sockets, `_copy_from_iter`, `_copy_to_iter`), "
        "and has its checksum taken (`Crc32cHardware` for the log, `XXH3` for the tree's digest) at each "
        "member. Of 100,000 B nothing else is left, but for one part in twelve, which is memory that is taken from the "
        "system for a batch of writes and given back after it (`exc_page_fault`). The largest is the copy into the "
        "page cache of the log's file, and checkpoints have as many bytes to write again. A read has only the copy out "
        "of the tree, and the one to the socket, to grow in; large answers are made in buffers that are kept for the "
        "next ones."),
}


WHAT_TAILS_ARE = (
    "A profile tells of processor time, not of waiting. Where only p50, p99 or the rate grow by more above, "
    "beside more sessions or members, there is no processor time to account for: an operation waits "
    "for one of the machine's processors, which all members and the load generator share, as "
    "the slowest writes do, or for a thread that is at something else.")


def build(results):
    """Returns all blocks of the document."""
    document = Document(results)
    for section in (document.budget, document.limit, document.linearizable, document.tls, document.etcd, document.herd,
                    document.where, document.slowest, document.idle, document.growth, document.growth_where, document.tail,
                    document.checkpoints, document.memory):
        section()
    commands = list(dict.fromkeys(run["command"] for row in ROWS if row.name in results
                                  for side in ("runs", "others") for run in results[row.name].get(side, ())))
    return [Text(INTRODUCTION), Text(READING), *summary_blocks(document), *head_blocks(results),
            *document.blocks, Heading("Command lines"),
            Text("Names in capitals stand for lists of servers and for directories."),
            Items([f"`{command}`" for command in commands])]


def to_markdown(blocks):
    parts = ["# Performance"]
    for block in blocks:
        if isinstance(block, Heading):
            parts.append(f"## {block.text}")
        elif isinstance(block, Text):
            parts.append(block.text)
        elif isinstance(block, Items):
            parts.append("\n".join(f"- {item}" for item in block.items))
        elif isinstance(block, Table):
            lines = [block.header, ["---"] + ["--:"] * (len(block.header) - 1), *block.rows]
            parts.append("\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
                                   for line in lines))
    return "\n\n".join(parts) + "\n"
