# SPDX-License-Identifier: Apache-2.0
"""Two compilations of the same source give the same bytes, wherever and whenever they are made: a program, a library with the
name of the commit, and generated code. tests/packages/run --long compares whole releases."""

import filecmp
import os
import tempfile

import clones

TARGETS = ("//rpc/config:write_config_reference", "//base:build_version", "//rpc/proto:rpc_status")
PROGRAM = "rpc/config/write_config_reference"
OUTPUT = ".bazel/opt-bin"
SECONDS_MAX = 1800


def _files(directory):
    """Returns the names of the files that a build has made in OUTPUT. What is for running programs in place, which has paths of
    the machine in it, is no part of a package."""
    found = set()
    top = os.path.join(directory, OUTPUT)
    for folder, folders, names in os.walk(os.path.realpath(top)):
        folders[:] = [name for name in folders if not name.endswith(".runfiles")]
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path) and not name.endswith(".runfiles_manifest"):
                found.add(os.path.relpath(path, os.path.realpath(top)))
    return found


def _build(clone):
    """Builds in a clone, and returns the names of the files."""
    clone.copy_changes()
    with clone:
        clone.run("bazel", "build", "--config=opt", *clone.cache_options, *TARGETS, seconds=SECONDS_MAX)
    return _files(clone.path)


def two_builds_give_the_same_bytes():
    """The first build has no cache, and the second one that of QUORATE_DISK_CACHE, if there is one. Neither waits for what
    Bazel builds in this clone meanwhile."""
    with tempfile.TemporaryDirectory(prefix="quorate-builds-") as directory:
        first = clones.Clone(f"{directory}/first", "clone", "one", "UTC", "022")
        second = clones.Clone(f"{directory}/second", "at/another/path/quorate", "another-host", "Pacific/Kiritimati", "077",
                              os.environ.get("QUORATE_DISK_CACHE", ""))
        names = _build(first)
        for ending in (".o", ".pb.cc", ".pb.h", ".a", "build_commit.h"):
            assert [name for name in names if name.endswith(ending)], f"no {ending} is compared: {sorted(names)}"
        assert PROGRAM in names, sorted(names)
        others = _build(second)
        assert names == others, f"only in one: {names ^ others}"
        outputs = [os.path.join(clone.path, OUTPUT) for clone in (first, second)]
        _, differing, missing = filecmp.cmpfiles(*outputs, sorted(names), shallow=False)
        assert not differing and not missing, f"differ: {differing}; cannot be compared: {missing}"
        with open(os.path.join(outputs[1], PROGRAM), "rb") as file:
            content = file.read()
        for text in (directory, second.host):
            assert text.encode() not in content, f"{PROGRAM} has {text} in it"
    return f"{len(names)} files"


def run(runner):
    runner.run("deploy builds: two builds give the same bytes", two_builds_give_the_same_bytes)
