# SPDX-License-Identifier: Apache-2.0
"""Measures where the processor time of an operation goes: which threads take it, how much of it the
kernel takes, how often threads wake up, and which system calls are made."""

import collections
import concurrent.futures
import os
import re
import subprocess
import time

# The system calls that are counted; others are rare.
CALLS = ("sendto", "sendmsg", "recvfrom", "recvmsg", "read", "write", "pwrite64", "writev",
         "epoll_wait", "epoll_ctl", "futex", "fdatasync", "accept4", "close", "setsockopt")
# The time until the load has begun, and the time before its end in which it may be over.
BEFORE_SECONDS, AFTER_SECONDS = 1.0, 0.5


def threads_of(pids):
    """Returns {(pid, thread): (name, ns of processor time, user ticks, kernel ticks, times it slept)}."""
    found = {}
    for pid in pids:
        for thread in os.listdir(f"/proc/{pid}/task"):
            directory = f"/proc/{pid}/task/{thread}"
            try:
                with open(f"{directory}/stat", encoding="utf-8") as file:
                    name, rest = re.search(r"\((.*)\) (.*)", file.read(), re.DOTALL).groups()
                with open(f"{directory}/schedstat", encoding="utf-8") as file:
                    spent_ns = int(file.read().split()[0])
                with open(f"{directory}/status", encoding="utf-8") as file:
                    slept = int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", file.read(),
                                          re.MULTILINE)[1])
            except (FileNotFoundError, ProcessLookupError):
                continue  # the thread has ended
            fields = rest.split()
            found[pid, thread] = (name, spent_ns, int(fields[11]), int(fields[12]), slept)
    return found


def calls_during(pids, seconds):
    """Returns {system call: number of calls during `seconds`}; None if perf cannot count them."""
    events = ",".join(f"syscalls:sys_enter_{call}" for call in CALLS)
    try:
        done = subprocess.run(["perf", "stat", "-x", ";", "-e", events, "-p", ",".join(map(str, pids)),
                               "--", "sleep", str(seconds)], capture_output=True, text=True,
                              check=True, timeout=seconds + 60)
    except (OSError, subprocess.SubprocessError):
        time.sleep(seconds)
        return None
    counts = {}
    for line in done.stderr.splitlines():
        fields = line.split(";")
        if len(fields) > 2 and fields[0].isdigit():
            counts[fields[2].removeprefix("syscalls:sys_enter_")] = int(fields[0])
    return counts


def measure(bench, scale, workload, options):
    """Returns the result of the row of one workload."""
    ours, _ = bench.pair()
    seconds = 3 * scale.seconds
    options = [*options, "--seconds", seconds, "--warm-up-seconds", scale.warm_up_seconds]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        load = pool.submit(bench.alone, [workload], ours, options)
        time.sleep(scale.warm_up_seconds + BEFORE_SECONDS)
        pids = ours.pids()
        before, begun = threads_of(pids), time.monotonic()
        time.sleep((seconds - BEFORE_SECONDS - AFTER_SECONDS) / 2)
        after, took = threads_of(pids), time.monotonic() - begun
        # Counts system calls in a separate period, because counting takes processor time.
        counting_seconds = (seconds - BEFORE_SECONDS - AFTER_SECONDS) / 2
        calls = calls_during(pids, counting_seconds)
        run = load.result()
    measurement = run["document"]["workloads"][0]["measurements"][0]
    rate = measurement["operations_per_second"]
    threads = collections.defaultdict(lambda: collections.Counter())
    ticks_us = 1e6 / os.sysconf("SC_CLK_TCK")
    for key, (name, spent_ns, user, kernel, slept) in after.items():
        if key not in before:
            continue
        _, spent_before, user_before, kernel_before, slept_before = before[key]
        threads[name]["us"] += (spent_ns - spent_before) / 1000
        threads[name]["user_us"] += (user - user_before) * ticks_us
        threads[name]["kernel_us"] += (kernel - kernel_before) * ticks_us
        threads[name]["sleeps"] += slept - slept_before
    return {"runs": [run], "processors": os.cpu_count(), "tool_cpu_us": measurement["tool_cpu_us"],
            "threads": {name: {figure: value / (rate * took) for figure, value in figures.items()}
                        for name, figures in threads.items()},
            "calls": calls and {name: count / (rate * counting_seconds)
                                for name, count in calls.items()}}
