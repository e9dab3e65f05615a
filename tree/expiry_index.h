// SPDX-License-Identifier: Apache-2.0

// An index of the containers and of the nodes with a TTL that may be removed, and from which time
// on. With the index the leader finds them without looking at all nodes. The index is derived from
// the nodes alone and is not part of a checkpoint.
//
// A container may be removed at once when its last child is deleted, but not before it has had a
// child. A node with a TTL may be removed when it has no children and more than its TTL has passed
// since its data changed.
//
// Thread-safety: none inside; const functions may be called together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "tree/record.h"
#include "tree/znode.h"

namespace quorate::tree {

// A time at which empty containers are due, but no node with a TTL is.
inline constexpr int64_t kContainersOnlyMs = std::numeric_limits<int64_t>::min() + 1;

// Holds pointers only: the tree owns the nodes.
class ExpiryIndex {
 public:
  // Call Remove before and Add after each change of a node's children or mtime; also Remove when
  // the node is deleted, and Add when it is created. For most nodes both make only a comparison.
  void Remove(const Znode& node) {
    if (IsConcerned(node)) nodes_.erase(PlaceOf(node));
  }
  void Add(const Znode& node) {
    if (IsConcerned(node)) nodes_.emplace(PlaceOf(node), &node);
  }

  // Returns whether the node may be removed at `time_ms`.
  static bool IsExpired(const Znode& node, int64_t time_ms) {
    return IsConcerned(node) && DueMs(node) < time_ms;
  }
  // Returns the paths of nodes that may be removed at `time_ms`, at most `max` of them: containers
  // first, then nodes with a TTL in the order of their due time.
  std::vector<std::string> FindExpired(int64_t time_ms, size_t max) const;

  size_t size() const { return nodes_.size(); }

 private:
  using Place = std::pair<int64_t, NodeKey>;

  static bool IsConcerned(const Znode& node);
  // Returns the last millisecond in which the node must not be removed yet.
  static int64_t DueMs(const Znode& node);
  static Place PlaceOf(const Znode& node) { return {DueMs(node), KeyOf(node)}; }

  absl::btree_map<Place, const Znode*> nodes_;
};

}  // namespace quorate::tree
