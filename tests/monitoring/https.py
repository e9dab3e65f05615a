# SPDX-License-Identifier: Apache-2.0
"""Tests HTTPS, and who is an administrator over HTTP."""

import base64
import http.client
import ssl

import harness
import web
from client_tls import place
from grpc_access import ADMIN, SUPER_DIGEST, TOKEN, write

ADMIN_COMMAND = "/commands/connection_stat_reset"


def context(authority, certificate=None):
    """Returns the TLS of a client that trusts `authority`, with (key, certificate) if given."""
    made = ssl.create_default_context(cafile=authority.certificate)
    if certificate:
        made.load_cert_chain(certificate[1], certificate[0])
    return made


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_an_administrator_is_who_has_a_token_or_the_password():
    with place() as made:
        tokens = write(made.path("tokens"), f"ops:{TOKEN}\n")
        audit = made.path("audit.log")
        with harness.Cluster("quorate", 1, [f"administratorTokenFile={tokens}", "audit.enable=true",
                                            f"auditFile={audit}",
                                            f"DigestAuthenticationProvider.superDigest={SUPER_DIGEST}"]) as cluster:
            web.await_serving(cluster)
            basic = base64.b64encode(b"super:secret").decode()
            wrong = base64.b64encode(b"super:other").decode()
            for headers, expected in (({}, 401), (bearer(TOKEN[:-1] + "x"), 401), (bearer(TOKEN), 200),
                                      ({"Authorization": f"Basic {basic}"}, 200),
                                      ({"Authorization": f"Basic {wrong}"}, 401),
                                      ({"Authorization": "digest super:secret"}, 200),
                                      ({"Authorization": "digest super:other"}, 401),
                                      ({"Authorization": "Digest super:secret"}, 401)):
                assert web.get(cluster, ADMIN_COMMAND, headers=headers).status == expected, headers
            # Others need none, and are not refused because of one that is not theirs.
            assert web.get(cluster, "/commands/ruok", headers=bearer("not-a-token-of-this-server")).status == 200
            assert web.get(cluster, "/metrics").status == 200

            def recorded():
                with open(audit, encoding="utf-8") as file:
                    text = file.read()
                return "user=token:ops" in text and text.count("operation=connection_stat_reset") == 8
            cluster.wait_until("the calls are in the audit log", recorded)
            with open(audit, encoding="utf-8") as file:
                assert TOKEN not in file.read()


def https_settings(made, **more):
    """Returns lines with the stores of HTTPS. In names of `more`, "__" stands for a dot."""
    keys = {"ssl.quorum.keyStore.location": made.server[2], "ssl.quorum.trustStore.location": made.authority.certificate,
            "administrator.subjects": ADMIN, **{name.replace("__", "."): value for name, value in more.items()}}
    return [f"{key}={value}" for key, value in keys.items()]


def test_a_port_with_https_alone_takes_no_plain_request():
    with place() as made, harness.Cluster("quorate", 1, https_settings(made, admin__forceHttps="true")) as cluster:
        where = web.port(cluster)
        anyone, admin = context(made.authority), context(made.authority, made.admin)
        cluster.wait_until("HTTPS is served", lambda: is_ready(where, anyone))
        answer = web.request(where, "/commands/ruok", tls=anyone)
        assert answer.status == 200 and answer.headers["Strict-Transport-Security"], answer
        refused_plain(where)
        # A certificate of administrator.subjects is enough; one of another client, or none, is not.
        assert web.request(where, ADMIN_COMMAND, tls=admin).status == 200
        assert web.request(where, ADMIN_COMMAND, tls=context(made.authority, made.alice)).status == 403
        assert web.request(where, ADMIN_COMMAND, tls=anyone).status == 401
        expiry = web.request(where, "/metrics?name[]=quorate_certificate_expiry_timestamp_seconds", tls=anyone).text
        assert 'quorate_certificate_expiry_timestamp_seconds{stores="ssl.quorum"} 1' in expiry, expiry


def test_one_port_takes_http_and_https():
    with place() as made, harness.Cluster("quorate", 1, https_settings(made, admin__portUnification="true")) as cluster:
        web.await_serving(cluster)
        plain = web.get(cluster, "/commands/ruok")
        assert plain.status == 200 and "Strict-Transport-Security" not in plain.headers
        assert web.request(web.port(cluster), "/commands/ruok", tls=context(made.authority)).status == 200
        assert web.get(cluster, ADMIN_COMMAND).status == 401


def test_a_certificate_of_the_client_can_be_required():
    settings = {"admin__forceHttps": "true", "admin__needClientAuth": "true"}
    with place() as made, harness.Cluster("quorate", 1, https_settings(made, **settings)) as cluster:
        where = web.port(cluster)
        cluster.wait_until("HTTPS is served", lambda: is_ready(where, context(made.authority, made.alice)))
        try:
            web.request(where, "/commands/ruok", tls=context(made.authority))
            raise AssertionError("a client without a certificate is served")
        except OSError:
            pass


def is_ready(where, tls):
    try:
        return web.request(where, "/health/ready", tls=tls).status == 200
    except OSError:
        return False


def refused_plain(where):
    try:
        web.request(where, "/commands/ruok")
    except (OSError, http.client.HTTPException):
        return
    raise AssertionError("a plain request is answered")
