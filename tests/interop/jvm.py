# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs Java programs of the interoperability tests, with Debian's packages."""

import glob
import os
import subprocess

JARS = "/usr/share/java"
CURATOR = ("curator-client", "curator-framework", "curator-recipes", "zookeeper", "zookeeper-jute",
           "guava", "slf4j-api", "slf4j-nop")
# For short runs on few cores: no second compiler, no threads for garbage collection.
FLAGS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]


def class_path(names, *directories):
    """Returns the class path of the jars `names` and of `directories`. FileNotFoundError names a jar that is not
    installed."""
    jars = [os.path.join(JARS, f"{name}.jar") for name in names]
    for jar in jars:
        if not os.path.exists(jar):
            raise FileNotFoundError(f"{jar} is missing: deploy/install_packages")
    return ":".join([*directories, *jars])


def command(main_class, names, *directories):
    return ["java", *FLAGS, "-cp", class_path(names, *directories), main_class]


def compile_sources(directory, names, classes):
    """Compiles all of `directory` into `classes`, a directory outside of the source tree."""
    result = subprocess.run(
        ["javac", "-Xlint:all,-path", "-Werror", "-cp", class_path(names), "-d", classes,
         *sorted(glob.glob(os.path.join(directory, "*.java")))],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, check=False)
    if result.returncode != 0:
        raise AssertionError(f"javac: exit status {result.returncode}\n{result.stdout}{result.stderr}")
