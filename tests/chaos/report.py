# SPDX-License-Identifier: Apache-2.0
"""Makes the lines that a run prints on the terminal: while it goes on, and at its end."""

import page


def live_line(now, seconds, totals, nemeses):
    """Returns the line shown during a run. `totals`: as Scene.totals(). `nemeses`: those of the current faults."""
    counts, age = totals
    return (f"{now:5.0f} of {seconds:.0f} s  ok {counts['ok']}  refused {counts['refused']}  "
            f"unknown {counts['unknown']}  last write {'-' if age is None else f'{age:.1f} s ago'}  "
            f"faults: {', '.join(sorted(nemeses)) or '-'}")


def summary(outcome):
    """Returns the lines shown at the end of a run."""
    lines = [f"{outcome.faults} faults; " + ", ".join(f"{n} {key}" for key, n in outcome.totals.items())]
    if outcome.steady_seconds is not None:
        shares = [f"{100 * share:.0f} % {when}" for share, when in (
            (outcome.share, "in all"), (outcome.share_steady, "in steady periods")) if share is not None]
        lines.append(f"{outcome.steady_seconds:.0f} s were steady; of the operations that were possible, clients got done "
                     + ", ".join(shares))
    if outcome.served_after is not None:
        lines.append(f"all members served {outcome.served_after:.1f} s after the last fault was healed")
    for check in page.checks_of(vars(outcome)):
        lines.append(f"{'ok  ' if check['ok'] else 'FAIL'} {check['name']}: {page.counts_of(check)}")
    lines += outcome.notes
    lines += [f"PROBLEM: {problem}" for problem in outcome.problems]
    return lines if outcome.problems else [*lines, "nothing is wrong"]
