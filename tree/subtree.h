// SPDX-License-Identifier: Apache-2.0

// A read of everything below a znode in a fixed order, in pieces between which the tree may change
// (Tree::ReadSubtree). The place at which it continues holds names only. Its memory is bounded: by
// SubtreeQuery::names_bytes_max, and by the length of a path.
//
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tree/next_names.h"
#include "tree/node_kind.h"
#include "tree/pieces.h"
#include "tree/types.h"

namespace quorate::tree {

enum class SubtreeOrder : uint8_t {
  kPaths,   // a znode, then everything below it, then its next sibling
  kLevels,  // breadth first: by depth, and within one depth as kPaths
};

// The znodes that a read shows. Siblings are in the byte order of their names. The top itself does
// not belong to the read.
struct SubtreeQuery {
  std::string top = "/";
  SubtreeOrder order = SubtreeOrder::kPaths;
  // Only znodes whose path relative to the top ("a/b") begins with it.
  std::string prefix{};
  // The greatest depth below the top; 1: its children. At least 1.
  size_t depth_max = SIZE_MAX;
  // A set of bits 1 << NodeKind; 0: znodes of all kinds.
  uint32_t kinds = 0;
  // Whether SubtreeEntry::data and may_read are set.
  bool with_data = false;
  // From this size in bytes on, names that are kept for later are dropped and read again.
  size_t names_bytes_max = size_t{4} << 20;
};

// The greatest depth below the top to which a read goes. A read in the order of the levels goes down
// from the top again for each level.
constexpr size_t SubtreeDepthMax(SubtreeOrder order) {
  return order == SubtreeOrder::kPaths ? 4096 : 1024;
}

// A znode that was read.
struct SubtreeEntry {
  std::string_view path;  // relative to the top: "a/b"
  Stat stat;
  NodeKind kind{};
  bool may_read = false;  // whether the caller may read the data
  bool has_data = false;
  std::string_view data;
};

class SubtreePlace {
 public:
  // The begin of a read.
  SubtreePlace() = default;
  // Returns the place behind the znode at the relative path `last`, which need not exist. Returns
  // nullopt if there is no such place: `last` is not a relative path, or is deeper than the query or
  // SubtreeDepthMax allows.
  static std::optional<SubtreePlace> Behind(const SubtreeQuery& query, std::string_view last);

  bool done() const { return done_; }
  // Returns whether the read cannot go on, because there are znodes below SubtreeDepthMax that belong
  // to it.
  bool is_too_deep() const { return is_too_deep_; }
  // Returns the relative path of the last znode that is behind this place, whether it was shown or
  // not; empty at the begin.
  const std::string& last() const { return last_; }
  // Returns whether SortNames must be called before the next piece.
  bool has_names_to_sort() const { return has_names_to_sort_ || !dropped_.empty(); }
  // Sorts the names of a large directory, and frees what is not needed any more. O(names); the tree
  // need not be locked.
  void SortNames(const SubtreeQuery& query);
  // Returns about how many bytes are allocated.
  size_t bytes() const;

 private:
  friend class SubtreeWalk;

  // A znode whose children are being read.
  struct Level {
    std::string name{};         // empty for the top
    std::string after{};        // children up to this name are behind the place
    bool is_gathering = false;  // `names` does not have all next names yet
    ChildrenPlace gathered{};   // the children of which the names were gathered
    NextNames names{};

    // Begins to gather the names that follow `after`.
    void Gather() {
      is_gathering = true;
      gathered = {};
      names.Begin(after);
    }
  };
  void Push(std::string name, std::string after);

  bool begun_ = false;
  bool done_ = false;
  bool is_too_deep_ = false;
  bool has_names_to_sort_ = false;  // of the last level
  std::string last_;
  std::vector<Level> levels_;   // from the top down
  std::vector<Level> dropped_;  // to be freed while the tree is not locked
  // Only for kLevels: the depth of the znodes that are shown in this pass, and whether there may be
  // znodes below them.
  size_t depth_ = 1;
  bool has_deeper_ = false;
};

}  // namespace quorate::tree
