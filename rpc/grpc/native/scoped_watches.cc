// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/scoped_watches.h"

#include <algorithm>

#include "base/assert.h"
#include "tree/path.h"

namespace quorate::rpc::native {

void ScopedWatches::Add(uint64_t number, std::string_view path, Scope scope) {
  Numbers& numbers = paths_[path][static_cast<size_t>(scope)];
  if (numbers.empty() && scope == Scope::kSubtree) ++subtree_paths_;
  ++numbers[number];
}

void ScopedWatches::Remove(uint64_t number, std::string_view path, Scope scope) {
  const auto found = paths_.find(path);
  ASSERT(found != paths_.end());
  Numbers& numbers = found->second[static_cast<size_t>(scope)];
  const auto entry = numbers.find(number);
  ASSERT(entry != numbers.end());
  if (--entry->second > 0) return;
  numbers.erase(entry);
  if (!numbers.empty()) return;
  if (scope == Scope::kSubtree) --subtree_paths_;
  if (std::all_of(found->second.begin(), found->second.end(),
                  [](const Numbers& of_scope) { return of_scope.empty(); })) {
    paths_.erase(found);
  }
}

size_t ScopedWatches::Count(std::string_view path, Scope scope) const {
  const auto found = paths_.find(path);
  return found == paths_.end() ? 0 : found->second[static_cast<size_t>(scope)].size();
}

void ScopedWatches::Append(std::string_view path, Scope scope,
                           std::vector<uint64_t>* numbers) const {
  const auto found = paths_.find(path);
  if (found == paths_.end()) return;
  for (const auto& [number, count] : found->second[static_cast<size_t>(scope)]) {
    numbers->push_back(number);
  }
}

void ScopedWatches::Find(std::string_view path, std::vector<uint64_t>* numbers) const {
  if (paths_.empty()) return;
  const auto begin = static_cast<ptrdiff_t>(numbers->size());
  Append(path, Scope::kNode, numbers);
  Append(path, Scope::kChildren, numbers);
  if (path != "/") Append(tree::ParentPath(path), Scope::kChildren, numbers);
  for (std::string_view at = path; subtree_paths_ > 0; at = tree::ParentPath(at)) {
    Append(at, Scope::kSubtree, numbers);
    if (at == "/") break;
  }
  std::sort(numbers->begin() + begin, numbers->end());
  numbers->erase(std::unique(numbers->begin() + begin, numbers->end()), numbers->end());
}

}  // namespace quorate::rpc::native
