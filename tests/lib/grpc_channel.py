# SPDX-License-Identifier: Apache-2.0
"""Connections to gRPC ports."""

import grpc


def open_channel(address, ca_file=""):
    """Returns a channel with a connection of its own; with `ca_file`, the authorities of the servers' certificates, it has
    TLS."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    if not ca_file:
        return grpc.insecure_channel(address, options)
    with open(ca_file, "rb") as file:
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(file.read()), options)
