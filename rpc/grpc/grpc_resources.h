// Whether the system gives this process what gRPC takes at its start: gRPC itself aborts the
// process when it does not.
//
// Thread-safety: a function without state.
#pragma once

#include "absl/status/status.h"

namespace quorate::rpc {

// Takes, and gives back, as many file descriptors and threads as a gRPC server with few clients
// has. ResourceExhausted if one of them cannot be had, with how many are needed and the limit to
// raise.
absl::Status CheckGrpcResources();

}  // namespace quorate::rpc
