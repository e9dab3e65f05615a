# SPDX-License-Identifier: Apache-2.0
"""Tests that the programs are built so that an overflow of memory ends them instead of giving an attacker control."""

import os
import subprocess
import tempfile

import hardening
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


def test_programs_are_hardened():
    for program in PROGRAMS:
        lacking = [name for name, has in hardening.properties(os.path.realpath(program)).items() if not has]
        assert not lacking, f"{program} lacks: {', '.join(lacking)}"


def test_a_program_without_protection_is_found():
    with tempfile.TemporaryDirectory(prefix="quorate-binaries-") as directory:
        source, program = os.path.join(directory, "program.c"), os.path.join(directory, "program")
        with open(source, "w", encoding="ascii") as file:
            file.write(SOURCE)

        def compiled(flags, is_library=False):
            subprocess.run(("gcc", "-x", "c", source, "-w", "-o", program, *flags), check=True, timeout=60)
            return hardening.properties(program, is_library)

        good = compiled(GOOD)
        assert all(good.values()), good
        assert set(good) == set(BAD)
        for name, flags in BAD.items():
            lacking = [each for each, has in compiled(GOOD + flags).items() if not has]
            assert lacking == [name], f"{name}: {lacking}"
        as_library = (*(flag for flag in GOOD if flag not in ("-fPIE", "-pie")), "-fPIC", "-shared")
        assert all(compiled(as_library, is_library=True).values())
        assert not compiled(as_library)["position-independent"]  # it is no program
        assert not compiled((*as_library, "-Wl,-z,lazy"), is_library=True)["symbols bound at the start"]
