// SPDX-License-Identifier: Apache-2.0

// The digest of the tree: the sum of a hash of each znode, session, response cache and proposer,
// and of the time. A change subtracts the old hash of each element that it changes and adds the new
// one, so that updating the digest costs as much as the change itself.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <string_view>

#include "tree/hash.h"
#include "tree/znode.h"

namespace quorate::tree {

// The kinds of terms in the sum. Terms of different kinds differ even if they are made of equal
// numbers.
inline constexpr uint64_t kNodeTerm = 1;
inline constexpr uint64_t kSessionTerm = 2;
inline constexpr uint64_t kProposerTerm = 3;
inline constexpr uint64_t kTimeTerm = 4;
inline constexpr uint64_t kAnswersTerm = 5;  // a session's last and acknowledged sequence numbers
inline constexpr uint64_t kAnswerTerm = 6;
inline constexpr uint64_t kHoldTerm = 7;

// Returns the value for Znode::content_hash.
inline uint64_t HashContent(std::string_view path, const ZnodeData& data) {
  return HashBytes(data.view(), HashBytes(path) + (data.has_data() ? 1 : 0));
}

// Returns the term of a node. It leaves out the number of children and the data length, which
// follow from the other nodes and the data.
inline uint64_t HashNode(const Znode& node, uint64_t content_hash, uint64_t acl_hash) {
  const auto pair = [](int32_t high, int32_t low) {
    return uint64_t{static_cast<uint32_t>(high)} << 32 | static_cast<uint32_t>(low);
  };
  return HashNumbers<10>(
      kNodeTerm,
      {content_hash, acl_hash, static_cast<uint64_t>(node.czxid.value()),
       static_cast<uint64_t>(node.mzxid.value()), static_cast<uint64_t>(node.pzxid().value()),
       static_cast<uint64_t>(node.ctime_ms), static_cast<uint64_t>(node.mtime_ms),
       static_cast<uint64_t>(node.owner().value()), pair(node.version, node.created_children()),
       uint64_t{static_cast<uint32_t>(node.aversion())} << 32 | node.ordinal});
}

// Returns the term of the time until which TTLs are held; it is added only while they are held.
inline uint64_t HashHold(int64_t until_ms) {
  return HashNumbers<1>(kHoldTerm, {static_cast<uint64_t>(until_ms)});
}

inline uint64_t HashTime(int64_t time_ms) {
  return HashNumbers<1>(kTimeTerm, {static_cast<uint64_t>(time_ms)});
}

}  // namespace quorate::tree
