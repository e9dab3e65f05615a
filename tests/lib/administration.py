# SPDX-License-Identifier: Apache-2.0
"""Administration of a cluster through the native front end."""

import importlib
import subprocess
import sys
import tempfile

import grpc
import grpc_channel
import harness

SECONDS = 5


def _load():
    with tempfile.TemporaryDirectory(prefix="quorate-proto-") as directory:
        subprocess.run(["protoc", f"--proto_path={harness.ROOT}/rpc/proto", f"--python_out={directory}",
                        "quorate/v1/types.proto", "quorate/v1/cluster.proto"],
                       check=True)
        sys.path.insert(0, directory)
        return importlib.import_module("quorate.v1.cluster_pb2")


_messages = _load()


def transfer_leadership(address, member, token=None, ca_file=""):
    """Asks the leader, at `address`, to transfer leadership to `member`; with an administrator's token, if it is given, and
    with TLS, if the file with the authorities of the servers' certificates is given. Returns the reason of a refusal; "" if
    the transfer has begun."""
    metadata = [("authorization", f"Bearer {token}")] if token else []
    with grpc_channel.open_channel(address, ca_file) as channel:
        stub = channel.unary_unary("/quorate.v1.ClusterService/TransferLeadership",
                                   _messages.TransferLeadershipRequest.SerializeToString,
                                   _messages.TransferLeadershipResponse.FromString)
        try:
            stub(_messages.TransferLeadershipRequest(member=member), timeout=SECONDS, metadata=metadata)
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"
    return ""
