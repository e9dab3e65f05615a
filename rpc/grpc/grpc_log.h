// SPDX-License-Identifier: Apache-2.0

// Redirects gRPC's own log. gRPC would print it on standard error in its own format.
//
// Thread-safety: may be called from any thread.
#pragma once

#include <cstdint>

namespace quorate::rpc {

// Writes gRPC's log lines to the program's log from now on, with gRPC's level. gRPC decides which
// lines it logs: only errors, unless the variable GRPC_VERBOSITY is set. Failed handshakes of TLS,
// whose rate clients control, are logged every five seconds at most, with the level info.
void TakeGrpcLog();

// Returns how many handshakes of TLS have failed in this process since TakeGrpcLog, as gRPC's log
// says: gRPC reports them nowhere else. Clients that go away in the middle of a handshake, or take too
// long for it, are not among them. Never decreases.
int64_t FailedGrpcHandshakes();

}  // namespace quorate::rpc
