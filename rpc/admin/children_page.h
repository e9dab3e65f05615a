// SPDX-License-Identifier: Apache-2.0

// Reads a part of the children of a znode in the order of their names. The tree is unlocked after each
// kNodesPerHold children, and memory is bounded by the size of the page, however many children there
// are; the time is proportional to the number of children.
//
// Thread-safety: functions without state.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/frontend/service.h"
#include "tree/tree.h"
#include "tree/types.h"

namespace quorate::rpc::admin {

// The bytes of names on one page, beyond one name.
inline constexpr size_t kPageNameBytesMax = 1u << 20;

struct ChildrenRequest {
  std::string path;
  std::string prefix;  // names that do not begin with it are left out
  std::string after;   // only names after this one, in the order of their bytes
  size_t limit = 0;    // at least 1
};

struct ChildrenPage {
  std::vector<std::string> names;  // ascending
  bool has_more = false;           // there are names after the last one
  tree::Stat stat;                 // of the znode, when the last piece was read
};

// Reads the first names that match. A child that exists all the while is found; one that is created or
// deleted meanwhile may or may not be. Returns kNoNode or kNoAuth as getChildren does, by the
// identities besides world:anyone. REQUIRES: the caller does not hold the lock of the tree.
tree::ErrorCode ReadChildrenPage(const Service& service, const ChildrenRequest& request,
                                 std::span<const tree::Identity> identities, ChildrenPage* page);

}  // namespace quorate::rpc::admin
