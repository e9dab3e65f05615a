// SPDX-License-Identifier: Apache-2.0

// Loads and verifies a backup file.
//
// Thread-safety: functions without state.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/cli/progress_bar.h"
#include "tree/store/backup_file.h"
#include "tree/tree.h"

namespace quorate::tools {

struct LoadedBackup {
  tree::BackupHeader header;
  tree::BackupTotals totals;
  std::unique_ptr<tree::Tree> tree;
};

// Checks everything that can be checked without the cluster: the file itself, each record, that the
// records form a complete tree, and that its digest, computed from scratch, equals the cluster's.
// Needs memory for the tree. Errors: those of tree::BackupFileReader; DataLoss if the records are
// wrong.
absl::StatusOr<LoadedBackup> LoadBackup(const std::string& path, ProgressBar* progress);

}  // namespace quorate::tools
