// SPDX-License-Identifier: Apache-2.0

// What servers of this version say of themselves to clients of the native front end.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "rpc/proto/quorate/v1/types.pb.h"

namespace quorate::rpc {

// The revision of quorate.v1. A version that adds to its .proto files has the next one.
inline constexpr uint32_t kApiRevision = 1;

// Sets the version, the revision, and the features of a cluster with this cluster version
// (tree/command.h).
void SetServer(uint32_t cluster_version, v1::Server* server);

// Returns UNIMPLEMENTED, with an ErrorDetail, if a client needs a later revision than kApiRevision.
absl::Status CheckRevision(uint32_t min_revision);

}  // namespace quorate::rpc
