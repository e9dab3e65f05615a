# SPDX-License-Identifier: Apache-2.0
"""Renders the document as one self-contained HTML page with charts, without scripts, style sheets or
fonts from elsewhere. The page follows the reader's choice of light or dark."""

import html
import math
import re

from document import Chart, Heading, Items, Table, Text

STYLE = """
:root { --ink: #1b1f24; --soft: #667; --line: #d5d9e0; --back: #fff; --odd: #f6f7f9;
        --c0: #2166ac; --c1: #d6604d; --c2: #4d9221; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --soft: #9aa; --line: #3a4048;
        --back: #16191d; --odd: #1d2126; --c0: #6aaee8; --c1: #f08a76; --c2: #8ccb5e; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back);
       max-width: 76em; margin: 2em auto; padding: 0 1em; }
p { max-width: 60em; }
.scroll { overflow-x: auto; margin: 1em 0; }
table { border-collapse: collapse; font-size: 13px; white-space: nowrap; }
th, td { padding: .25em .7em; text-align: right; border-bottom: 1px solid var(--line); }
th { white-space: normal; vertical-align: bottom; } tr:nth-child(odd) td { background: var(--odd); }
th:first-child, td:first-child, td:last-child { text-align: left; }
li { overflow-wrap: anywhere; } code { font-size: 12px; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; } svg .soft { fill: var(--soft); }
.axis { stroke: var(--line); } .one { stroke: var(--soft); } .limit { stroke: var(--ink); }
.c0 { stroke: var(--c0); fill: var(--c0); } .c1 { stroke: var(--c1); fill: var(--c1); }
.c2 { stroke: var(--c2); fill: var(--c2); }
"""
LABEL_WIDTH, PLOT_WIDTH, ROW_HEIGHT, GAP, TOP, MARGIN = 260, 620, 14, 10, 56, 20


def inline(text):
    """Returns the text with **bold** and `code` as HTML, and the rest unchanged."""
    text = html.escape(text, quote=False)
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
    return re.sub(r"`(.+?)`", r"<code>\1</code>", text)


def table_html(table):
    rows = ["<tr>" + "".join(f"<th>{inline(cell)}</th>" for cell in table.header) + "</tr>"]
    rows += ["<tr>" + "".join(f"<td>{inline(cell)}</td>" for cell in row) + "</tr>"
             for row in table.rows]
    return '<div class="scroll"><table>' + "\n".join(rows) + "</table></div>"


def chart_svg(chart):
    """Returns a chart of ratios, as points with the middle half of their pairs, on a logarithmic axis
    around 1. A tick marks the limit of the budget."""
    values = [value for bar in chart.bars
              for value in (bar.quartile1, bar.quartile3, bar.median, bar.limit or 1) if value > 0]
    low = math.floor(math.log10(min([0.5, *values])) * 2) / 2
    high = math.ceil(math.log10(max([2, *values])) * 2) / 2

    def x(value):
        share = (math.log10(max(value, 10 ** low)) - low) / (high - low)
        return round(LABEL_WIDTH + share * PLOT_WIDTH, 1)

    groups = {}
    for bar in chart.bars:
        groups.setdefault(bar.label, []).append(bar)
    height = TOP + sum(len(bars) * ROW_HEIGHT + GAP for bars in groups.values()) + 10
    parts = [f'<svg viewBox="0 0 {LABEL_WIDTH + PLOT_WIDTH + MARGIN} {height}" role="img" '
             f'style="max-width:{LABEL_WIDTH + PLOT_WIDTH + MARGIN}px;width:100%">',
             f"<title>{html.escape(chart.title)}</title>",
             f'<text x="0" y="14" font-weight="bold">{html.escape(chart.title)}</text>']
    for i, name in enumerate(chart.series):
        parts.append(f'<circle class="c{i}" cx="{LABEL_WIDTH + 130 * i}" cy="10" r="4"/>'
                     f'<text x="{LABEL_WIDTH + 10 + 130 * i}" y="14">{html.escape(name)}</text>')
    for power in range(math.floor(low), math.ceil(high) + 1):
        for mark in (10 ** power, 3 * 10 ** power):
            if low <= math.log10(mark) <= high:
                kind = "one" if mark == 1 else "axis"
                parts.append(f'<line class="{kind}" x1="{x(mark)}" x2="{x(mark)}" y1="40" '
                             f'y2="{height}"/><text class="soft" text-anchor="middle" x="{x(mark)}" '
                             f'y="34">{mark:g}</text>')
    y = TOP
    for label, bars in groups.items():
        parts.append(f'<text x="0" y="{y + 4 + (len(bars) - 1) * ROW_HEIGHT / 2}">'
                     f"{html.escape(label)}</text>")
        for bar in bars:
            parts.append(f'<line class="c{bar.series}" stroke-width="2" x1="{x(bar.quartile1)}" '
                         f'x2="{x(bar.quartile3)}" y1="{y}" y2="{y}"/>'
                         f'<circle class="c{bar.series}" cx="{x(bar.median)}" cy="{y}" r="4"/>')
            if bar.limit:
                parts.append(f'<line class="limit" stroke-width="2" x1="{x(bar.limit)}" '
                             f'x2="{x(bar.limit)}" y1="{y - 6}" y2="{y + 6}"/>')
            y += ROW_HEIGHT
        y += GAP
    return "\n".join([*parts, "</svg>"])


def to_html(blocks):
    parts = ['<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
             '<meta name="viewport" content="width=device-width"><title>Performance</title>'
             f"<style>{STYLE}</style></head><body><h1>Performance</h1>"]
    for block in blocks:
        if isinstance(block, Heading):
            parts.append(f"<h2>{inline(block.text)}</h2>")
        elif isinstance(block, Text):
            parts.append(f"<p>{inline(block.text)}</p>")
        elif isinstance(block, Items):
            parts.append("<ul>" + "\n".join(f"<li>{inline(item)}</li>" for item in block.items)
                         + "</ul>")
        elif isinstance(block, Table):
            parts.append(table_html(block))
        elif isinstance(block, Chart):
            parts.append(chart_svg(block))
    return "\n".join(parts) + "</body></html>\n"
