// SPDX-License-Identifier: Apache-2.0

// Redirects gRPC's own log. gRPC would print it on standard error in its own format.
//
// Thread-safety: may be called from any thread.
#pragma once

namespace quorate::rpc {

// Writes gRPC's log lines to the program's log from now on, with gRPC's level. gRPC decides which
// lines it logs: only errors, unless the variable GRPC_VERBOSITY is set. Failed handshakes of TLS,
// whose rate clients control, are logged every five seconds at most, with the level info.
void TakeGrpcLog();

}  // namespace quorate::rpc
