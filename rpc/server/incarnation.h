// The number that each start of a server has, greater than at all its starts before: it tells the
// writes of this process from those of an earlier one. The file `incarnation` in the data directory
// keeps the last one.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/log/env.h"

namespace quorate::rpc {

// The name of the file, and of what it is made from.
inline constexpr char kIncarnationName[] = "incarnation";
inline constexpr char kIncarnationTemporaryName[] = "incarnation.new";

// A number that is greater at each start, also when the clock went back (the file) and when the
// disk was lost (the clock); durable when it returns. `wall_ms` is the time since the epoch.
// On a full disk the number before it is written over. Errors: those of the disk, ResourceExhausted
// only if there is no such number; DataLoss if the file holds no number.
absl::StatusOr<uint64_t> NextIncarnation(consensus::Env* env, const std::string& dir,
                                         int64_t wall_ms);

// Durably keeps `incarnation` as the last one used; on a full disk as above.
absl::Status SaveIncarnation(consensus::Env* env, const std::string& dir, uint64_t incarnation);

}  // namespace quorate::rpc
