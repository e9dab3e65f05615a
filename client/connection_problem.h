// SPDX-License-Identifier: Apache-2.0

// Finds out why TLS with a server does not work, for error messages: gRPC tells little of it.
//
// Thread-safety: functions without state.
#pragma once

#include <chrono>
#include <string>

#include "client/tls.h"

namespace quorate::internal {

// Connects to `address`, host:port, as a client with these options would, and returns what is wrong:
// the server's certificate (expired, of an unknown authority, for another name), this client's
// certificate (refused, missing), or that one of the two uses TLS and the other does not. The text
// has the address and what to do; it is empty if nothing was found within `patience`, or `address`
// is not host:port. Blocks.
std::string ConnectionProblem(const std::string& address, const TlsOptions& options,
                              std::chrono::milliseconds patience);

}  // namespace quorate::internal
