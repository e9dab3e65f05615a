// SPDX-License-Identifier: Apache-2.0

// Helpers of the tests of SegmentLog.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "consensus/log/segment.h"
#include "consensus/log/segment_log.h"
#include "consensus/log/testing/fault_env.h"

namespace quorate::consensus {

// The directory of the log.
inline const std::string kPath = "/d/log";
// Space for a header and some ten small records.
inline constexpr SegmentLogOptions kSmall{kSegmentHeaderBytes + 1500};
inline constexpr Index kUnknown{0};

// Opens the log. Checks that ExamineLog finds the same state as Open, and changes nothing.
absl::StatusOr<std::unique_ptr<SegmentLog>> OpenLog(FaultEnv* env, Index durable,
                                                    SegmentLogOptions options);
// As OpenLog, but fails the test case if the log cannot be opened.
std::unique_ptr<SegmentLog> Open(FaultEnv* env, Index durable = kUnknown,
                                 SegmentLogOptions options = kSmall);
std::unique_ptr<SegmentLog> Open(Env* env, Index durable = kUnknown,
                                 SegmentLogOptions options = kSmall);
absl::Status OpenError(FaultEnv* env, Index durable = kUnknown);

void AppendSynced(SegmentLog* log, const std::vector<Entry>& entries);
// Opens a log of 40 entries in segments that begin with entries 1, 12, 23 and 34. Entries 1 to 20
// have term 1, and the others term 2.
std::unique_ptr<SegmentLog> OpenFilled(Env* env);

// Returns the offsets of the records of a segment file; the last element is the end of the last
// record.
std::vector<uint64_t> RecordOffsets(Env* env, const std::string& path);

}  // namespace quorate::consensus
