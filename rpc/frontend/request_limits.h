// SPDX-License-Identifier: Apache-2.0

// Limits of what a write may cost the members that apply it. Each member expands the access control
// lists of a write and checks its permissions while all other requests wait. A write beyond the
// limits must be refused before it is in the log, because a member applies the log again at each
// start.
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>
#include <span>

#include "tree/command.h"

namespace quorate::rpc {

// The limits of one list. Each "auth" entry counts once for each identity of the caller, because it
// is expanded to these.
inline constexpr size_t kAclEntriesMax = 256;
inline constexpr size_t kAclBytesMax = 64u << 10;
// The limit of all lists of one request together.
inline constexpr size_t kRequestAclBytesMax = 8u << 20;
// The limit of operations times identities: each operation looks up each identity of the caller.
inline constexpr size_t kIdentityChecksMax = 500'000;

// The limit of operations and compares of a request with branches, together. A request without branches
// has no limit of its own, because earlier versions had none.
inline constexpr size_t kBranchPartsMax = 10'000;

// Returns whether the access control lists of a request are within the limits above. `identities`
// are those of the caller.
bool AclsFit(const tree::Request& request, std::span<const tree::Identity> identities);

// Returns how many ephemerals the request creates at most, whichever of its branches is taken.
size_t EphemeralsIn(const tree::Request& request);

// Returns whether a request with `operations` is allowed for a caller with `identities`.
inline bool ChecksFit(size_t operations, size_t identities) {
  return operations <= kIdentityChecksMax / (identities + 1);
}

}  // namespace quorate::rpc
