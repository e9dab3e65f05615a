// SPDX-License-Identifier: Apache-2.0

// Loads the whole tree of a stopped member, or of a backup.
//
// The tree of a member is the one after the last entry of its log, as if the member became leader
// now. It includes the entries after the last one that the member knows to be committed
// (CommitFacts in tools/offline/member_examination.h): nearly all of them were acknowledged to
// clients, because a member saves its commit index only from time to time, and leaving them out
// would lose them. This tree can differ from the committed one in two ways, which only the data of
// other members shows: the last entries may never have been committed, if this member led and was
// cut off; and the member may be behind the others. Neither is the case for the member whose last
// entry has the greatest term, and among those the greatest index, of all voters or of all but a
// minority: it has every acknowledged write, and could be elected by any of them. A backup contains
// only writes that a majority has confirmed, and all of them.
//
// Thread-safety: a function of its arguments.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/offline/member_examination.h"
#include "tools/offline/progress.h"
#include "tree/tree.h"

namespace quorate::tools::zookeeper {

struct SourceTree {
  std::unique_ptr<tree::Tree> tree;
  uint64_t term = 0;  // of the last entry in the tree
  CommitFacts commit;
  // Texts about what the user has to make sure of.
  std::vector<std::string> warnings;
};

// Loads the tree. `path` is a member's dataDir, with its log in `log_dir` if that is not empty, or
// a backup file. Changes nothing. FailedPrecondition if a server runs on the directory, DataLoss if
// something in it is damaged; both say what to do.
absl::StatusOr<SourceTree> LoadSourceTree(const std::string& path, const std::string& log_dir,
                                          Progress* progress);

}  // namespace quorate::tools::zookeeper
