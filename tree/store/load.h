// SPDX-License-Identifier: Apache-2.0

// Loads a tree from the records of a store, at the start of a server.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "tree/store/record_store.h"
#include "tree/tree.h"

namespace quorate::tree {

// Receives the number of nodes loaded so far, and the number of all nodes.
using LoadProgress = std::function<void(uint64_t nodes, uint64_t nodes_total)>;

// Returns the tree of all records of `view`, with the zxid and the digest of the view's metadata.
// The calling thread reads the records. If there are many, a second thread builds the tree at the
// same time; it has ended when this returns. `progress` may be null; otherwise it is called now and
// then on the calling thread. Returns DataLoss if TreeLoader refuses the records, or the error of
// reading. REQUIRES: nothing was read from `view` yet.
absl::StatusOr<std::unique_ptr<Tree>> LoadTree(RecordStore::View* view,
                                               const LoadProgress& progress);

}  // namespace quorate::tree
