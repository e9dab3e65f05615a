# SPDX-License-Identifier: Apache-2.0
"""The software bill of materials, and what compares two releases. The release itself is not made here: it takes minutes."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile

import clones
import harness

SBOM = os.path.join(harness.ROOT, "deploy/sbom")
RELEASE = os.path.join(harness.ROOT, "deploy/release")
PROGRAMS = [harness.SERVERS["quorate"], os.path.join(harness.ROOT, ".bazel/opt-bin/tools/quorate")]


def _bill(*programs):
    result = subprocess.run([SBOM, "--version", "1.2.3", *programs], capture_output=True, text=True, timeout=120, check=False,
                            env=dict(os.environ, SOURCE_DATE_EPOCH="1700000000"))
    assert result.returncode == 0, result.stderr
    return result.stdout


def the_bill_has_every_library_that_the_programs_load():
    text = _bill(*PROGRAMS)
    bill = json.loads(text)
    assert (bill["spdxVersion"], bill["creationInfo"]["created"]) == ("SPDX-2.3", "2023-11-14T22:13:20Z")
    packages = {package["name"]: package for package in bill["packages"]}
    # Found in another way: what the loader reports when it loads the server.
    loaded = subprocess.run([PROGRAMS[0], "--version"], capture_output=True, text=True, check=True,
                            env=dict(os.environ, LD_DEBUG="files")).stderr
    paths = {os.path.realpath(path) for path in re.findall(r"calling init: (/\S+)", loaded)}
    assert len(paths) > 10, loaded[:1000]
    forms = [form for path in paths for form in (path, path.removeprefix("/usr"))]
    owners = subprocess.run(["dpkg-query", "--search", *forms], capture_output=True, text=True, check=False).stdout.splitlines()
    assert len(owners) >= len(paths), owners
    for line in owners:
        assert line.split(":")[0] in packages, f"not in the bill: {line}"
    ssl = packages["libssl3"]
    version = subprocess.run(["dpkg-query", "--show", "--showformat", "${Version}", "libssl3"], capture_output=True, text=True,
                             check=True).stdout
    assert ssl["versionInfo"] == version and "Apache-2.0" in ssl["licenseDeclared"], ssl
    # Debian's package of the C library has a copyright file of another form.
    assert packages["libc6"]["licenseDeclared"] == "NOASSERTION", packages["libc6"]


def all_references_in_the_bill_lead_somewhere():
    text = _bill(*PROGRAMS)
    assert text == _bill(*PROGRAMS), "two bills of the same programs differ"
    bill = json.loads(text)
    things = [thing["SPDXID"] for thing in [bill, *bill["packages"], *bill["files"]]]
    assert len(set(things)) == len(things), "a name is there twice"
    assert all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name) for name in things), things
    for relation in bill["relationships"]:
        assert {relation["spdxElementId"], relation["relatedSpdxElement"]} <= set(things), relation
    named = set(re.findall(r"LicenseRef-[A-Za-z0-9.-]+", " ".join(package["licenseDeclared"] for package in bill["packages"])))
    assert named == {licence["licenseId"] for licence in bill["hasExtractedLicensingInfos"]}
    with open(PROGRAMS[0], "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    assert digest in [checksum["checksumValue"] for file in bill["files"] for checksum in file["checksums"]]


def make(directory, **files):
    """Makes a directory as deploy/release does, with files of these texts. Returns it."""
    os.mkdir(directory)
    with open(f"{directory}/SHA256SUMS", "w", encoding="utf-8") as sums:
        for name, text in files.items():
            name = name.replace("_", "-") + ".tar"
            with open(f"{directory}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
            sums.write(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n")
    return directory


def a_check_of_two_releases_finds_what_differs():
    def check(*directories):
        return subprocess.run([RELEASE, "--check", *directories], capture_output=True, text=True, timeout=30, check=False)

    with tempfile.TemporaryDirectory(prefix="quorate-release-") as path:
        one = make(f"{path}/1", quorate="same", quorate_image="yesterday")
        same = make(f"{path}/2", quorate="same", quorate_image="yesterday")
        other = make(f"{path}/3", quorate="other", quorate_image="today")
        later = make(f"{path}/4", quorate="same", quorate_image="today")
        result = check(one, same)
        assert (result.returncode, result.stdout) == (0, "the same: 2 files\n"), result
        result = check(one, other)
        assert result.returncode == 1 and "quorate.tar" in result.stdout and "the releases differ" in result.stderr, result
        result = check(one, later)
        assert result.returncode == 1 and "the images differ, and nothing else" in result.stderr, result
        with open(f"{same}/quorate.tar", "w", encoding="utf-8") as file:
            file.write("changed")
        result = check(one, same)
        assert result.returncode == 1 and "is not what its SHA256SUMS say" in result.stderr, result


def a_tag_of_another_version_is_refused():
    with tempfile.TemporaryDirectory(prefix="quorate-release-") as path:
        with clones.Clone(path, "clone", "host", "UTC", "022") as clone:
            shutil.copy(RELEASE, f"{clone.path}/deploy/release")
            for words in (("add", "--all"), ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty",
                                             "--message=release"), ("tag", "v98.7.6")):
                subprocess.run(["git", *words], cwd=clone.path, check=True)
            try:
                clone.run("deploy/release", "--no-image", "--no-build", seconds=60)
            except AssertionError as error:
                assert "the commit has the tag v98.7.6, and base/version.h the version " in str(error), error
                return
            raise AssertionError("a release of another version than its tag was made")


TESTS = (the_bill_has_every_library_that_the_programs_load, all_references_in_the_bill_lead_somewhere,
         a_check_of_two_releases_finds_what_differs, a_tag_of_another_version_is_refused)


def run(runner):
    for test in TESTS:
        runner.run(f"deploy release: {test.__name__.replace('_', ' ')}", test)
