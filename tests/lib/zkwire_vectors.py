# SPDX-License-Identifier: Apache-2.0
"""Tests the test client with known encodings of the ZooKeeper protocol. If it encoded requests wrongly, the other
tests would not test what they claim."""

import zkwire as zk


def _hex(text):
    return bytes.fromhex(text.replace(" ", ""))


REQUESTS = {
    "connect": (
        zk.frame(zk.connect_request(30000)),
        "0000002d 00000000 0000000000000000 00007530 0000000000000000 00000010"
        "00000000000000000000000000000000 00"),
    "connect response": (
        zk.frame(zk.connect_response(30000, 0x0100001234567890, bytes(range(16)))),
        "00000025 00000000 00007530 0100001234567890 00000010"
        "000102030405060708090a0b0c0d0e0f 00"),
    "create": (
        zk.frame(zk.header(1, zk.CREATE) + zk.request_create("/a", b"x")),
        "00000032 00000001 00000001 00000002 2f61 00000001 78 00000001 0000001f 00000005"
        "776f726c64 00000006 616e796f6e65 00000000"),
    "getData with watch": (
        zk.frame(zk.header(2, zk.GET_DATA) + zk.request_path_watch("/a", True)),
        "0000000f 00000002 00000004 00000002 2f61 01"),
    "ping": (zk.frame(zk.header(zk.XID_PING, zk.PING)), "00000008 fffffffe 0000000b"),
    "closeSession": (zk.frame(zk.header(3, zk.CLOSE)), "00000008 00000003 fffffff5"),
    "auth": (
        zk.frame(zk.header(zk.XID_AUTH, zk.AUTH) + zk.request_auth("digest", b"user:pass")),
        "00000023 fffffffc 00000064 00000000 00000006 646967657374 00000009 757365723a70617373"),
    "multi": (
        zk.frame(zk.header(4, zk.MULTI) + zk.request_multi(
            [(zk.CHECK, zk.request_delete("/a", 0)), (zk.DELETE, zk.request_delete("/a", -1))])),
        "00000037 00000004 0000000e 0000000d 00 ffffffff 00000002 2f61 00000000 00000002 00 ffffffff"
        "00000002 2f61 ffffffff ffffffff 01 ffffffff"),
}


def test_requests_are_encoded_as_the_protocol_says():
    for name, (ours, known) in REQUESTS.items():
        assert ours == _hex(known), f"{name}: {ours.hex()} is not {known}"


def test_replies_are_decoded_as_the_protocol_says():
    created = zk.decode_reply(_hex("00000001 0000000000000005 00000000 00000002 2f61"))
    assert (created.xid, created.zxid, created.err) == (1, 5, 0)
    assert zk.Reader(created.body).ustring() == "/a"
    missing = zk.decode_reply(_hex("00000005 0000000000000007 ffffff9b"))
    assert (missing.xid, missing.err, missing.body) == (5, zk.NO_NODE, b"")
    event = zk.decode_event(zk.decode_reply(
        _hex("ffffffff 0000000000000006 00000000 00000003 00000003 00000002 2f61")))
    assert event == zk.Event(zk.NODE_DATA_CHANGED, 3, "/a", 6)
