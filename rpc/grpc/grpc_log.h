// Redirects gRPC's own log, which gRPC would print on standard error in its own format.
//
// Thread-safety: may be called from any thread.
#pragma once

namespace quorate::rpc {

// From now on gRPC's log lines go to the program's log, with gRPC's level. gRPC decides what it
// logs: errors, unless the variable GRPC_VERBOSITY says otherwise.
void TakeGrpcLog();

}  // namespace quorate::rpc
