// SPDX-License-Identifier: Apache-2.0

// quorate snapshot diff: reports the differences of two trees.
//
// Thread-safety: a function of its arguments.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quorate::tools {

// Writes each difference of the trees in `a` and `b` to `out`, and returns the number of
// differences. Compares zxid and digest, the members' entries in the dedup table, sessions and
// znodes. `a` and `b` are paths as for TreeRecords::Open. Both are read once, side by side: memory
// does not grow with the trees. Errors are those of TreeRecords::Open.
absl::StatusOr<uint64_t> DiffSnapshots(const std::string& a, const std::string& b, bool json,
                                       std::ostream& out);

}  // namespace quorate::tools
