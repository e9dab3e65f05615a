// SPDX-License-Identifier: Apache-2.0

// What a caller of gRPC has shown of itself with its call.
//
// Thread-safety: plain values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "rpc/frontend/authorization.h"
#include "rpc/proto/quorate/v1/types.pb.h"

namespace quorate::rpc {

struct CallerProof {
  // The address of the caller, and what its certificate and the metadata `authorization` have
  // proved.
  Principal principal{};
  std::string peer{};  // its connection, as gRPC names it
  // Those of the metadata `quorate-credential`. What they prove is not checked yet.
  std::vector<v1::Credential> credentials{};
  // Not OK: the metadata with the key `refused_key` is wrong, and the call ends with this status.
  absl::Status refused{};
  std::string_view refused_key{};
};

}  // namespace quorate::rpc
