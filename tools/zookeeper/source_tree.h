// The whole tree of a stopped member, or of a backup.
//
// Of a member it is the tree after the last entry of its log, as if the member became leader now.
// The entries behind the last one that it knows to be committed (CommitFacts in
// tools/offline/member_examination.h) are included: nearly all of them were acknowledged to
// clients, because a member saves its commit index only from time to time, and leaving them out
// would lose them. This tree can differ from the committed one in two ways, which only the other
// members show: the last entries may never have been committed, if this member led and was cut off;
// and it may be behind the others. Both are excluded for the member whose last entry has the
// greatest term, and among those the greatest index, of all voters or of all but a minority: it has
// everything that was acknowledged, and could be elected by any of them. A backup contains what a
// majority has confirmed, and nothing else.
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
  // What the user has to make sure of; texts for the user.
  std::vector<std::string> warnings;
};

// Loads the tree. `path` is a member's dataDir, with its log in `log_dir` if that is not empty, or
// a backup file. Changes nothing. FailedPrecondition if a server runs on the directory, DataLoss if
// something in it is damaged; both say what to do.
absl::StatusOr<SourceTree> LoadSourceTree(const std::string& path, const std::string& log_dir,
                                          Progress* progress);

}  // namespace quorate::tools::zookeeper
