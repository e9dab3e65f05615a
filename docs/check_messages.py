#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Compares docs/messages.md with the messages that the servers log. Prints
each message without a row there, each row without a message, and each row whose level differs from the message's. Exits
with status 1 if there is such a difference. With --list it prints the messages of the sources."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIRECTORIES = ("base", "consensus", "rpc", "tree")
LEVELS = {"info": "info", "warn": "warning", "error": "error", "err": "error", "critical": "critical"}
CALL = re.compile(r"(?:\bspdlog::|\blogger\w*(?:\(\))?->)(info|warn|error|critical)\(\s*"
                  r"|\bspdlog::log\(\s*spdlog::level::(info|warn|err|critical),\s*")
# Finds the messages that a log sink writes by itself.
OWN = re.compile(r"\bfmt::format\(\s*")
OWN_LEVEL = re.compile(r"\blog_msg\([^;]*level::(info|warn|err|critical)\b")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"\s*')
ROW = re.compile(r"\| (info|warning|error|critical) \| `(.+?)` \|(?:.* `(\w+)` \|)?")
# A row of the table of the events' names, of one line or two.
EVENT = re.compile(r'^    \{"(\w+)",\s*', re.MULTILINE)


def literal_at(text, at):
    """Returns the string that begins at `at`, of one or more literals; "" if there is none."""
    parts = []
    while match := LITERAL.match(text, at):
        parts.append(match.group(1))
        at = match.end()
    return re.sub(r"\\(.)", r"\1", "".join(parts))


def literals_at(text, at):
    """Returns the strings that may stand at `at`: one, or the two of a conditional expression; none if it is no literal."""
    if message := literal_at(text, at):
        return [message]
    choice = re.compile(r"[^\";]*\?\s*").match(text, at)
    first = literal_at(text, choice.end()) if choice else ""
    second = re.compile(r'(?:"(?:[^"\\]|\\.)*"\s*)+:\s*').match(text, choice.end()) if first else None
    return [first, literal_at(text, second.end())] if second else []


def messages():
    """Returns {message: (level, place)}. Leaves out the message "{}", whose whole text comes from the caller."""
    found = {}
    for directory in DIRECTORIES:
        for path in sorted((ROOT / directory).glob("**/*")):
            if path.suffix not in (".cc", ".h") or path.stem.endswith(("_test", "_test_util")):
                continue
            text = path.read_text(encoding="utf-8")
            calls = [(match, LEVELS[match.group(1) or match.group(2)]) for match in CALL.finditer(text)]
            if own := OWN_LEVEL.search(text):
                calls += [(match, LEVELS[own.group(1)]) for match in OWN.finditer(text)]
            for match, level in calls:
                place = f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}"
                alternatives = literals_at(text, match.end())
                if not all(alternatives or [""]):
                    sys.exit(f"{place}: the message is no literal, which {pathlib.Path(__file__).name} needs")
                for message in alternatives:
                    if message != "{}":
                        found[message] = (level, place)
    return found


def events():
    """Returns {message: name} of the table from which the log with log.format=json takes its names."""
    text = (ROOT / "rpc/quorated/log_events.cc").read_text(encoding="utf-8")
    return {literal_at(text, match.end()): match.group(1) for match in EVENT.finditer(text)}


def compare_events(logged, explained):
    """Returns the differences between the table of events, the messages, and the names in docs/messages.md."""
    named = events()
    problems = [f"{place}: rpc/quorated/log_events.cc has no name for: {message}"
                for message, (_, place) in logged.items() if message not in named]
    problems += [f"rpc/quorated/log_events.cc: no server logs this: {message}" for message in named if message not in logged]
    names = list(named.values())
    problems += [f"rpc/quorated/log_events.cc: the name is there twice: {name}" for name in set(names) if names.count(name) > 1]
    for message, (_, number, name) in explained.items():
        if name != named.get(message):
            problems.append(f"docs/messages.md:{number}: the event of this message is {named.get(message)}, "
                            f"not {name}: {message}")
    return problems


def rows():
    """Returns {message: (level, line number, name of the event)} of the table."""
    path = ROOT / "docs/messages.md"
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := ROW.match(line):
            found[match.group(2)] = (match.group(1), number, match.group(3))
    return found


def main():
    logged = messages()
    if sys.argv[1:] == ["--list"]:
        for message, (level, place) in sorted(logged.items(), key=lambda item: item[1][1]):
            print(f"{place}\n| {level} | `{message}` |")
        return 0
    explained = rows()
    problems = []
    for message, (level, place) in logged.items():
        if message not in explained:
            problems.append(f"{place}: docs/messages.md does not explain: {message}")
        elif explained[message][0] != level:
            problems.append(f"{place}: docs/messages.md:{explained[message][1]} says {explained[message][0]}, "
                            f"the message is of level {level}: {message}")
    problems += compare_events(logged, explained)
    for message, (_, number, _) in explained.items():
        if message not in logged:
            problems.append(f"docs/messages.md:{number}: no server logs this: {message}")
    print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
