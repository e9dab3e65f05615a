# SPDX-License-Identifier: Apache-2.0
"""The C++ client as programs outside this repository have it: what deploy/client_library lays out. tests/packages does the
same with the installed packages."""

import concurrent.futures
import importlib.machinery
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile

import hardening
import harness

TOOL = os.path.join(harness.ROOT, "deploy/client_library")
OUTSIDE = os.path.join(harness.ROOT, "tests/deploy/outside")
NAME = "quorate-client"
WARNINGS = ("-std=c++20", "-Wall", "-Wextra", "-Wshadow", "-Wnon-virtual-dtor", "-Werror")


def _run(command, **options):
    """Runs a command. Returns its output; raises AssertionError if it fails."""
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)
    assert result.returncode == 0, f"{' '.join(command)}: {harness.end_of(result.stdout + result.stderr, 40)}"
    return result.stdout


class Outside:
    """A directory with the laid out client and the sources of a program that uses it; nothing of this repository is below it
    or named by it. Use as a context manager."""

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="quorate-outside-")
        self.path = self.temporary.name
        self.client = f"{self.path}/client"
        _run([TOOL, "--version", "0.1.0", self.client])
        self.work = f"{self.path}/work"
        shutil.copytree(OUTSIDE, self.work)
        self.lib = f"{self.client}/lib"
        (self.shared,) = [name for name in os.listdir(self.lib) if name.startswith(f"lib{NAME}.so.")]
        return self

    def __exit__(self, *_):
        self.temporary.cleanup()

    def flags(self, package):
        """Returns the flags that pkg-config tells for a package, as if the client were installed in /usr."""
        return _run(["pkg-config", "--cflags", "--libs", f"--define-variable=libdir={self.lib}",
                     f"--define-variable=includedir={self.client}/include", package],
                    env=dict(os.environ, PKG_CONFIG_PATH=f"{self.lib}/pkgconfig")).split()

    def check_program(self, path, shared):
        """Runs the program against a server, and checks which form of the library it has."""
        needed = re.findall(r"NEEDED.*\[(.*)\]", _run(["readelf", "--dynamic", path]))
        assert (self.shared in needed) == shared, f"{path} needs {needed}"
        with harness.Cluster("quorate", size=1) as cluster:
            output = _run([path, cluster.grpc(1)], cwd=self.work, env=dict(os.environ, LD_LIBRARY_PATH=self.lib))
        assert output == "OK\n", output


def each_public_header_compiles_alone(outside):
    headers = []
    for folder, _, names in os.walk(f"{outside.client}/include"):
        headers += [os.path.relpath(os.path.join(folder, name), f"{outside.client}/include") for name in names]
    assert "quorate/client/client.h" in headers and "quorate/client/recipes/mutex.h" in headers, headers

    def compile_alone(header):
        return _run(["g++", *WARNINGS, "-fsyntax-only", "-x", "c++", f"-I{outside.client}/include", "-"],
                    input=f'#include "{header}"\n#include "{header}"\n', cwd=outside.work)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(compile_alone, headers))
    return f"{len(headers)} headers"


def a_header_that_is_not_public_is_refused():
    loader = importlib.machinery.SourceFileLoader("client_library", TOOL)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("client_library", loader))
    loader.exec_module(module)
    module.PUBLIC = ("client/engine.h",)
    try:
        module.public_headers()
    except SystemExit as end:
        assert "a public header may include those of client/ and of Abseil" in str(end), end
        return
    raise AssertionError("client/engine.h is taken for a public header")


def a_program_is_built_by_pkg_config(outside):
    for package, shared in ((NAME, True), (f"{NAME}-static", False)):
        program = f"{outside.work}/{package}"
        _run(["g++", *WARNINGS, "-O1", "program.cc", "-o", program, *outside.flags(package)], cwd=outside.work)
        outside.check_program(program, shared)


def a_program_is_built_by_cmake(outside):
    build = f"{outside.path}/build"
    _run(["cmake", "-S", outside.work, "-B", build, f"-DCMAKE_PREFIX_PATH={outside.client}", "-DCMAKE_BUILD_TYPE=Release"])
    _run(["cmake", "--build", build])
    outside.check_program(f"{build}/with_shared", True)
    outside.check_program(f"{build}/with_static", False)
    other = f"{outside.path}/other"
    shutil.copytree(outside.work, other)
    with open(f"{other}/CMakeLists.txt", "r+", encoding="utf-8") as file:
        text = file.read().replace("QuorateClient 0.1", "QuorateClient 0.2")
        file.seek(0)
        file.write(text)
    result = subprocess.run(["cmake", "-S", other, "-B", f"{other}/build", f"-DCMAKE_PREFIX_PATH={outside.client}"],
                            capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode != 0 and "0.1.0" in result.stderr, "a version that does not fit is taken"


def _symbols(*options):
    """Returns the defined symbols that nm lists, with their types: {mangled: type}."""
    lines = _run(["nm", "--defined-only", "--extern-only", *options]).splitlines()
    return dict((words[2], words[1]) for words in map(str.split, lines) if len(words) == 3)


def the_shared_library_exports_the_interface_and_nothing_else(outside):
    exported = _symbols("--dynamic", f"{outside.lib}/{outside.shared}")
    names = _run(["c++filt"], input="\n".join(exported)).splitlines()
    kinds = r"(typeinfo |typeinfo name |vtable |guard variable )?(for )?(non-virtual thunk to )?quorate::"
    foreign = [name for name in names if not re.match(kinds, name)]
    assert not foreign, f"symbols of others are exported: {foreign[:5]}"
    inner = [name for name in names if re.search(r"^quorate::((v1|rpc)::|internal::(Engine|Stream)::)", name)]
    assert not inner, f"symbols without a public header are exported: {inner[:5]}"
    # Whatever the objects with public headers define has to be there.
    with tempfile.TemporaryDirectory() as path:
        _run(["ar", "x", f"{outside.lib}/lib{NAME}.a"], cwd=path)
        headers = {os.path.splitext(name)[0] for _, _, files in os.walk(f"{outside.client}/include") for name in files}
        objects = [name for name in os.listdir(path) if name.split(".")[0] in headers | {"error"} and ".pb" not in name]
        assert len(objects) > 20, objects
        defined = {}
        for name in objects:
            defined.update(_symbols(f"{path}/{name}"))
    strong = [symbol for symbol, kind in defined.items() if kind == "T" and symbol not in exported]
    assert not strong, f"not exported: {_run(['c++filt'], input=chr(10).join(strong[:5]))}"
    dynamic = _run(["readelf", "--dynamic", f"{outside.lib}/{outside.shared}"])
    assert f"[{outside.shared}]" in re.search("SONAME.*", dynamic).group(0) and "TEXTREL" not in dynamic, dynamic
    assert "NOW" in dynamic, dynamic
    return f"{len(exported)} symbols"


def the_shared_library_is_hardened(outside):
    lacking = [name for name, has in hardening.properties(f"{outside.lib}/{outside.shared}", is_library=True).items() if not has]
    assert not lacking, f"{outside.shared} lacks: {', '.join(lacking)}"


def the_packages_have_the_number_of_the_library(outside):
    number = outside.shared.rpartition(".")[2]
    folder = os.path.join(harness.ROOT, "deploy/debian")
    with open(f"{folder}/control", encoding="utf-8") as file:
        assert re.findall(r"^Package: libquorate-client(\d+)$", file.read(), re.MULTILINE) == [number]
    assert os.path.exists(f"{folder}/libquorate-client{number}.install")


TESTS = (each_public_header_compiles_alone, a_program_is_built_by_pkg_config, a_program_is_built_by_cmake,
         the_shared_library_exports_the_interface_and_nothing_else, the_shared_library_is_hardened,
         the_packages_have_the_number_of_the_library)


def run(runner):
    runner.run("deploy client library: a header that is not public is refused", a_header_that_is_not_public_is_refused)
    wanted = [(f"deploy client library: {test.__name__.replace('_', ' ')}", test) for test in TESTS]
    if not any(runner.wants(name) for name, _ in wanted):
        return
    with Outside() as outside:
        for name, test in wanted:
            runner.run(name, test, outside)
