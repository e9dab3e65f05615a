"""Files of what workers of recipes print (recipes/history.h)."""

import os


def parse(path, line):
    """(ns, process, thread, event, words) of a line of bytes, without its end. `path`: of the file that has it."""
    try:
        ns, process, thread, event, *words = line.decode("ascii").split(" ")
        return int(ns), int(process), int(thread), event, words
    except ValueError as error:
        raise ValueError(f"{path}: no line of a history: {line!r}") from error


def lines(path):
    """What parse() returns of the lines that are whole: one that is just being written may be there in part, and of a
    process that is killed meanwhile the kernel may leave what fits into a page of the file."""
    with open(path, "rb") as file:
        *whole, _ = file.read().split(b"\n")
    return [parse(path, line) for line in whole]


def remove_cut_line(path):
    """Before another process goes on with a file whose last one was killed."""
    if not os.path.exists(path):
        return
    with open(path, "rb+") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
