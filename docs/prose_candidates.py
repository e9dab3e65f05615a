#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Lists text that may need another reading, as an aid to reviewers. It is not a gate. Prints a line
for each text, FILE:LINE: REASON: TEXT, and how many there are for each reason.

  docs/prose_candidates.py [--reason REASON]... [--sample N] [PATH...]

Looks at comments in C++ and protos, at log and error messages, and at Markdown, below the paths (default:
everything). Reasons:
  word     a word that the glossary (docs/glossary.md) has replaced
  short    a comment on a line of its own with fewer than five words
  long     a sentence of more than 35 words
  verb     a log or error message of several words without a verb"""

import argparse
import collections
import os
import random
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
REASONS = ("word", "short", "long", "verb")
WORDS_MIN, WORDS_MAX = 5, 35
REPLACED = re.compile(
    r"\b(doors?|entrance|pictures?|standing(?! still)|births?|founding|founded|founders?|origin tags?|spare files?|planted"
    r"|excuses?|strangers?|anew|commit news)\b", re.IGNORECASE)
MESSAGE = re.compile(r"spdlog::(?:debug|info|warn|error|critical)\(|absl::\w+Error\(")
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# Enough to tell a clause from a bare noun; not a parser.
VERB = re.compile(
    r"\b(is|are|was|were|be|has|have|had|does|do|did|can|cannot|could|may|must|will|needs?|not|no|\w+(?:s|ed|en|ing))\b")


def main():
    options = parse()
    found = [each for path in tracked(options.paths) for each in candidates(path) if each[2] in options.reasons]
    shown = random.sample(found, min(options.sample, len(found))) if options.sample else found
    for path, number, reason, text in sorted(shown):
        print(f"{path}:{number}: {reason}: {text}")
    counts = collections.Counter(reason for _, _, reason, _ in found)
    print(", ".join(f"{counts[reason]} {reason}" for reason in options.reasons))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reason", action="append", choices=REASONS, dest="reasons")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="print only N of them, chosen at random")
    parser.add_argument("paths", nargs="*", default=["."])
    options = parser.parse_args()
    options.reasons = options.reasons or list(REASONS)
    return options


def tracked(paths):
    """Returns the files below `paths` without third-party files, relative to the root."""
    listed = subprocess.run(["git", "ls-files", "--", *paths], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in listed.stdout.splitlines()
            if path.endswith((".h", ".cc", ".proto", ".md")) and not path.startswith("third_party/")]


def candidates(path):
    """Yields (path, line, reason, text) of one file."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        lines = file.read().splitlines()
    texts = paragraphs(lines) if path.endswith(".md") else comments(lines)
    for number, text in texts:
        if REPLACED.search(text):
            yield path, number, "word", text
        if not path.endswith(".md") and len(text.split()) < WORDS_MIN and "---" not in text:
            yield path, number, "short", text
        for sentence in re.split(r"(?<=[.;:?!])\s", text):
            if len(sentence.split()) > WORDS_MAX:
                yield path, number, "long", sentence
    if path.endswith(".cc"):
        for number, text in messages(lines):
            if len(text.split()) >= 2 and not VERB.search(text):
                yield path, number, "verb", text


def comments(lines):
    """Yields (line, text) of each comment on lines of its own."""
    block, begin = [], 0
    for number, line in enumerate(lines + [""], 1):
        match = re.match(r"\s*// ?(.*)", line)
        if match and match[1].strip():
            begin = begin if block else number
            block.append(match[1].strip())
        elif block:
            yield begin, " ".join(block)
            block = []


def paragraphs(lines):
    """Yields (line, text) of each paragraph of Markdown, without code and tables."""
    block, begin, in_code = [], 0, False
    for number, line in enumerate(lines + [""], 1):
        if line.startswith("```"):
            in_code = not in_code
        if in_code or not line.strip() or line.startswith(("    ", "|", "#", "```", "- ", "* ")):
            if block:
                yield begin, " ".join(block)
                block = []
            if not in_code and line.startswith(("- ", "* ")):
                block, begin = [line[2:].strip()], number
        else:
            begin = begin if block else number
            block.append(line.strip())


def messages(lines):
    """Yields (line, text) of each log and error message: the strings of the call."""
    for number, line in enumerate(lines, 1):
        if MESSAGE.search(line):
            call = "\n".join(lines[number - 1:number + 8]).split(";\n")[0]
            yield number, "".join(STRING.findall(call))


if __name__ == "__main__":
    sys.exit(main())
