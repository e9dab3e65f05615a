// The lines of gRPC's own log, which it would print on standard error in a format of its own.
//
// Thread-safety: may be called from any thread.
#pragma once

namespace quorate::rpc {

// From now on they are lines of the program's log, with gRPC's level. What gRPC logs at all is its
// own matter: errors, unless its variable GRPC_VERBOSITY says more.
void TakeGrpcLog();

}  // namespace quorate::rpc
