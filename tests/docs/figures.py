# SPDX-License-Identifier: Apache-2.0
"""The figures of docs/how-it-is-tested.md are those of the code. They may be a tenth lower, so that not every new test changes
the page, and never higher."""

import pathlib
import re
import subprocess

import harness

ROOT = pathlib.Path(harness.ROOT)


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def tracked(pattern):
    return subprocess.run(["git", "-C", ROOT, "ls-files", pattern], check=True, capture_output=True, text=True).stdout.split()


def rows_below(path, heading):
    """Returns how many rows the first table below a heading has."""
    table = text_of(path).partition(f"\n## {heading}\n")[2].partition("\n|")[2].partition("\n\n")[0]
    return table.count("\n|") - 1  # less the line of dashes


def figures_of_the_code():
    """Returns the figures in the order of the table."""
    return [
        sum(text_of(path).count("TEST_CASE") for path in tracked("*_test.cc")),
        len(tracked("tests/*/run")),
        len({path.split("/")[3].split(".")[0] for path in tracked("tests/fuzz/corpus/*")}),
        len(re.findall(r'^ *\{"', text_of("tests/simulation/seeded_bugs.h"), re.MULTILINE)),
        sum(bool(line.strip()) and not line.startswith("#") for line in text_of("tests/simulation/seeds.txt").splitlines()),
        rows_below("tests/simulation/README.md", "What it has found"),
        rows_below("tests/chaos/README.md", "What it has found"),
    ]


def test_the_figures_of_the_page_are_those_of_the_code():
    table = text_of("docs/how-it-is-tested.md").partition("## How much is there?")[2].partition("\n## ")[0]
    page = [int(figure.replace(",", "")) for figure in re.findall(r"\| ([\d,]+) \|$", table, re.MULTILINE)]
    code = figures_of_the_code()
    assert len(page) == len(code) and all(code), f"the page has {page}, the code {code}"
    for row, (shown, counted) in enumerate(zip(page, code), 1):
        assert 0.9 * counted <= shown <= counted, f"row {row} of the page says {shown}, the code has {counted}"
    return f"{len(page)} figures"


def test_the_recorded_sweep_is_the_one_of_the_page():
    page = text_of("docs/how-it-is-tested.md")
    record = re.search(r"seeds 1 to ([\d,]+) of one build, on two cores in \d+ s: (\d+) hours of virtual time, "
                       r"(\d+ million) events",
                       text_of("tests/simulation/README.md"))
    assert record, "tests/simulation/README.md does not record its last sweep: adapt this test to it"
    seeds, hours, events = record.groups()
    assert f"seeds 1 to {seeds}: {hours} hours, {events} events" in page, "the page does not have the last recorded sweep"


def test_the_picture_and_the_table_of_performance_are_those_of_the_measurements():
    result = subprocess.run([ROOT / "docs/performance_picture.py", "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def ratio(heading, begin):
    """Returns the first ratio in the first row of a section of PERFORMANCE.md that begins so."""
    section = text_of("PERFORMANCE.md").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    match = re.search(rf"^{re.escape(begin)} \| ([\d.]+) ?[\[|]", section, re.MULTILINE)
    assert match, f"PERFORMANCE.md, {heading}: no row begins with {begin!r}"
    return float(match.group(1))


def test_what_makes_it_slower_has_the_measured_ratios():
    page = text_of("docs/performance.md")
    tls = [f"{ratio('What TLS costs', f'| {work}, 30 x 32'):.2f}" for work in ("write", "read")]
    members = ratio("Growth", "| write | 5 members | Quorate") / ratio("Growth", "| write | 3 members | Quorate")
    linearizable = [ratio("What linearizable reads cost", f"| read, 30 x {depth}") for depth in (1, 32)]
    for text, holds in (
            (f"writes at {ratio('Growth', '| write | 1,000,000 znodes | Quorate'):.2f} of the rate", True),
            (f"writes at {tls[0]}, reads at {tls[1]} of the rate", True),
            ("half of the rate, or somewhat more", all(0.5 <= share < 0.6 for share in linearizable)),
            ("writes at about two thirds of the rate", 0.6 < members < 0.72),
            ("writes at a hundredth of the rate", 0.005 < ratio("Growth", "| write | 100,000 B | Quorate") < 0.015),
            ("p99 of writes doubles", 1.7 < ratio("Checkpoints", "| p99 of setData") < 2.3),
            ("Seven of 19 figures", "12 of 19 figures of the budget are met" in text_of("PERFORMANCE.md"))):
        assert text in page and holds, f"docs/performance.md does not agree with PERFORMANCE.md: {text}"
