# SPDX-License-Identifier: Apache-2.0
"""Reads container images in OCI's layout."""

import gzip
import hashlib
import json
import shutil
import subprocess
import tarfile


class Image:
    """An archive with an image layout. Raises AssertionError if a digest or a size in it is wrong, or a blob is not used."""

    def __init__(self, path):
        self.path = path
        with tarfile.open(path) as archive:
            self.files = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
        assert json.loads(self.files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
        self.used = set()
        (self.entry,) = json.loads(self.files["index.json"])["manifests"]
        manifest = json.loads(self._blob(self.entry))
        self.layers = [self._blob(layer) for layer in manifest["layers"]]
        self.configuration = json.loads(self._blob(manifest["config"]))
        self.config = self.configuration["config"]
        digests = [f"sha256:{hashlib.sha256(gzip.decompress(layer)).hexdigest()}" for layer in self.layers]
        assert self.configuration["rootfs"]["diff_ids"] == digests, "the configuration names other layers"
        (legacy,) = json.loads(self.files["manifest.json"])
        assert [legacy["Config"], *legacy["Layers"]] == [self._name(thing) for thing in [manifest["config"], *manifest["layers"]]]
        assert self.used == {name for name in self.files if name.startswith("blobs/")}, "there are blobs that nothing names"

    @staticmethod
    def _name(descriptor):
        kind, _, digest = descriptor["digest"].partition(":")
        return f"blobs/{kind}/{digest}"

    def _blob(self, descriptor):
        name = self._name(descriptor)
        data = self.files[name]
        assert descriptor["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}" and descriptor["size"] == len(data), name
        self.used.add(name)
        return data


def read_by_other_programs(path, tag, directory):
    """Lets skopeo and umoci, as far as they are installed, read an image: skopeo both of its forms, and umoci by unpacking it
    into `directory`/unpacked. Returns what skopeo says about the image; "" without it."""
    said = ""
    if shutil.which("skopeo"):
        for form in (f"docker-archive:{path}", f"oci-archive:{path}:{tag}"):
            said = _run("skopeo", "inspect", "--config", form)
        _run("skopeo", "copy", f"oci-archive:{path}:{tag}", f"oci:{directory}/layout:{tag}")
        if shutil.which("umoci"):
            _run("umoci", "unpack", "--rootless", "--image", f"{directory}/layout:{tag}", f"{directory}/unpacked")
    return said


def _run(*command):
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, f"{' '.join(command)}: {result.stdout}{result.stderr}"
    return result.stdout
