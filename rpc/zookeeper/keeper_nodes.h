// SPDX-License-Identifier: Apache-2.0

// The virtual znodes by which ClickHouse learns which of ClickHouse Keeper's extensions a server
// has: /keeper/feature_flags and /keeper/api_version, below /keeper. They are in no tree, and
// therefore in no list of the root, no digest and no backup. Anyone may read them; nobody may write
// them.
//
// Thread-safety: functions without state.
#pragma once

#include <string_view>

#include "base/bytes.h"
#include "rpc/zookeeper/protocol.h"
#include "tree/types.h"

namespace quorate::rpc::zk {

inline constexpr std::string_view kKeeperTop = "/keeper";

// Returns whether `path` is /keeper or below it.
inline bool IsKeeperPath(std::string_view path) {
  return path.starts_with(kKeeperTop) &&
         (path.size() == kKeeperTop.size() || path[kKeeperTop.size()] == '/');
}

// Writes the result of a read of a virtual znode, as it is in the reply to `op`: one of the reads
// that name one path. `details` are those of a filtered list. Returns kNoNode, and writes nothing,
// if there is no such znode. REQUIRES: IsKeeperPath(path).
tree::ErrorCode WriteKeeperNode(OpCode op, std::string_view path, const ListDetails& details,
                                BigEndianWriter& to);

}  // namespace quorate::rpc::zk
