// Makes a tree of the records of a store: a start.
//
// Thread-safety: a function of its arguments.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "tree/store/record_store.h"
#include "tree/tree.h"

namespace quorate::tree {

// How many nodes there are so far, and how many there will be.
using LoadProgress = std::function<void(uint64_t nodes, uint64_t nodes_total)>;

// The tree of all records of `view`, from its beginning, with the zxid and the digest of its
// metadata. The calling thread reads the records; if they are many, another one, which is gone on
// return, builds the tree at the same time. `progress`, which may be null, is called now and then,
// on the calling thread. DataLoss if the records are not what TreeLoader wants; errors of reading.
absl::StatusOr<std::unique_ptr<Tree>> LoadTree(RecordStore::View* view,
                                               const LoadProgress& progress);

}  // namespace quorate::tree
