# SPDX-License-Identifier: Apache-2.0
"""The archive of deploy/package --tar."""

import filecmp
import os
import re
import subprocess
import tarfile


def the_archive_names_its_libraries_and_its_programs_run(machine):
    archive, checksum = machine.build("archive", "--tar")
    assert checksum == archive + ".sha256"
    subprocess.run(["sha256sum", "--check", "--quiet", os.path.basename(checksum)], cwd=os.path.dirname(archive), check=True)
    again, _ = machine.build("archive-again", "--tar")
    assert filecmp.cmp(archive, again, shallow=False), "the same programs give another archive"
    name = os.path.basename(archive).removesuffix(".tar.gz")
    with tarfile.open(archive) as files:
        assert {os.path.dirname(member.name).partition("/")[0] or member.name for member in files} == {name}
        libraries = files.extractfile(name + "/LIBRARIES").read().decode()
    packages = libraries.partition("\n\n")[2].partition("\n\n")[2].split()
    assert "librocksdb.so.7.8" in libraries and {"librocksdb7.8", "libc6"} <= set(packages), libraries
    assert "libc6-i386" not in packages, "this is the C library of another architecture"
    machine.require_root()
    machine.root.run("apt-get", "--yes", "--quiet", "--no-install-recommends", "install", *packages, outside=True)
    machine.root.run("tar", "--extract", "--directory", "/srv", "--file", machine.root.add(archive))
    version = re.match(r"quorate-([0-9.]+)", name).group(1)
    for program in ("quorated", "quorate"):
        assert machine.root.output(f"/srv/{name}/{program}", "--version").startswith(f"{program} {version}")
    assert machine.root.output("sh", "-c", f"ldd /srv/{name}/quorated /srv/{name}/quorate | grep 'not found' || true") == ""


TESTS = (the_archive_names_its_libraries_and_its_programs_run,)
