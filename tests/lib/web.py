# SPDX-License-Identifier: Apache-2.0
"""Requests over HTTP to the members of a cluster."""

import collections
import http.client
import json

import harness

ADMIN_OFFSET = 300  # as tools/cluster
TIMEOUT_SECONDS = 10
# For tests that name the leader: on a busy machine, no election comes between two of their steps.
STEADY = ["electionTimeoutMs=3000"]

Answer = collections.namedtuple("Answer", "status headers text")


def port(cluster, member=1):
    return cluster.ports.base + ADMIN_OFFSET + member


def request(where, path, method="GET", headers=None, tls=None, source="", body=None):
    """Sends a request to a port, over TLS with the context `tls` if it is given, from the address `source` if it is given.
    Returns the Answer."""
    more = {"timeout": TIMEOUT_SECONDS, "source_address": (source, 0) if source else None}
    connection = (http.client.HTTPSConnection(harness.HOST, where, context=tls, **more) if tls
                  else http.client.HTTPConnection(harness.HOST, where, **more))
    try:
        connection.request(method, path, body=body, headers=headers or {})
        response = connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read().decode())
    finally:
        connection.close()


def get(cluster, path, member=1, **more):
    return request(port(cluster, member), path, **more)


def command(cluster, name, member=1):
    """Returns the fields of a command, in their order."""
    answer = get(cluster, f"/commands/{name}", member)
    assert answer.status == 200, answer
    return json.loads(answer.text)


def is_serving(cluster, member=1):
    try:
        return get(cluster, "/health/ready", member).status == 200
    except OSError:
        return False


def knows_versions(cluster, member):
    """Returns whether the member knows that all members understand more than the first version of the cluster, which it
    learns shortly after the first start. Before, changes of the console are refused. True without a console."""
    answer = get(cluster, "/console/api/overview", member)
    return answer.status != 200 or json.loads(answer.text)["cluster_version"] > 1


def await_serving(cluster):
    cluster.wait_until("all members are ready", lambda: all(
        is_serving(cluster, i) and knows_versions(cluster, i) for i in cluster.numbers()))
