// Which znodes' events a watch of the native front end sees.
//
// Thread-safety: values and functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rpc/grpc/native/event.h"
#include "tree/path.h"
#include "tree/types.h"

namespace quorate::rpc::native {

enum class Scope : uint8_t {
  kNode,      // the one at its path
  kChildren,  // that one and its children
  kSubtree,   // that one and everything below it
};
inline constexpr size_t kScopes = 3;

// Whether a watch of `scope` at `watched` sees what happens at `path`; both are valid paths.
inline bool Sees(Scope scope, std::string_view watched, std::string_view path) {
  if (watched == path) return true;
  if (scope == Scope::kNode || path == "/") return false;
  if (scope == Scope::kChildren) return tree::ParentPath(path) == watched;
  return watched == "/" || (path.size() > watched.size() && path[watched.size()] == '/' &&
                            path.substr(0, watched.size()) == watched);
}

// Whether a watch of `scope` at `watched`, which sees the event, tells a client of it. `may_read`:
// the client may read the znode. `may_list`: it may list the parent, and the event is a creation or
// deletion. As ZooKeeper: what a recursive watch tells is a matter of each znode alone.
inline bool IsTold(Scope scope, std::string_view watched, const Event& event, bool may_read,
                   bool may_list) {
  if (watched == event.path) return may_read;
  // A watch on children tells what a list of them would show, no less and no more.
  if (scope == Scope::kChildren && event.changes_children()) return may_list;
  return may_read;
}

}  // namespace quorate::rpc::native
