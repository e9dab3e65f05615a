# SPDX-License-Identifier: Apache-2.0
"""The quickstart on a machine that has the packages and nothing to build with."""

import os
import re
import shutil
import subprocess

import harness

CLONE = "/srv/quorate"
NAMES = ("libquorate-client-dev", "libquorate-client0", "quorate-zookeeper-compat", "quorate-server", "quorate-tools")


def _shows_a_cluster(machine, clone, origin, packages=""):
    """Runs the quickstart in a clone in the root."""
    root = machine.root
    output = root.output(clone + "/deploy/quickstart", seconds=300)
    assert re.search(packages or "^All [0-9]+ packages are installed.$", output, re.MULTILINE), output
    assert f"Using the {origin}: quorated " in output, output
    assert "The cluster goes on running." in output, output
    status = root.output(clone + "/tools/cluster", "cli", "status")
    assert status.count("follower") == 2 and status.count("leader") == 1, status
    root.run(clone + "/tools/cluster", "wipe")


def quickstart_uses_the_packages_of_its_commit(machine):
    """With nothing installed that the server needs. Debian's packages are downloaded before, because servers run in a network
    of their own."""
    machine.require_root()
    root = machine.root
    files = [root.add(machine.package(name)) for name in ("quorate-server", "quorate-tools")]
    for words in (("autoremove", "--purge", *(name for name in NAMES if machine.state(name) == "ii")), ("install", "git"),
                  ("install", "--download-only", "python3", "python3-kazoo", *files)):
        root.run("apt-get", "--yes", "--quiet", "--no-install-recommends", *words, outside=True, seconds=300)
    assert machine.state("librocksdb7.8") not in ("ii ", "ii")
    clone = root.file("/srv/clone")
    subprocess.run(["git", "clone", "--quiet", "--no-local", harness.ROOT, clone], check=True)
    _copy_programs(clone)
    os.makedirs(clone + "/dist/release")
    for name in files:
        shutil.move(root.file(name), clone + "/dist")
    _shows_a_cluster(machine, "/srv/clone", "packages in dist", "^Installing [0-9]+ of [0-9]+ packages: .*librocksdb")
    assert not os.path.exists(root.file("/usr/sbin/quorated")), "the quickstart has installed a service"
    assert machine.state("bazel-bootstrap") == "", "the quickstart has installed what builds need"
    # The files of a release have the version alone in their names, and count if the commit has its tag.
    version = re.search(r"_([0-9.]+)~", files[0]).group(1)
    for name in files:
        base, _, architecture = os.path.basename(name).split("_")
        os.rename(f"{clone}/dist/{os.path.basename(name)}", f"{clone}/dist/release/{base}_{version}_{architecture}")
    subprocess.run(["git", "tag", f"v{version}"], cwd=clone, check=True)
    _shows_a_cluster(machine, "/srv/clone", "packages in dist")


def _copy_programs(clone):
    shutil.copytree(os.path.join(harness.ROOT, "deploy"), clone + "/deploy", dirs_exist_ok=True)
    os.makedirs(clone + "/tools", exist_ok=True)
    shutil.copy(os.path.join(harness.ROOT, "tools/cluster"), clone + "/tools")


def quickstart_uses_the_installed_packages(machine):
    machine.install("quorate-server", "quorate-tools")
    root = machine.root
    root.run("apt-get", "--yes", "--quiet", "--no-install-recommends", "install", "python3", "python3-kazoo",
             outside=True, seconds=300)
    _copy_programs(root.file(CLONE))
    _shows_a_cluster(machine, CLONE, "installed packages", "^All 2 packages are installed.$")


TESTS = (quickstart_uses_the_packages_of_its_commit, quickstart_uses_the_installed_packages)
