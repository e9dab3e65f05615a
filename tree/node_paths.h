// SPDX-License-Identifier: Apache-2.0

// Determines the paths of znodes from their records.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "tree/record.h"

namespace quorate::tree {

// Determines the paths of a tree's znodes, which are added in the order of their keys. It keeps the name
// of each znode whose children, or whose children's children and so on, are not all added yet. So its
// memory is at most that of the names in the tree, however long the paths are.
class NodePaths {
 public:
  // Sets `*path` to the path of a znode, and stores what its children need. DataLoss if its parent was
  // not added before it.
  absl::Status Add(const NodeRecord& node, std::string* path);
  // Returns the number of znodes whose names are kept.
  size_t kept() const { return parents_.size(); }

 private:
  struct Parent {
    NodeKey parent;
    std::string name;
    uint32_t missing = 0;        // children that were not added yet
    uint32_t kept_children = 0;  // children in the map
  };
  using Parents = std::map<NodeKey, Parent>;

  // Removes the znode if nothing needs it any more, and then those above it.
  void Release(Parents::iterator at);

  Parents parents_;
};

}  // namespace quorate::tree
