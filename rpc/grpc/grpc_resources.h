// SPDX-License-Identifier: Apache-2.0

// Checks that the system gives this process the resources that gRPC takes at its start. If gRPC
// does not get them, it aborts the process.
//
// Thread-safety: a function without state.
#pragma once

#include "absl/status/status.h"

namespace quorate::rpc {

// Takes as many file descriptors and threads as a gRPC server with few clients needs, and releases
// them. If it cannot get them, returns ResourceExhausted, with the number needed and the limit to
// raise.
absl::Status CheckGrpcResources();

}  // namespace quorate::rpc
