# SPDX-License-Identifier: Apache-2.0
"""Reads the history files of recipes' workers (recipes/history.h)."""

import os


def parse(path, line):
    """Parses a line of bytes without its end. Returns (ns, process, thread, event, words). `path`: the file of the
    line, for errors."""
    try:
        ns, process, thread, event, *words = line.decode("ascii").split(" ")
        return int(ns), int(process), int(thread), event, words
    except ValueError as error:
        raise ValueError(f"{path}: not a line of a history: {line!r}") from error


def lines(path):
    """Yields parse() of the complete lines. The last line may be incomplete: it is being written, or its process was
    killed meanwhile and the kernel has written only the part that fits into a page of the file."""
    with open(path, "rb") as file:
        *whole, _ = file.read().split(b"\n")
    return [parse(path, line) for line in whole]


def remove_cut_line(path):
    """Removes an incomplete last line. Called before another process continues the file of a killed process."""
    if not os.path.exists(path):
        return
    with open(path, "rb+") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
