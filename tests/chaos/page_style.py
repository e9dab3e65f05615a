# SPDX-License-Identifier: Apache-2.0
"""The style of a run's page, for light and dark mode."""

_STYLE = """
:root { color-scheme: light dark; --back: #fcfcfb; --ink: #1c1f23; --soft: #6b727b; --grid: #e6e7ea; --row: #f1f2f4;
  --leads: #dfe9d8; --ok: #4c7fb8; --refused: #b9bec6; --unknown: #e0662f; --pause: #f6d4c8;
  --p50: #4c7fb8; --p99: #8a63b8; --max: #c9a227; --good: #2e8b57; --bad: #c8322b; --label: #fff;
  --process: #c0392b; --network: #2c6fbb; --disk: #b07d12; --clock: #7d4bb5; --workers: #4d8a6a; --membership: #a34d7f; }
@media (prefers-color-scheme: dark) { :root { --back: #15171a; --ink: #e4e6e9; --soft: #949ca6; --grid: #2a2e33;
  --row: #1e2226; --leads: #283524; --ok: #5f97d4; --refused: #5d646d; --unknown: #f08050; --pause: #4a2a20;
  --p50: #6aa3e0; --p99: #ae8be0; --max: #d9b84a; --good: #56b884; --bad: #ee6a60; --label: #fff;
  --process: #cf5145; --network: #3e82cf; --disk: #b98a24; --clock: #9263cc; --workers: #569a78; --membership: #bb6597; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 28px 24px 60px; max-width: 1208px; background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", "Helvetica Neue", sans-serif; }
h1 { margin: 0 0 18px; font-size: 28px; font-weight: 650; }
h3 { margin: 20px 0 2px; font-size: 15px; } h3 + p { margin: 0 0 6px; }
h2 { margin: 30px 0 8px; font-size: 17px; font-weight: 600; }
.good { color: var(--good); } .bad { color: var(--bad); }
.tiles { display: flex; flex-wrap: wrap; gap: 10px 34px; margin-bottom: 20px; }
.tiles b { display: block; font-size: 22px; font-weight: 600; font-variant-numeric: tabular-nums; }
.tiles small { color: var(--soft); font-size: 13px; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; margin: 0 0 12px; color: var(--soft); font-size: 13px; }
.legend b { flex-basis: 100%; height: 0; }
.key { display: inline-block; width: 12px; height: 12px; margin-right: 6px; border-radius: 2px; vertical-align: -1px;
  background: var(--key); }
.key.stroke { height: 3px; vertical-align: 4px; }
svg { display: block; width: 100%; height: auto; margin: 0 0 10px; overflow: visible; }
svg text { fill: var(--ink); font: 12px system-ui, "Segoe UI", "Helvetica Neue", sans-serif; }
svg .axis { fill: var(--soft); font-size: 11.5px; font-variant-numeric: tabular-nums; }
svg .name { font-weight: 600; font-size: 13px; }
svg .label { fill: var(--label); font-size: 9px; font-weight: 600; pointer-events: none; }
svg .beside { fill: var(--soft); font-weight: 400; }
svg .death { fill: var(--bad); font-size: 26px; font-weight: 700; }
svg .grid { stroke: var(--grid); stroke-width: 1; }
svg .line { fill: none; stroke: var(--key); stroke-width: 1.5; stroke-linejoin: round; }
svg rect { fill: var(--key); }
svg .fault { rx: 2px; } svg .fault:hover { stroke: var(--ink); stroke-width: 1.5; }
.ok { --key: var(--ok); } .refused { --key: var(--refused); } .unknown { --key: var(--unknown); }
.pause { --key: var(--pause); } .row { --key: var(--row); } .leads { --key: var(--leads); }
.p50 { --key: var(--p50); } .p99 { --key: var(--p99); } .max { --key: var(--max); }
.process { --key: var(--process); } .network { --key: var(--network); } .disk { --key: var(--disk); }
.clock { --key: var(--clock); } .membership { --key: var(--membership); } .workers { --key: var(--workers); }
table { border-collapse: collapse; font-size: 14px; } th { color: var(--soft); font-weight: 500; text-align: left; }
td, th { padding: 4px 18px 4px 0; border-bottom: 1px solid var(--grid); vertical-align: top; }
.plain tr:first-child { display: none; } .plain td:first-child { color: var(--soft); white-space: nowrap; }
.checks { font-variant-numeric: tabular-nums; }
pre { padding: 10px 14px; overflow-x: auto; background: var(--row); border-radius: 6px; font-size: 12.5px; }
pre.problem { border-left: 3px solid var(--bad); white-space: pre-wrap; }
summary { margin: 22px 0 8px; cursor: pointer; color: var(--soft); }
"""


def document(title, body):
    return (f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{_STYLE}</style>\n'
            f"<body>\n{body}\n</body></html>\n")
