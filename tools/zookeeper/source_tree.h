// The whole tree of a stopped member, or of a backup.
//
// Thread-safety: a function of its arguments.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/offline/progress.h"
#include "tree/tree.h"

namespace quorate::tools::zookeeper {

// `path` is a member's dataDir, with its log in `log_dir` if that is not empty, or a backup file.
// Of a member it is the tree after the last entry of its log, as it would be if the member became
// leader now. Nothing is changed. FailedPrecondition if a server runs on the directory, DataLoss if
// something in it is damaged; both say what to do.
absl::StatusOr<std::unique_ptr<tree::Tree>> LoadSourceTree(const std::string& path,
                                                           const std::string& log_dir,
                                                           Progress* progress);

}  // namespace quorate::tools::zookeeper
