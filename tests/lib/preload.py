# SPDX-License-Identifier: Apache-2.0
"""Compiles the libraries that are preloaded into the programs under test."""

import os
import subprocess


def build(source, directory):
    """Compiles a C source into a library in `directory`. Returns the path of the library."""
    name = os.path.splitext(os.path.basename(source))[0]
    library = os.path.join(directory, f"{name}.so")
    subprocess.run(["cc", "-std=c11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source, "-ldl"],
                   check=True)
    return library
