# SPDX-License-Identifier: Apache-2.0
"""Operations of ZooKeeper clients whose lines in the audit log are compared: every kind of write, with success and with
failure, by clients with and without identities."""

import struct

import zkwire as zk

# Operations that zkwire has no name for.
SET_ACL, CREATE2, RECONFIG, CREATE_CONTAINER, CREATE_TTL = 7, 15, 16, 19, 21
CONTAINER, WITH_TTL, SEQUENTIAL_WITH_TTL = 4, 5, 6
DIGEST_HASH = "I0OVKEiqiMwYJYNpPM9iyQWFkHk="  # some hash of a password

SESSION_TIMEOUT_MS = 6000


def failing(connection, operation, body):
    """Does an operation that has to fail. Returns the error code."""
    try:
        connection.call(operation, body)
    except zk.ZkError as error:
        return error.code
    raise AssertionError(f"operation {operation} did not fail")


def set_acl(path, entries, version=-1):
    return zk.ustring(path) + zk.vector(entries) + struct.pack(">i", version)


def create_with_ttl(path, ttl_ms, mode=WITH_TTL):
    return zk.request_create(path, b"", mode) + struct.pack(">q", ttl_ms)


def check(path, version=-1):
    return zk.CHECK, zk.ustring(path) + struct.pack(">i", version)


def creates(client):
    client.create("/a")
    client.create("/a/ephemeral", flags=zk.EPHEMERAL)
    client.create("/a/numbered-", flags=zk.SEQUENTIAL)
    client.create("/a/ephemeral-numbered-", flags=zk.EPHEMERAL_SEQUENTIAL)
    client.call(CREATE2, zk.request_create("/a/second", b"data"))
    client.call(CREATE_CONTAINER, zk.request_create("/a/container", b"", CONTAINER))
    client.call(CREATE_TTL, create_with_ttl("/a/ttl", 3_600_000))
    client.call(CREATE_TTL, create_with_ttl("/a/ttl-numbered-", 3_600_000, SEQUENTIAL_WITH_TTL))
    client.create("/a/\u00e4\u20ac")
    failing(client, zk.CREATE, zk.request_create("/a", b""))
    failing(client, zk.CREATE, zk.request_create("/none/numbered-", b"", zk.SEQUENTIAL))
    failing(client, zk.CREATE, zk.request_create("/a/ephemeral/child", b""))
    failing(client, zk.CREATE, zk.request_create("/b", b"", acls=[zk.acl(31, "nonsense", "x")]))
    failing(client, zk.CREATE, zk.request_create("/b", b"", 99))
    failing(client, zk.CREATE, zk.request_create("no-slash", b""))
    failing(client, zk.CREATE, zk.request_create("/b//c", b""))
    failing(client, zk.CREATE, zk.request_create("/b\tresult=success", b""))
    failing(client, CREATE_TTL, create_with_ttl("/b", -5))


def changes(client):
    client.set("/a", b"1")
    failing(client, zk.SET_DATA, zk.request_set("/a", b"2", 77))
    failing(client, zk.SET_DATA, zk.request_set("/none", b"", -1))
    client.call(SET_ACL, set_acl("/a/second", [zk.acl(31, "world", "anyone")]))
    client.call(SET_ACL, set_acl("/a/second", [zk.acl(5, "ip", "10.1.2.3"), zk.acl(18, "world", "anyone")]))
    failing(client, SET_ACL, set_acl("/a/second", [zk.acl(31, "world", "anyone")], 55))
    failing(client, SET_ACL, set_acl("/a", []))
    failing(client, SET_ACL, set_acl("/none", [zk.acl()]))
    client.delete("/a/second")
    failing(client, zk.DELETE, zk.request_delete("/a/second", -1))
    failing(client, zk.DELETE, zk.request_delete("/a", -1))
    failing(client, zk.DELETE, zk.request_delete("/", -1))


def multis(client):
    client.call(zk.MULTI, zk.request_multi([
        (zk.CREATE, zk.request_create("/m", b"")), (zk.SET_DATA, zk.request_set("/m", b"x", 0)), check("/m"),
        (zk.CREATE, zk.request_create("/m/numbered-", b"", zk.SEQUENTIAL)),
        (zk.DELETE, zk.request_delete("/m/numbered-0000000000", -1))]))
    client.call(zk.MULTI, zk.request_multi([
        (CREATE2, zk.request_create("/m/two", b"")),
        (CREATE_CONTAINER, zk.request_create("/m/container", b"", CONTAINER)),
        (CREATE_TTL, create_with_ttl("/m/ttl", 3_600_000))]))
    client.call(zk.MULTI, zk.request_multi([
        (zk.CREATE, zk.request_create("/m/never", b"")), (zk.DELETE, zk.request_delete("/none", -1))]))
    client.call(zk.MULTI, zk.request_multi([check("/m")]))
    client.call(zk.MULTI, zk.request_multi([check("/none")]))
    client.call(zk.MULTI, zk.request_multi([]))


def identities(client):
    """`client` gets identities, which are in its later lines."""
    client.call(zk.AUTH, zk.request_auth("digest", b"bob:secret"), xid=zk.XID_AUTH)
    client.create("/by-bob")
    client.call(SET_ACL, set_acl("/by-bob", [zk.acl(31, "digest", "bob:" + DIGEST_HASH)]))
    failing(client, zk.DELETE, zk.request_delete("/by-bob/none", -1))


def refused(client):
    """`client` may not do any of this."""
    failing(client, zk.CREATE, zk.request_create("/by-bob/child", b""))
    failing(client, zk.SET_DATA, zk.request_set("/by-bob", b"", -1))
    failing(client, SET_ACL, set_acl("/by-bob", [zk.acl()]))
    failing(client, RECONFIG, zk.ustring(None) + zk.ustring(None) + zk.ustring(None) + struct.pack(">q", -1))


def reads(client):
    client.exists("/a")
    client.get("/a")
    client.children("/a")
    client.sync("/a")


def run(address):
    """Does all operations at a server."""
    with zk.Connection(address, SESSION_TIMEOUT_MS) as client:
        creates(client)
        changes(client)
        multis(client)
        reads(client)
        client.close()
    with zk.Connection(address, SESSION_TIMEOUT_MS) as client:
        identities(client)
        client.close()
    with zk.Connection(address, SESSION_TIMEOUT_MS) as client:
        refused(client)
        client.create("/last", flags=zk.EPHEMERAL)
        client.close()
