// Which containers and nodes with a TTL may be removed, and from when: the leader asks for them
// without looking at all others. It follows from the nodes alone: no record of it is kept.
//
// A container may be removed at once when its last child has gone, but not before it has had one:
// it is made in order to get some. A node with a TTL may be removed when it has no children and
// more than its TTL has passed since its data changed.
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

// A time at which containers are due, and no node with a TTL.
inline constexpr int64_t kContainersOnlyMs = std::numeric_limits<int64_t>::min() + 1;

// Does not own the nodes.
class ExpiryIndex {
 public:
  // To be called before and after a change of a node's children or mtime, and when it goes and
  // comes. Nothing happens for most nodes, at the cost of a comparison.
  void Remove(const Znode& node) {
    if (IsConcerned(node)) nodes_.erase(PlaceOf(node));
  }
  void Add(const Znode& node) {
    if (IsConcerned(node)) nodes_.emplace(PlaceOf(node), &node);
  }

  // Whether the node may be removed at `time_ms`.
  static bool IsExpired(const Znode& node, int64_t time_ms) {
    return IsConcerned(node) && DueMs(node) < time_ms;
  }
  // The paths of nodes that may be removed at `time_ms`, at most `max` of them: containers before
  // nodes with a TTL, and those in the order of their time.
  std::vector<std::string> FindExpired(int64_t time_ms, size_t max) const;

  size_t size() const { return nodes_.size(); }

 private:
  using Place = std::pair<int64_t, NodeKey>;

  static bool IsConcerned(const Znode& node);
  // The last millisecond in which it must stay.
  static int64_t DueMs(const Znode& node);
  static Place PlaceOf(const Znode& node) { return {DueMs(node), KeyOf(node)}; }

  absl::btree_map<Place, const Znode*> nodes_;
};

}  // namespace quorate::tree
