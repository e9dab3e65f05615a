// SPDX-License-Identifier: Apache-2.0

// A change of a znode, for the watches of all front ends.
//
// Thread-safety: immutable values.
#pragma once

#include <string>

#include "rpc/frontend/client_identities.h"
#include "tree/types.h"

namespace quorate::rpc {

struct Event {
  tree::EventType type{};  // never kNodeChildrenChanged
  std::string path;
  tree::Zxid zxid;
  Readers readers;
  // For a creation or deletion, the clients that may list the parent. A watch on the parent's
  // children sends them the event even if they are not among `readers`.
  Readers parent_readers;

  bool changes_children() const { return type != tree::EventType::kNodeDataChanged; }
};

}  // namespace quorate::rpc
