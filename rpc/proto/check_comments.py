#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Prints each message, field, value, method and service of rpc/proto/quorate that has no comment right
above it. Exits with status 1 if there is one."""

import pathlib
import re
import sys

DECLARATION = re.compile(r"""
    (message | enum | service | rpc)\s+(\w+)            # what has a body or arguments
    | ((optional | repeated)\s+)?[\w.]+\s+(\w+)\s*=\s*\d+  # a field
    | (\w+)\s*=\s*\d+                                    # a value of an enum
    """, re.VERBOSE)


def main():
    here = pathlib.Path(__file__).resolve().parent
    missing = 0
    for path in sorted(here.glob("quorate/**/*.proto")):
        above = ""
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            text = line.strip()
            if DECLARATION.match(text) and not above.startswith("//"):
                print(f"{path}:{number}: no comment above: {text}", file=sys.stderr)
                missing += 1
            above = text
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
