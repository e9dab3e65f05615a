// SPDX-License-Identifier: Apache-2.0

// The kinds of nodes, by their lifetime, and how the owner field encodes them. The encoding is
// ZooKeeper's, so that its snapshots and ours agree:
//   0                                           a persistent node
//   INT64_MIN                                   a container
//   0xFF in the top byte, then two zero bytes   a node with a TTL: the low five bytes are its
//                                               milliseconds
//   anything else                               an ephemeral node: the id of its session
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <limits>

#include "base/assert.h"
#include "tree/types.h"

namespace quorate::tree {

enum class NodeKind : uint8_t {
  kPersistent,
  kEphemeral,  // removed when its session ends
  kContainer,  // may be removed once it had children and has none left
  kTtl,        // may be removed if it has no children and its TTL has passed since its last change
};

inline constexpr SessionId kContainerOwner{std::numeric_limits<int64_t>::min()};
inline constexpr int64_t kTtlMaxMs = 0xFFFFFFFFFF;

// Returns whether an owner is in the range that is not used for session ids, which have 1 to 254 in
// the top byte.
inline constexpr bool IsExtendedOwner(SessionId owner) {
  return static_cast<uint64_t>(owner.value()) >> 56 == 0xFF;
}

inline constexpr NodeKind KindOf(SessionId owner) {
  if (owner == kNoSession) return NodeKind::kPersistent;
  if (owner == kContainerOwner) return NodeKind::kContainer;
  return IsExtendedOwner(owner) ? NodeKind::kTtl : NodeKind::kEphemeral;
}

inline constexpr bool IsValidTtl(int64_t ttl_ms) { return ttl_ms > 0 && ttl_ms <= kTtlMaxMs; }

// Returns the owner field of a node with that TTL. REQUIRES: IsValidTtl(ttl_ms).
inline SessionId TtlOwner(int64_t ttl_ms) {
  ASSERT(IsValidTtl(ttl_ms), "the caller has checked the TTL");
  return SessionId(static_cast<int64_t>(uint64_t{0xFF} << 56 | static_cast<uint64_t>(ttl_ms)));
}

// Returns the TTL in milliseconds. The result is not valid (IsValidTtl) if TtlOwner cannot have
// returned the owner. REQUIRES: KindOf(owner) == kTtl.
inline int64_t TtlOf(SessionId owner) {
  ASSERT(IsExtendedOwner(owner), "a node with a TTL");
  return owner.value() & ((int64_t{1} << 56) - 1);
}

}  // namespace quorate::tree
