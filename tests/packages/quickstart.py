# SPDX-License-Identifier: Apache-2.0
"""The quickstart on a machine that has the packages and nothing to build with."""

import os
import shutil

import harness

CLONE = "/srv/quorate"


def quickstart_uses_the_installed_packages(machine):
    machine.install("quorate-server", "quorate-tools")
    root = machine.root
    root.run("apt-get", "--yes", "--quiet", "--no-install-recommends", "install", "python3", "python3-kazoo",
             outside=True, seconds=300)
    shutil.copytree(os.path.join(harness.ROOT, "deploy"), root.file(CLONE + "/deploy"))
    os.makedirs(root.file(CLONE + "/tools"))
    shutil.copy(os.path.join(harness.ROOT, "tools/cluster"), root.file(CLONE + "/tools"))
    output = root.output(CLONE + "/deploy/quickstart")
    assert "All 2 packages are installed." in output, output
    assert "Using the installed packages: quorated " in output, output
    assert "The cluster goes on running." in output, output
    status = root.output(CLONE + "/tools/cluster", "cli", "status")
    assert status.count("follower") == 2 and status.count("leader") == 1, status
    root.run(CLONE + "/tools/cluster", "wipe")


TESTS = (quickstart_uses_the_installed_packages,)
