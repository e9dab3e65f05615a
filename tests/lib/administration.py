"""What only the native front end can do to a cluster."""

import importlib
import subprocess
import sys
import tempfile

import grpc
import harness

SECONDS = 5


def _load():
    with tempfile.TemporaryDirectory(prefix="quorate-proto-") as directory:
        subprocess.run(["protoc", f"--proto_path={harness.ROOT}", f"--python_out={directory}",
                        *(f"rpc/proto/quorate/v1/{name}.proto" for name in ("types", "tree", "cluster"))],
                       check=True)
        sys.path.insert(0, directory)
        return importlib.import_module("rpc.proto.quorate.v1.cluster_pb2")


_messages = _load()


def transfer_leadership(address, member):
    """Asks the member at `address`, which leads, to hand over to another one. Why it did not; "" if it did."""
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        stub = channel.unary_unary("/quorate.v1.Cluster/TransferLeadership",
                                   _messages.TransferLeadershipRequest.SerializeToString,
                                   _messages.TransferLeadershipResponse.FromString)
        try:
            stub(_messages.TransferLeadershipRequest(member=member), timeout=SECONDS)
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"
    return ""
