# SPDX-License-Identifier: Apache-2.0
"""The archive that deploy/oci_archive makes of a root file system. tests/packages makes and runs the whole image."""

import filecmp
import io
import gzip
import json
import os
import subprocess
import tarfile
import tempfile

import harness
import oci

ARCHIVE = os.path.join(harness.ROOT, "deploy/oci_archive")


def pack(tree, path, *options):
    """Packs a directory. Returns the oci.Image."""
    result = subprocess.run([ARCHIVE, "--name", "quorate:1.2.3", "--version", "1.2.3", "--architecture", "amd64", "--time",
                             "1700000000", *options, tree, path], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    return oci.Image(path)


def make_tree(directory):
    """Makes a small root file system. Returns its path."""
    os.makedirs(f"{directory}/etc")
    for name, text in (("etc/one", "1"), ("etc/two", "2")):
        with open(f"{directory}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    os.chmod(f"{directory}/etc/one", 0o751)
    os.symlink("etc/one", f"{directory}/link")
    return directory


def the_archive_is_an_image_of_the_directory():
    with tempfile.TemporaryDirectory(prefix="quorate-image-") as path:
        image = pack(make_tree(f"{path}/tree"), f"{path}/image.tar")
        (layer,) = image.layers
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(layer))) as files:
            entries = {entry.name: entry for entry in files}
            assert files.extractfile("./etc/one").read() == b"1"
        assert set(entries) == {".", "./etc", "./etc/one", "./etc/two", "./link"}, entries
        assert entries["./etc/one"].mode == 0o751 and entries["./link"].linkname == "etc/one"
        assert {entry.mtime for entry in entries.values()} == {1700000000}
        assert image.configuration["created"] == "2023-11-14T22:13:20Z" and image.configuration["architecture"] == "amd64"
        assert image.config["Entrypoint"] == ["/docker-entrypoint.sh"] and image.config["User"] == ""
        assert image.entry["annotations"]["org.opencontainers.image.ref.name"] == "1.2.3"
        assert pack(f"{path}/tree", f"{path}/user.tar", "--user", "1000:1000").config["User"] == "1000:1000"


def the_same_directory_gives_the_same_bytes():
    with tempfile.TemporaryDirectory(prefix="quorate-image-") as path:
        for name in ("a", "b"):
            make_tree(f"{path}/{name}")
            pack(f"{path}/{name}", f"{path}/{name}.tar")
        assert filecmp.cmp(f"{path}/a.tar", f"{path}/b.tar", shallow=False), "two archives of equal directories differ"
        os.chmod(f"{path}/b/etc/one", 0o755)
        pack(f"{path}/b", f"{path}/c.tar")
        assert not filecmp.cmp(f"{path}/a.tar", f"{path}/c.tar", shallow=False), "a mode does not count"


def other_programs_read_it():
    with tempfile.TemporaryDirectory(prefix="quorate-image-") as path:
        image = pack(make_tree(f"{path}/tree"), f"{path}/image.tar")
        said = oci.read_by_other_programs(f"{path}/image.tar", "1.2.3", path)
        if not said:
            raise harness.Skipped("skopeo is not installed")
        config = json.loads(said)["config"]
        assert config["Volumes"] == image.config["Volumes"] and config["Cmd"] == image.config["Cmd"], said
        if os.path.isdir(f"{path}/unpacked"):
            with open(f"{path}/unpacked/rootfs/etc/two", encoding="utf-8") as file:
                assert file.read() == "2"
        with open(f"{path}/image.tar", "r+b") as file:  # what reads it must notice a change
            content = file.read()
            place = content.index(b'"rootfs"')
            file.seek(place)
            file.write(b'"rootfz"')
        try:
            oci.Image(f"{path}/image.tar")
        except AssertionError:
            return
        raise AssertionError("a change in the configuration is not noticed")


TESTS = (the_archive_is_an_image_of_the_directory, the_same_directory_gives_the_same_bytes, other_programs_read_it)


def run(runner):
    for test in TESTS:
        runner.run(f"deploy image: {test.__name__.replace('_', ' ')}", test)
