// SPDX-License-Identifier: Apache-2.0

// quorate snapshot dump: shows the tree in a stopped member's newest checkpoint.
//
// Thread-safety: a function of its arguments.
#pragma once

#include <ostream>
#include <string>

#include "absl/status/status.h"

namespace quorate::tools {

struct SnapshotDumpOptions {
  std::string path = "/";  // only this znode and the znodes below it
  bool json = false;       // one document
};

// Writes head, sessions and znodes to `out`, in the order of creation, so that memory does not grow
// with the tree. Passwords of sessions are not shown. `source` is a member's dataDir. Errors: those
// of TreeRecords::Open; NotFound if there is no znode options.path.
absl::Status DumpSnapshot(const std::string& source, const SnapshotDumpOptions& options,
                          std::ostream& out);

}  // namespace quorate::tools
