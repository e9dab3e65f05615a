# SPDX-License-Identifier: Apache-2.0
"""Tests that the programs are built so that an overflow of memory ends them instead of giving an attacker control."""

import os
import re
import subprocess
import tempfile

import harness
import quorate_cli

# What is installed on the machines of users.
PROGRAMS = (os.environ.get("QUORATED") or harness.SERVERS["quorate"], quorate_cli.PROGRAM)

SOURCE = r"""
#include <stdio.h>
#include <string.h>
int main(int count, char** words) {
  char text[16];
  strcpy(text, words[count - 1]);
  return puts(text) < 0;
}
"""
GOOD = ("-O2", "-fPIE", "-pie", "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-Wl,-z,relro,-z,now",
        "-Wl,-z,noexecstack")
# For each property, the flags that a program without it is compiled with.
BAD = {
    "position-independent": ("-fno-PIE", "-no-pie"),
    "relocations read-only": ("-Wl,-z,norelro",),
    "symbols bound at the start": ("-Wl,-z,lazy",),
    "stack not executable": ("-Wl,-z,execstack",),
    "stack protector": ("-fno-stack-protector",),
    "checked library calls": ("-U_FORTIFY_SOURCE",),
    "no search path of libraries": ("-Wl,-rpath,/tmp",),
}


def readelf(*arguments):
    # The words of its output are those of the C locale.
    return subprocess.run(("readelf", "-W", *arguments), check=True, capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, LC_ALL="C")).stdout


def properties(program):
    """Returns {property: whether the program has it}."""
    head, segments, dynamic = readelf("-h", program), readelf("-l", program), readelf("-d", program)
    imported = set(re.findall(r" UND (\w+)", readelf("--dyn-syms", program)))
    stack = re.search(r"GNU_STACK(?:\s+0x\w+){5}\s+([RWE ]+?)\s+0x", segments)
    flags = " ".join(re.findall(r"\((?:FLAGS|FLAGS_1)\)\s+(.*)", dynamic))
    return {
        "position-independent": "DYN" in re.search(r"Type:\s+(.*)", head)[1] and "PIE" in flags,
        "relocations read-only": "GNU_RELRO" in segments,
        "symbols bound at the start": re.search(r"\bNOW\b|\bBIND_NOW\b", flags) is not None,
        "stack not executable": stack is not None and "E" not in stack[1],
        "stack protector": "__stack_chk_fail" in imported,
        "checked library calls": any(name.startswith("__") and name.endswith("_chk") for name in imported),
        "no search path of libraries": "(RPATH)" not in dynamic and "(RUNPATH)" not in dynamic,
    }


def test_programs_are_hardened():
    for program in PROGRAMS:
        lacking = [name for name, has in properties(os.path.realpath(program)).items() if not has]
        assert not lacking, f"{program} lacks: {', '.join(lacking)}"


def test_a_program_without_protection_is_found():
    with tempfile.TemporaryDirectory(prefix="quorate-binaries-") as directory:
        source, program = os.path.join(directory, "program.c"), os.path.join(directory, "program")
        with open(source, "w", encoding="ascii") as file:
            file.write(SOURCE)

        def compiled(flags):
            subprocess.run(("gcc", "-x", "c", source, "-w", "-o", program, *flags), check=True, timeout=60)
            return properties(program)

        good = compiled(GOOD)
        assert all(good.values()), good
        assert set(good) == set(BAD)
        for name, flags in BAD.items():
            lacking = [each for each, has in compiled(GOOD + flags).items() if not has]
            assert lacking == [name], f"{name}: {lacking}"
