// Which znodes' events a watch of the native door sees.
//
// Thread-safety: values and functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

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

}  // namespace quorate::rpc::native
