# SPDX-License-Identifier: Apache-2.0
"""Clones of this repository that share nothing with it but the commit, for tests of what a build depends on."""

import os
import shutil
import subprocess

import harness

HOST_AND_MASK = 'if [ "$(id -u)" = 0 ]; then hostname "$1"; fi && umask "$2" && shift 2 && exec "$@"'


class Clone:
    """A clone in a directory of its own, and what commands in it see of the machine: another home directory, and with it another
    server and another output directory of Bazel, other temporary files, and the given name of the host (as root), time zone and
    mask. Use as a context manager."""

    def __init__(self, directory, name, host, zone, mask, cache=""):
        if not os.path.exists(os.path.join(harness.ROOT, ".git")):
            raise harness.Skipped("this is no Git checkout")
        self.path = os.path.join(directory, name)
        self.host, self.mask = host, mask
        self.cache_options = [f"--disk_cache={cache}"] if cache else []
        self.environment = {"PATH": os.environ["PATH"], "TZ": zone, "QUORATE_DISK_CACHE": cache}
        for variable in ("http_proxy", "https_proxy", "QUORATE_DEBIAN_MIRROR"):
            if variable in os.environ:
                self.environment[variable] = os.environ[variable]
        for variable, folder in (("HOME", "home"), ("TMPDIR", "temporary")):
            self.environment[variable] = os.path.join(directory, folder)
            os.makedirs(self.environment[variable])
        subprocess.run(["git", "clone", "--quiet", "--no-local", harness.ROOT, self.path], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["bazel", "shutdown"], cwd=self.path, env=self.environment, capture_output=True, check=False)

    def copy_changes(self):
        """Brings what is not committed into the clone."""
        for options in (("--modified", "--deleted"), ("--others", "--exclude-standard")):
            for name in _git("ls-files", "-z", *options).split("\0")[:-1]:
                source, target = os.path.join(harness.ROOT, name), os.path.join(self.path, name)
                if os.path.lexists(source):
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    shutil.copy(source, target, follow_symlinks=False)
                elif os.path.lexists(target):
                    os.unlink(target)

    def run(self, *words, seconds):
        """Runs a command in the clone. Returns its output. Raises AssertionError if it fails."""
        namespace = ["unshare", "--uts"] if os.geteuid() == 0 else []
        result = subprocess.run([*namespace, "sh", "-c", HOST_AND_MASK, "sh", self.host, self.mask, *words], cwd=self.path,
                                env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                errors="replace", timeout=seconds, check=False)
        assert result.returncode == 0, f"{' '.join(words)}: {harness.end_of(result.stdout)}"
        return result.stdout


def _git(*words):
    return subprocess.run(["git", *words], cwd=harness.ROOT, capture_output=True, text=True, check=True).stdout
