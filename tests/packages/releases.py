# SPDX-License-Identifier: Apache-2.0
"""Two releases of one commit, from clones that share nothing but the commit, are equal byte for byte. tests/deploy compares
two builds of a few libraries, which takes less time. The commands are those of .github/workflows/release.yml."""

import os
import re
import shutil
import time

import yaml

import clones
import harness

SECONDS_MAX = 3 * 3600
KINDS = (r"quorate-server_.*\.deb", r"quorate-tools_.*\.deb", r"libquorate-client0_.*\.deb", r"libquorate-client-dev_.*\.deb",
         r"quorate-zookeeper-compat_.*\.deb", r"quorate-.*-linux-.*\.tar\.gz", r"quorate-.*-image\.tar", r"quorate-.*-chart\.tgz",
         r"quorate-.*\.spdx\.json")


def _commands(job):
    """Returns the commands of a job of the workflow, but for the installation of Git in an empty container."""
    with open(os.path.join(harness.ROOT, ".github/workflows/release.yml"), encoding="utf-8") as file:
        steps = yaml.safe_load(file)["jobs"][job]["steps"]
    return [step["run"] for step in steps if "run" in step and not step["run"].startswith("apt-get ")]


def _release(clone):
    """Makes the release in a clone. Returns its directory and the minutes that it took."""
    begin = time.monotonic()
    clone.environment["GITHUB_WORKSPACE"] = clone.path
    with clone:
        for command in _commands("build"):
            clone.run("bash", "-e", "-c", command, seconds=SECONDS_MAX)
    return os.path.join(clone.path, "dist/release"), (time.monotonic() - begin) / 60


def two_releases_of_a_commit_are_equal(machine):
    """The first release is built without a cache, and the second one with that of QUORATE_DISK_CACHE, if there is one, which
    other clones have filled."""
    directory = os.path.join(machine.directory, "releases")
    first = clones.Clone(f"{directory}/first", "clone", "one", "UTC", "022")
    made, minutes = _release(first)
    second = clones.Clone(f"{directory}/second", "at/a/longer/path/quorate", "another-host", "Pacific/Kiritimati", "077",
                          os.environ.get("QUORATE_DISK_CACHE", ""))
    other, other_minutes = _release(second)
    names = os.listdir(made)
    for kind in KINDS:
        assert [name for name in names if re.fullmatch(kind, name)], f"the release has no {kind}: {names}"
    for path, copy in ((made, "first"), (other, "second")):
        os.symlink(path, f"{first.path}/release-{copy}")
    (check,) = _commands("compare")
    said = first.run("bash", "-e", "-c", check, seconds=60).strip()
    assert said.startswith("the same: "), said
    shutil.rmtree(directory)
    return f"{said}; built in {minutes:.0f} and {other_minutes:.0f} minutes"


TESTS = ()
LONG_TESTS = (two_releases_of_a_commit_are_equal,)
