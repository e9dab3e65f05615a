// SPDX-License-Identifier: Apache-2.0

// A table of watchers by path and scope. A watcher is a number: the tag of a stream, or the id of a
// watch within a stream.
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
  // Adds a watcher. The same watcher may be added any number of times, also with the same path and
  // scope.
  void Add(uint64_t number, std::string_view path, Scope scope);
  // Undoes one Add. REQUIRES: there was one with the same arguments.
  void Remove(uint64_t number, std::string_view path, Scope scope);
  // Appends each watcher that covers `path` to `*numbers`, once, in ascending order. O(watchers
  // found), plus O(depth of the path) if there are subtree watches.
  void Find(std::string_view path, std::vector<uint64_t>* numbers) const;

  // Returns the number of different watchers of this path and scope.
  size_t Count(std::string_view path, Scope scope) const;
  bool empty() const { return paths_.empty(); }

 private:
  // The watchers, with the number of times that each was added.
  using Numbers = absl::btree_map<uint64_t, uint32_t>;
  using Scopes = std::array<Numbers, kScopes>;

  void Append(std::string_view path, Scope scope, std::vector<uint64_t>* numbers) const;

  StringMap<Scopes> paths_;
  size_t subtree_paths_ = 0;  // the number of paths with subtree watches
};

}  // namespace quorate::rpc::native
