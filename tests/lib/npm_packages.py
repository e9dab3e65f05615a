# SPDX-License-Identifier: Apache-2.0
"""Fetches packages from the npm registry, as a package-lock.json pins them, without npm."""

import base64
import hashlib
import http.client
import io
import json
import os
import shutil
import tarfile
import urllib.error
import urllib.request

import harness

FETCH_SECONDS = 20
# Statuses of a proxy or a registry that does not serve this machine now: they say nothing about the package.
REFUSALS = (403, 407, 429)


def fetch(address, integrity):
    """Returns the bytes at `address`. Raises harness.Skipped if there is no network or the registry does not serve now, and
    AssertionError if there is no such file, or the bytes are not those that the lock file names."""
    try:
        with urllib.request.urlopen(address, timeout=FETCH_SECONDS) as response:
            data = response.read()
    except urllib.error.HTTPError as error:
        if error.code in REFUSALS or error.code >= 500:
            raise harness.Skipped(f"NOT RUN, for {address} is refused: {error}") from error
        raise AssertionError(f"{address}: {error}") from error
    except (OSError, http.client.HTTPException) as error:
        raise harness.Skipped(f"NOT RUN, for {address} cannot be reached: {error!r}") from error
    kind, _, wanted = integrity.partition("-")
    if base64.b64encode(hashlib.new(kind, data).digest()).decode() != wanted:
        raise AssertionError(f"{address} is not what package-lock.json names")
    return data


def _unpack(lock, directory):
    with open(lock, encoding="utf-8") as file:
        packages = json.load(file)["packages"]
    os.makedirs(directory)
    for place, package in packages.items():
        if not place:
            continue  # the program itself
        data = fetch(package["resolved"], package["integrity"])
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive.getmembers():
                member.name = member.name.partition("/")[2]  # all in one folder
                if member.isfile():
                    archive.extract(member, os.path.join(directory, place), set_attrs=False)


def install(lock, directory):
    """Puts the packages that the file `lock` names into `directory`, which must not exist: all of them, or nothing if this
    raises. Raises harness.Skipped if there is no network or the registry does not serve now."""
    try:
        _unpack(lock, directory)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
