// SPDX-License-Identifier: Apache-2.0

// The incarnation: a number of each start of a server, greater than at all earlier starts. It
// distinguishes the writes of this process from those of an earlier one. The file `incarnation` in
// the data directory holds the incarnation of the last start.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/log/env.h"

namespace quorate::rpc {

// The names of the file, and of the temporary file that is renamed to it.
inline constexpr char kIncarnationName[] = "incarnation";
inline constexpr char kIncarnationTemporaryName[] = "incarnation.new";

// Returns the incarnation of this start, and makes it durable. It is the greater of the last
// incarnation + 1 and `wall_ms`, milliseconds since the epoch. So it grows even if the clock went
// back (because of the file), and even if the disk was lost (because of the clock). On a full disk
// the file is overwritten in place. Errors: those of the disk, but ResourceExhausted only if there
// is no file yet; DataLoss if the file holds no number.
absl::StatusOr<uint64_t> NextIncarnation(consensus::Env* env, const std::string& dir,
                                         int64_t wall_ms);

// Makes `incarnation` durable as the last one used. On a full disk it does as NextIncarnation.
absl::Status SaveIncarnation(consensus::Env* env, const std::string& dir, uint64_t incarnation);

}  // namespace quorate::rpc
