// SPDX-License-Identifier: Apache-2.0

// quorate log dump: shows the entries of a stopped member's log.
//
// Thread-safety: a function of its arguments.
#pragma once

#include <cstdint>
#include <limits>
#include <ostream>

#include "absl/status/status.h"
#include "tools/offline/member_examination.h"

namespace quorate::tools {

struct LogDumpOptions {
  uint64_t from = 0;  // indexes
  uint64_t to = std::numeric_limits<uint64_t>::max();
  bool data = false;  // shows the data that is written to znodes, not only its size
  bool json = false;  // one document
};

// Writes a line per entry to `out`. Reports damage where it is found, and continues after it as far
// as the log can be read. Passwords of sessions and identities of clients are not shown. DataLoss
// if something is damaged; FailedPrecondition if a server runs there; NotFound if there is no log.
absl::Status DumpLog(const MemberPaths& paths, const LogDumpOptions& options, std::ostream& out);

}  // namespace quorate::tools
