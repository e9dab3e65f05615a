// Reads that take longer than the tree may be locked for are done in pieces, between which the tree
// may change. These values say where each goes on. They hold names and no pointers.
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

// A place below a znode (Tree::CountDescendants): a way down, of which each step has its children
// read in pieces.
struct DescendantsPlace {
  struct Step {
    std::string name;  // empty: the top
    ChildrenPlace children;
    std::vector<std::string> parents;  // of the last piece: those with children, still to look at
  };
  bool begun = false;
  size_t count = 0;  // of znodes below the top so far
  std::vector<Step> way;
};

}  // namespace quorate::tree
