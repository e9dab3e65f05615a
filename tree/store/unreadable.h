// Why files cannot be looked at, which RocksDB does not always tell: it says of a directory that
// may not be read that it is missing, and of a file that may not be opened that it is damaged.
//
// Thread-safety: functions without state.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace quorate::tree {

// `error`, which opening the store in the directory `path` met. If a file or directory in it, or in
// one of its directories, cannot be looked at now for another reason than that it is missing,
// returns that instead: with the path, what was tried and the reason. REQUIRES: !error.ok().
absl::Status WithUnreadableFile(const std::string& path, absl::Status error);

}  // namespace quorate::tree
