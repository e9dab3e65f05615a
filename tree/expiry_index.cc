// SPDX-License-Identifier: Apache-2.0

#include "tree/expiry_index.h"

#include <limits>

namespace quorate::tree {

bool ExpiryIndex::IsConcerned(const Znode& node) {
  switch (node.kind()) {
    case NodeKind::kPersistent:
    case NodeKind::kEphemeral:
      return false;
    case NodeKind::kContainer:
      return node.created_children() > 0 && node.children().empty();
    case NodeKind::kTtl:
      return node.children().empty();
  }
  ASSERT(false, "unknown kind of node");
}

int64_t ExpiryIndex::DueMs(const Znode& node) {
  if (node.kind() == NodeKind::kContainer) return std::numeric_limits<int64_t>::min();
  const int64_t ttl_ms = TtlOf(node.owner());
  const bool is_never = node.mtime_ms > std::numeric_limits<int64_t>::max() - ttl_ms;
  return is_never ? std::numeric_limits<int64_t>::max() : node.mtime_ms + ttl_ms;
}

std::vector<std::string> ExpiryIndex::FindExpired(int64_t time_ms, size_t max) const {
  std::vector<std::string> paths;
  for (const auto& [place, node] : nodes_) {
    if (paths.size() == max || place.first >= time_ms) break;
    paths.push_back(node->Path());
  }
  return paths;
}

}  // namespace quorate::tree
