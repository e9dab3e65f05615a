// SPDX-License-Identifier: Apache-2.0

// The address in what gRPC calls a peer. Thread-safety: functions without state.
#pragma once

#include <string>
#include <string_view>

namespace quorate::rpc {

// Returns only the address from "ipv4:10.0.0.1:7000" or "ipv6:[::1]:7000" (or with %5B and %5D). A
// caller through a Unix socket, "unix:...", has the address 127.0.0.1, as it is on this machine.
std::string AddressOf(std::string_view peer);

}  // namespace quorate::rpc
