// The whole tree of a stopped member, or of a backup.
//
// Of a member it is the tree after the last entry of its log, as it would be if the member became
// leader now. The entries behind the last one that it knows to be committed (CommitFacts in
// tools/offline/member_examination.h) count too: nearly all of them were acknowledged to clients,
// for what a member knows of it is written down only now and then, and to stop there would lose
// them. What comes into the tree with them, and what is missing in it, can be wrong in two ways,
// which only the other members show: the last entries may never have been committed, if this one
// led and was cut off; and it may be behind the others. Both are excluded for the member whose last
// entry has the greatest term, and among those the greatest index, of all voters or of all but a
// minority: it has everything that was acknowledged, and any of them might be led by it. A backup
// has what a majority has confirmed, and nothing else.
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
  uint64_t term = 0;  // of the last entry in it
  CommitFacts commit;
  // What the user has to make sure of, in words.
  std::vector<std::string> warnings;
};

// `path` is a member's dataDir, with its log in `log_dir` if that is not empty, or a backup file.
// Nothing is changed. FailedPrecondition if a server runs on the directory, DataLoss if something
// in it is damaged; both say what to do.
absl::StatusOr<SourceTree> LoadSourceTree(const std::string& path, const std::string& log_dir,
                                          Progress* progress);

}  // namespace quorate::tools::zookeeper
