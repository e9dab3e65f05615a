// SPDX-License-Identifier: Apache-2.0

#include "tree/node_paths.h"

#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/escape.h"

namespace quorate::tree {

absl::Status NodePaths::Add(const NodeRecord& node, std::string* path) {
  const bool is_root = node.key == NodeKey{};
  auto parent = parents_.end();
  path->clear();
  if (!is_root) {
    parent = parents_.find(node.parent);
    if (parent == parents_.end() || parent->second.missing == 0) {
      return absl::DataLossError(absl::StrCat("a znode named ", Escape(node.name),
                                              " has no parent; `quorate verify` says more"));
    }
    std::vector<std::string_view> names = {node.name};
    for (auto above = parent; above->first != NodeKey{};) {
      names.push_back(above->second.name);
      above = parents_.find(above->second.parent);
      ASSERT(above != parents_.end(), "a kept znode keeps those above it");
    }
    for (auto name = names.rbegin(); name != names.rend(); ++name) {
      *path += '/';
      *path += *name;
    }
  } else {
    path->push_back('/');
  }
  if (node.children > 0) {
    parents_.emplace_hint(
        parents_.end(), node.key,
        Parent{.parent = node.parent, .name = std::string(node.name), .missing = node.children});
    if (!is_root) ++parent->second.kept_children;
  }
  if (!is_root) {
    --parent->second.missing;
    Release(parent);
  }
  return absl::OkStatus();
}

void NodePaths::Release(Parents::iterator at) {
  while (at->second.missing == 0 && at->second.kept_children == 0) {
    const bool is_root = at->first == NodeKey{};
    const NodeKey above = at->second.parent;
    parents_.erase(at);
    if (is_root) return;
    at = parents_.find(above);
    ASSERT(at != parents_.end(), "a kept znode keeps those above it");
    --at->second.kept_children;
  }
}

}  // namespace quorate::tree
