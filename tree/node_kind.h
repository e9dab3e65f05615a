// The kinds of nodes, by their lifetime, and how the owner field encodes them: as in ZooKeeper, so
// that its snapshots and ours agree. 0 is a node that exists until it is deleted, INT64_MIN a
// container, 0xFF in the top byte with two zero bytes behind it a node with a TTL of so many
// milliseconds (the low five bytes), and anything else the session of an ephemeral node.
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
  kContainer,  // may be removed once it has had children and has none any more
  kTtl,        // may be removed when it has no children and was not changed for its TTL
};

inline constexpr SessionId kContainerOwner{std::numeric_limits<int64_t>::min()};
inline constexpr int64_t kTtlMaxMs = 0xFFFFFFFFFF;

// Returns whether an owner is in the range that is no session id: session ids have 1 to 254 in the
// top byte.
inline constexpr bool IsExtendedOwner(SessionId owner) {
  return static_cast<uint64_t>(owner.value()) >> 56 == 0xFF;
}

inline constexpr NodeKind KindOf(SessionId owner) {
  if (owner == kNoSession) return NodeKind::kPersistent;
  if (owner == kContainerOwner) return NodeKind::kContainer;
  return IsExtendedOwner(owner) ? NodeKind::kTtl : NodeKind::kEphemeral;
}

inline constexpr bool IsValidTtl(int64_t ttl_ms) { return ttl_ms > 0 && ttl_ms <= kTtlMaxMs; }

// REQUIRES: IsValidTtl(ttl_ms).
inline SessionId TtlOwner(int64_t ttl_ms) {
  ASSERT(IsValidTtl(ttl_ms), "the caller has checked it");
  return SessionId(static_cast<int64_t>(uint64_t{0xFF} << 56 | static_cast<uint64_t>(ttl_ms)));
}

// Returns the TTL in milliseconds. It is not valid (IsValidTtl) if TtlOwner cannot have made the
// owner. REQUIRES: KindOf(owner) == kTtl.
inline int64_t TtlOf(SessionId owner) {
  ASSERT(IsExtendedOwner(owner), "a node with a TTL");
  return owner.value() & ((int64_t{1} << 56) - 1);
}

}  // namespace quorate::tree
