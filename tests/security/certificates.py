# SPDX-License-Identifier: Apache-2.0
"""Makes authorities, keys and certificates for tests, with openssl and, for Java's stores, keytool."""

import os
import subprocess

PASSWORD = "changeit"
EXTENSIONS = {
    "server": "subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth",
    "client": "extendedKeyUsage=clientAuth",
    "member": "subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth",
}


def run(*command, **options):
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
                            **options)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {result.stdout}{result.stderr}")
    return result.stdout


class Authority:
    """A certificate authority whose files are in `directory`, with names that begin with its own. `environment`: the
    environment of openssl, which may change its clock."""

    def __init__(self, directory, name="ca", days=30, environment=None):
        self.directory, self.name, self.environment = directory, name, environment
        self.certificate, self.key = self.path(f"{name}.pem"), self.path(f"{name}.key")
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", str(days),
            "-subj", f"/O=Example/CN={name}", "-keyout", self.key, "-out", self.certificate, env=environment)

    def path(self, name):
        return os.path.join(self.directory, name)

    def issue(self, name, kind, subject, days=30, names=None, arguments=()):
        """Makes a key and a certificate, whose subjectAltName is `names` if given; with days=-1 it has expired.
        `arguments`: further ones of openssl for the request. Returns the paths of the key, of the certificate, and of a
        file with both."""
        key, request, certificate, both = (self.path(f"{self.name}-{name}{end}") for end in (".key", ".csr", ".crt", ".pem"))
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject, *arguments,
            "-keyout", key, "-out", request, env=self.environment)
        extensions = self.path(f"{name}.ext")
        with open(extensions, "w", encoding="ascii") as file:
            file.write(f"subjectAltName={names}\nextendedKeyUsage=serverAuth,clientAuth" if names else EXTENSIONS[kind])
        run("openssl", "x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial",
            "-days", str(days), "-extfile", extensions, "-out", certificate, env=self.environment)
        with open(both, "w", encoding="ascii") as file:
            for part in (key, certificate):
                with open(part, encoding="ascii") as source:
                    file.write(source.read())
        return key, certificate, both


def pkcs12(directory, name, key, certificate, authority):
    """Makes a PKCS12 store of a key, as openssl writes it. Returns its path."""
    path = os.path.join(directory, f"{name}.p12")
    run("openssl", "pkcs12", "-export", "-inkey", key, "-in", certificate, "-certfile", authority.certificate, "-name", name,
        "-passout", f"pass:{PASSWORD}", "-out", path)
    return path


def jks(directory, name, pkcs12_path):
    """Makes a JKS store of a PKCS12 store. Returns its path."""
    path = os.path.join(directory, f"{name}.jks")
    run("keytool", "-importkeystore", "-noprompt", "-srckeystore", pkcs12_path, "-srcstoretype", "PKCS12", "-srcstorepass",
        PASSWORD, "-destkeystore", path, "-deststoretype", "JKS", "-deststorepass", PASSWORD)
    return path


def trust_store(directory, name, authority, kind):
    """Makes a trust store of the kind JKS or PKCS12, as keytool writes it. Returns its path."""
    path = os.path.join(directory, f"{name}.{'jks' if kind == 'JKS' else 'p12'}")
    run("keytool", "-importcert", "-noprompt", "-alias", authority.name, "-file", authority.certificate, "-keystore", path,
        "-storetype", kind, "-storepass", PASSWORD)
    return path
