# SPDX-License-Identifier: Apache-2.0
"""Profiles of a cluster before and after it has grown: samples of the servers' functions, as
microseconds for each operation."""

import collections
import concurrent.futures
import functools
import os
import re
import subprocess
import tempfile
import time

import measuring
import where

# Samples per second on each processor. All processes are sampled, because sampling only some would begin
# and end with each switch of threads, which costs more than the samples.
FREQUENCY = 1999
# The number of functions that are kept: those that take most time.
FUNCTIONS_KEPT = 40
POLL_SECONDS = 0.1
KERNEL = " (kernel)"

SAMPLE = re.compile(r"\s*(.+?)\s+\d+\s+(\S+)\s+[0-9a-f]+\s+(.*)")


def without_brackets(name):
    """Returns the name of a function without its arguments and template arguments."""
    kept, depth = "", 0
    for character in re.sub(r"operator *([-+*/<>=!&|]+|\(\)|\[\])", "operator", name):
        depth += character in "<([{"
        kept += character if depth == 0 else ""
        depth -= character in ">)]}"
    return kept


@functools.cache
def short_name(symbol):
    """Returns a readable name of a C++ function: the last two parts of its name; for a lambda, those of
    the function around it. All other names are returned unchanged."""
    if symbol.startswith("operator "):
        return symbol.partition("(")[0]
    function, is_lambda, _ = symbol.replace("(anonymous namespace)::", "").partition("::{lambda(")
    if is_lambda:
        # The lambda may be among the arguments of a template.
        depth = 0
        for at in reversed(range(len(function))):
            depth += (function[at] in ")>") - (function[at] in "(<")
            if depth < 0 or (depth == 0 and function[at] == ","):
                function = function[at + 1:]
                break
    name = without_brackets(function).removesuffix(" const").split(" ")[-1]
    parts = [part for part in name.split("::") if part != "Impl"][-2:]
    return "::".join(parts) + (", a lambda" if is_lambda else "") if name else symbol


def counts_of(lines):
    """Returns {"functions": {name: samples}, "threads": {name: samples}} from the lines of `perf script`."""
    functions, threads = collections.Counter(), collections.Counter()
    for line in lines:
        found = SAMPLE.fullmatch(line)
        if found:
            thread, mode, symbol = found.groups()
            threads[thread] += 1
            functions[symbol + KERNEL if mode == "K" else short_name(symbol)] += 1
    return {"functions": functions, "threads": threads}


def sample(path, seconds):
    """Writes samples of the whole machine during `seconds` to a file. There is no file if perf fails."""
    begun = time.monotonic()
    try:
        subprocess.run(["perf", "record", "-q", "-a", "-F", str(FREQUENCY), "-o", path, "--", "sleep",
                        str(seconds)], capture_output=True, check=True, timeout=seconds + 60)
    except (OSError, subprocess.SubprocessError):
        if os.path.exists(path):
            os.remove(path)
        time.sleep(max(0, seconds - (time.monotonic() - begun)))


def read(path, pids):
    """Returns the samples of these processes, as counts_of(); no samples if there is no such file."""
    if not os.path.exists(path):
        return counts_of([])
    done = subprocess.run(["perf", "script", "-i", path, "--pid", ",".join(map(str, pids)), "-F",
                           "comm,pid,misc,ip,sym"], capture_output=True, text=True, check=True, timeout=120)
    return counts_of(done.stdout.splitlines())


def sum_of_members(cluster, name):
    return sum(measuring.metric(cluster.address(i), name) or 0 for i in cluster.numbers())


def is_of_load(run, spent_ns, seconds):
    """Returns whether the servers were at least half as busy as under the load. On a busy machine the load
    may have begun late, or have ended early."""
    measured = run["document"]["workloads"][0]["measurements"][0]
    return spent_ns / 1000 > measured["server_cpu_us"] * measured["operations_per_second"] * seconds / 2


def profile(bench, scale, workload, cluster, options, beside):
    """Profiles one workload at one cluster, once the values of `beside`, {name in mntr: at least}, are
    reached. Returns one of the profiles that put_together() takes."""
    seconds = scale.profile_seconds
    # The load runs longer than the samples, so that they do not include the closing of idle sessions.
    options = [*options, "--seconds", where.BEFORE_SECONDS + 1.5 * seconds,
               "--warm-up-seconds", scale.warm_up_seconds / 2]
    pids = cluster.pids()
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "perf.data")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            load = pool.submit(bench.alone, [workload], cluster, options)
            while not load.done() and any(
                    sum_of_members(cluster, name) < least for name, least in beside.items()):
                time.sleep(POLL_SECONDS)
            time.sleep(scale.warm_up_seconds / 2 + where.BEFORE_SECONDS)
            before, begun = where.threads_of(pids), time.monotonic()
            sample(path, seconds)
            after, took = where.threads_of(pids), time.monotonic() - begun
            run = load.result()
        spent_ns = sum(after[thread][1] - before[thread][1] for thread in after if thread in before)
        samples = read(path, pids) if is_of_load(run, spent_ns, took) else counts_of([])
    user, kernel = (sum(after[thread][i] - before[thread][i] for thread in after if thread in before)
                    for i in (2, 3))
    return {"run": run, "user": user, "kernel": kernel, **samples}


def put_together(profiles):
    """Returns the result of a workload at a cluster, without functions and threads if there are no samples."""
    measured = [profile["run"]["document"]["workloads"][0]["measurements"][0] for profile in profiles]
    operations = sum(each["operations"] for each in measured)
    cpu_us = sum(each["server_cpu_us"] * each["operations"] for each in measured) / operations
    functions, threads = (sum((profile[each] for profile in profiles), collections.Counter())
                          for each in ("functions", "threads"))
    samples = sum(threads.values())
    if samples:  # samples are finer than the ticks of the kernel's clocks
        kernel_share = sum(count for name, count in functions.items() if name.endswith(KERNEL)) / samples
    else:
        kernel, user = (sum(profile[each] for profile in profiles) for each in ("kernel", "user"))
        kernel_share = kernel / max(1, user + kernel)
    return {"cpu_us": cpu_us, "kernel_us": cpu_us * kernel_share, "samples": samples,
            "functions": {name: cpu_us * count / samples for name, count in functions.items()},
            "threads": {name: cpu_us * count / samples for name, count in threads.items()}}


def keep_most(base, large):
    """Drops the functions that take little time at both clusters."""
    kept = {name for side in (base, large)
            for name in sorted(side["functions"], key=side["functions"].get, reverse=True)[:FUNCTIONS_KEPT]}
    return [{**side, "functions": {name: spent for name, spent in side["functions"].items() if name in kept}}
            for side in (base, large)]
