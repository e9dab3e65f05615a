// Who watches what: numbers (of streams, or of watches within a stream) by path and scope.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/btree_map.h"
#include "base/strings.h"
#include "rpc/grpc/native/scope.h"

namespace quorate::rpc::native {

class ScopedWatches {
 public:
  // A number may be added any number of times, also to the same path and scope.
  void Add(uint64_t number, std::string_view path, Scope scope);
  // Undoes one Add. REQUIRES: there was one.
  void Remove(uint64_t number, std::string_view path, Scope scope);
  // Appends to `*numbers`, ascending, each that sees what happens at `path`, once. O(depth of the
  // path) if anything below a path is watched, besides those that are found.
  void Find(std::string_view path, std::vector<uint64_t>* numbers) const;

  // How many different numbers were added to this path and scope.
  size_t Count(std::string_view path, Scope scope) const;
  bool empty() const { return paths_.empty(); }

 private:
  // The numbers, and how often each was added.
  using Numbers = absl::btree_map<uint64_t, uint32_t>;
  using Scopes = std::array<Numbers, kScopes>;

  void Append(std::string_view path, Scope scope, std::vector<uint64_t>* numbers) const;

  StringMap<Scopes> paths_;
  size_t subtree_paths_ = 0;  // with watches of that scope
};

}  // namespace quorate::rpc::native
