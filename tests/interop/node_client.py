# SPDX-License-Identifier: Apache-2.0
"""Fetches node-zookeeper-client as tests/interop/node/package-lock.json pins it, and runs it."""

import base64
import hashlib
import io
import json
import os
import shutil
import tarfile
import urllib.error
import urllib.request

import harness

SOURCES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "node")
FETCH_SECONDS = 20


def fetch(address, integrity):
    """Returns the bytes at `address`. Raises harness.Skipped if there is no network, and AssertionError if the bytes are
    not those that the lock file names."""
    try:
        with urllib.request.urlopen(address, timeout=FETCH_SECONDS) as response:
            data = response.read()
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{address}: {error}") from error
    except OSError as error:
        raise harness.Skipped(f"NOT RUN, for {address} cannot be reached: {error}") from error
    kind, _, wanted = integrity.partition("-")
    if base64.b64encode(hashlib.new(kind, data).digest()).decode() != wanted:
        raise AssertionError(f"{address} is not what package-lock.json names")
    return data


def install(directory):
    """Puts the program and the packages it needs into `directory`."""
    with open(os.path.join(SOURCES, "package-lock.json"), encoding="utf-8") as file:
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
    shutil.copy(os.path.join(SOURCES, "program.js"), directory)


def command(directory):
    """Returns the program's command line, without its arguments; installs the program at the first call."""
    if not os.path.exists(directory):
        try:
            install(directory)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
    return ["node", os.path.join(directory, "program.js")]
