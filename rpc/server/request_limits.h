// What a write may ask of the members that apply it. Each of them makes its access control lists
// and its permission checks, while it holds up all others: what is too much must be refused before
// it is in the log, where it would be applied again at each start.
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>
#include <span>

#include "tree/command.h"

namespace quorate::rpc {

// Of one list, after each "auth" entry has been replaced by one for each identity of the caller.
inline constexpr size_t kAclEntriesMax = 256;
inline constexpr size_t kAclBytesMax = 64u << 10;
// Of all lists of one request.
inline constexpr size_t kRequestAclBytesMax = 8u << 20;
// Each operation checks permissions for each identity of the caller.
inline constexpr size_t kIdentityChecksMax = 500'000;

// Whether the lists of a request are within these limits.
// `identities`: the caller's.
bool AclsFit(const tree::Request& request, std::span<const tree::Identity> identities);

// Whether that many operations may be asked for together.
inline bool ChecksFit(size_t operations, size_t identities) {
  return operations <= kIdentityChecksMax / (identities + 1);
}

}  // namespace quorate::rpc
