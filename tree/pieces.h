// SPDX-License-Identifier: Apache-2.0

// Places at which a long read continues. Long reads are done in pieces, so that the tree is not
// locked for long, and the tree may change between two pieces. Therefore a place holds names, not
// pointers.
//
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace quorate::tree {

// A place among the children of a znode (Tree::ReadChildren).
struct ChildrenPlace {
  uint64_t position = 0;
  bool at_end = false;
};

// A place below a znode (Tree::CountDescendants): the steps of the path from the top to the znode
// whose children are being counted. The children of each step are read in pieces.
struct DescendantsPlace {
  struct Step {
    std::string name;  // empty for the top
    ChildrenPlace children;
    std::vector<std::string> parents;  // children of the last piece that have children themselves
                                       // and are still to be visited
  };
  bool begun = false;
  size_t count = 0;  // znodes below the top counted so far
  std::vector<Step> way;
};

}  // namespace quorate::tree
