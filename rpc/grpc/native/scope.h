// SPDX-License-Identifier: Apache-2.0

// The znodes whose events a watch of the native front end covers.
//
// Thread-safety: values and functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rpc/frontend/event.h"
#include "tree/path.h"
#include "tree/types.h"

namespace quorate::rpc::native {

enum class Scope : uint8_t {
  kNode,      // the znode at the path of the watch
  kChildren,  // that znode and its children
  kSubtree,   // that znode and everything below it
};
inline constexpr size_t kScopes = 3;

// Returns whether a watch of `scope` at `watched` covers the znode at `path`. REQUIRES: both are
// valid paths.
inline bool Sees(Scope scope, std::string_view watched, std::string_view path) {
  if (watched == path) return true;
  if (scope == Scope::kNode || path == "/") return false;
  if (scope == Scope::kChildren) return tree::ParentPath(path) == watched;
  return watched == "/" || (path.size() > watched.size() && path[watched.size()] == '/' &&
                            path.substr(0, watched.size()) == watched);
}

// Returns whether a watch of `scope` at `watched`, which covers the event, sends the event to a
// client. `may_read` says that the client may read the znode. `may_list` says that the client may
// list the parent, and that the event is a creation or deletion. As in ZooKeeper, a subtree watch
// checks only the access control list of the znode itself.
inline bool IsTold(Scope scope, std::string_view watched, const Event& event, bool may_read,
                   bool may_list) {
  if (watched == event.path) return may_read;
  // A watch on children shows exactly the changes that a list of the children would show.
  if (scope == Scope::kChildren && event.changes_children()) return may_list;
  return may_read;
}

}  // namespace quorate::rpc::native
