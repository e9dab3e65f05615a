// SPDX-License-Identifier: Apache-2.0

// Builds a tree from its records: those that Tree::ForEachRecord returns, or those in a store to
// which checkpoint deltas were written.
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

// Loads a tree from records that may be damaged. For any records, the result is either an error or
// a consistent tree whose digest, computed from scratch from its nodes, is the expected one.
class TreeLoader {
 public:
  TreeLoader();
  ~TreeLoader();
  TreeLoader(const TreeLoader&) = delete;
  TreeLoader& operator=(const TreeLoader&) = delete;

  // Adds the next record. Returns DataLoss, with the record's name, if keys do not ascend, or if
  // the key or value is malformed or does not fit the earlier records. REQUIRES: no error was
  // returned before.
  absl::Status Add(std::string_view key, std::string_view value);

  // Return the number of nodes added so far, and of all nodes of the tree; 0 before the head was
  // added.
  uint64_t nodes() const;
  uint64_t nodes_total() const;

  // Returns the tree after all records were added. Nothing in it counts as changed
  // (Tree::BeginDelta). Returns DataLoss if records are missing, or if the tree does not have the
  // expected `zxid` and `digest`. REQUIRES: no error was returned before; called once.
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
