// Makes a tree of its records: the way back from Tree::ForEachRecord, and from a store that the
// deltas went into.
//
// Thread-safety: none inside.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tree/tree.h"
#include "tree/types.h"

namespace quorate::tree {

// Nothing is taken on trust: whatever the records are, the answer is an error or a tree that is
// whole in itself, and whose digest, which is computed from scratch from its nodes, is the one
// expected.
class TreeLoader {
 public:
  TreeLoader();
  ~TreeLoader();
  TreeLoader(const TreeLoader&) = delete;
  TreeLoader& operator=(const TreeLoader&) = delete;

  // The next record. REQUIRES: no error was returned before. DataLoss if keys do not ascend, or if
  // key or value are malformed or do not go with the records before; it names the record.
  absl::Status Add(std::string_view key, std::string_view value);

  // How many nodes were added, and how many there will be; 0 before the head came.
  uint64_t nodes() const;
  uint64_t nodes_total() const;

  // The tree, once all were added; nothing in it counts as changed (Tree::BeginDelta). `zxid` and
  // `digest` are what it is expected to have. DataLoss if it is another, or records are missing.
  // REQUIRES: no error was returned before, and it is called once.
  absl::StatusOr<std::unique_ptr<Tree>> Finish(Zxid zxid, uint64_t digest);

 private:
  struct State;

  absl::Status AddHead(std::string_view key, std::string_view value);
  absl::Status AddSession(std::string_view key, std::string_view value);
  absl::Status AddNode(std::string_view key, std::string_view value);
  absl::Status CheckWhole(Zxid zxid, uint64_t digest) const;

  std::unique_ptr<State> state_;
};

}  // namespace quorate::tree
