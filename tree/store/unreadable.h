// SPDX-License-Identifier: Apache-2.0

// Finds out why files cannot be read. RocksDB's errors are sometimes wrong: it reports that a
// directory without read permission is missing, and that a file without read permission is damaged.
//
// Thread-safety: functions without state.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace quorate::tree {

// Returns `error`, which opening the store in the directory `path` returned, or a better error: if
// a file or directory in it, or in one of its directories, cannot be read now for another reason
// than that it is missing, returns the path, the failed operation and the reason. REQUIRES:
// !error.ok().
absl::Status WithUnreadableFile(const std::string& path, absl::Status error);

}  // namespace quorate::tree
