# SPDX-License-Identifier: Apache-2.0
"""The packages of the C++ client: a program outside this repository is built with them and runs. tests/deploy has what needs
no package."""

import os
import shutil

import harness
import root as roots

OUTSIDE = os.path.join(harness.ROOT, "tests/deploy/outside")
WORK = "/srv/outside"
SERVER = "localhost:2281"


def the_library_is_installed_with_all_that_it_needs(machine):
    machine.install("libquorate-client0", "libquorate-client-dev", "quorate-server")
    root = machine.root
    assert root.output("dpkg", "--verify", "libquorate-client0", "libquorate-client-dev") == ""
    library = root.output("sh", "-c", "dpkg -L libquorate-client0 | grep '/libquorate-client.so'")
    assert root.output("sh", "-c", f"ldd {library} | grep 'not found' || true") == ""
    assert os.path.basename(library) in root.output("ldconfig", "--print-cache"), library
    root.run("apt-get", "--yes", "--quiet", "--no-install-recommends", "install", "g++", "cmake", "make", "pkg-config",
             outside=True, seconds=600)
    shutil.copytree(OUTSIDE, root.file(WORK))


def _check(machine, program, shared):
    needed = machine.root.output("sh", "-c", f"readelf --dynamic {program} | grep NEEDED")
    assert ("libquorate-client.so" in needed) == shared, f"{program}: {needed}"
    assert machine.root.output(program, SERVER) == "OK"


def a_program_is_built_and_runs_with_the_packages(machine):
    root = machine.root
    with roots.Service(root):
        for package in ("quorate-client", "quorate-client-static"):
            root.run("sh", "-e", "-c", f"cd {WORK} && g++ -std=c++20 -Wall -Werror program.cc -o {package} "
                     f"$(pkg-config --cflags --libs {package})", seconds=300)
            _check(machine, f"{WORK}/{package}", not package.endswith("static"))
        root.run("cmake", "-S", WORK, "-B", f"{WORK}/build")
        root.run("cmake", "--build", f"{WORK}/build", seconds=300)
        _check(machine, f"{WORK}/build/with_shared", True)
        _check(machine, f"{WORK}/build/with_static", False)


def an_example_is_built_from_its_package(machine):
    root = machine.root
    example = root.output("sh", "-c", "dpkg -L libquorate-client-dev | grep '/basic.cc'")
    root.run("sh", "-e", "-c", f"cd {WORK} && cp {example} . && "
             "g++ -std=c++20 basic.cc -o basic $(pkg-config --cflags --libs quorate-client)", seconds=300)
    with roots.Service(root):
        assert "read: v1" in root.output(f"{WORK}/basic", SERVER)


def the_library_goes_with_its_packages(machine):
    machine.root.run("dpkg", "--purge", "libquorate-client-dev", "libquorate-client0")
    assert not os.path.exists(machine.root.file("/usr/include/quorate"))


TESTS = (the_library_is_installed_with_all_that_it_needs, a_program_is_built_and_runs_with_the_packages,
         an_example_is_built_from_its_package, the_library_goes_with_its_packages)
