# SPDX-License-Identifier: Apache-2.0
"""What a program or a shared library has against an attacker who can write beyond its memory."""

import os
import re
import subprocess


def readelf(*arguments):
    # The words of its output are those of the C locale.
    return subprocess.run(("readelf", "-W", *arguments), check=True, capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, LC_ALL="C")).stdout


def properties(program, is_library=False):
    """Returns {property: whether the program, or the shared library, has it}."""
    head, segments, dynamic = readelf("-h", program), readelf("-l", program), readelf("-d", program)
    imported = set(re.findall(r" UND (\w+)", readelf("--dyn-syms", program)))
    stack = re.search(r"GNU_STACK(?:\s+0x\w+){5}\s+([RWE ]+?)\s+0x", segments)
    flags = " ".join(re.findall(r"\((?:FLAGS|FLAGS_1)\)\s+(.*)", dynamic))
    return {
        "position-independent": "DYN" in re.search(r"Type:\s+(.*)", head)[1] and (is_library or "PIE" in flags),
        "relocations read-only": "GNU_RELRO" in segments,
        "symbols bound at the start": re.search(r"\bNOW\b|\bBIND_NOW\b", flags) is not None,
        "stack not executable": stack is not None and "E" not in stack[1],
        "stack protector": "__stack_chk_fail" in imported,
        "checked library calls": any(name.startswith("__") and name.endswith("_chk") for name in imported),
        "no search path of libraries": "(RPATH)" not in dynamic and "(RUNPATH)" not in dynamic,
    }
