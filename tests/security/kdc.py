# SPDX-License-Identifier: Apache-2.0
"""A key distribution centre of MIT Kerberos on a free port of this machine, with its data in a temporary directory."""

import os
import shutil
import socket
import subprocess
import tempfile
import time

import harness

REALM = "EXAMPLE.COM"
PATIENCE_SECONDS = 20
# Debian installs them where only root's PATH leads.
PROGRAMS = "/usr/sbin"


def is_available():
    return all(os.access(os.path.join(PROGRAMS, name), os.X_OK) for name in ("krb5kdc", "kdb5_util", "kadmin.local"))


class KeyDistributionCentre:
    """Use as a context manager. `configuration` is the path of a krb5.conf for servers and clients."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="quorate-kdc-")
        self.ports = harness.Reservation(1)
        self.port = self.ports.base + 1
        self.configuration = self._write("krb5.conf", f"""
[libdefaults]
  default_realm = {REALM}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  rdns = false
  dns_canonicalize_hostname = false
  udp_preference_limit = 1
[realms]
  {REALM} = {{
    kdc = {harness.HOST}:{self.port}
  }}
""")
        profile = self._write("kdc.conf", f"""
[kdcdefaults]
  kdc_listen = {harness.HOST}:{self.port}
  kdc_tcp_listen = {harness.HOST}:{self.port}
[realms]
  {REALM} = {{
    database_name = {self.directory}/principal
    key_stash_file = {self.directory}/stash
    acl_file = {self.directory}/acl
  }}
[logging]
  kdc = FILE:{self.directory}/kdc.log
""")
        self.environment = dict(os.environ, KRB5_CONFIG=self.configuration, KRB5_KDC_PROFILE=profile)
        self.process = None
        self.output = None

    def __enter__(self):
        try:
            self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
            self.output = open(os.path.join(self.directory, "output"), "w", encoding="utf-8")
            self.process = subprocess.Popen([os.path.join(PROGRAMS, "krb5kdc"), "-n", "-r", REALM],
                                            env=self.environment, stdin=subprocess.DEVNULL, stdout=self.output,
                                            stderr=subprocess.STDOUT)
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        if self.output is not None:
            self.output.close()
        self.ports.release()
        shutil.rmtree(self.directory, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.directory, name)

    def keytab(self, *principals):
        """Makes principals. Returns the path of a keytab with their keys."""
        path = self.path(principals[0].replace("/", "-") + ".keytab")
        for principal in principals:
            self._run("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal)
            self._run("kadmin.local", "-r", REALM, "ktadd", "-k", path, principal)
        return path

    def _write(self, name, text):
        path = self.path(name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def _run(self, program, *arguments):
        result = subprocess.run([os.path.join(PROGRAMS, program), *arguments], env=self.environment,
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        if result.returncode != 0:
            raise AssertionError(f"{program} {' '.join(arguments)}: {result.stdout}{result.stderr}")

    def _wait(self):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                socket.create_connection((harness.HOST, self.port), 1).close()
                return
            except OSError as error:
                if self.process.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.05)
                    continue
                with open(self.path("output"), encoding="utf-8") as file:
                    raise AssertionError(f"krb5kdc does not serve: {error}\n{file.read()}") from error
