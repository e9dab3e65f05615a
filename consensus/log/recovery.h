// SPDX-License-Identifier: Apache-2.0

// Reads the files of a log at start, and repairs what a crash left incomplete; or only examines
// them.
//
// Thread-safety: functions without state; nothing else may use the directory during a call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "consensus/core/initial_state.h"
#include "consensus/core/types.h"
#include "consensus/log/env.h"
#include "consensus/log/segment.h"
#include "consensus/log/segment_log.h"

namespace quorate::consensus {

struct RecoveredLog {
  // The segments, ascending and without gaps. Only the file of the last one is open.
  std::vector<std::shared_ptr<Segment>> segments;
  Index base_index;  // the entry before the first
  Term base_term;
  std::vector<TermRun> term_runs;
  std::vector<Entry> control_entries;
  Index last_index;
  Term last_term;
  uint64_t last_generation = 0;  // the highest of all segments that were found
  uint64_t torn_bytes = 0;       // after the last record; no record may follow them
};

// Reads all segments in `path`, and removes those that are replaced or incomplete. Everything in
// the result is durable. `observer`, which may be null, is called for each segment that was read.
// Errors: as SegmentLog::Open.
absl::StatusOr<RecoveredLog> RecoverLog(Env* env, const std::string& path, Index durable_index,
                                        ScanObserver* observer);

// Durably writes zeros over `torn_bytes` bytes after the last record. REQUIRES: segment.file is
// set.
absl::Status ZeroTornBytes(const Segment& segment, uint64_t torn_bytes);

struct LogExamination {
  absl::Status status;       // what RecoverLog would return, except errors of its repairs
  std::string damaged_path;  // if the status is DataLoss: the damaged path
  std::optional<uint64_t> damaged_offset;
  RecoveredLog log;     // the part before the damage
  Index durable_index;  // the highest index that is known to have been durable
  // All segments in the order of the log. The damaged one and those after it are scanned each by
  // itself; null if the file cannot be read.
  std::vector<std::shared_ptr<Segment>> segments;
  std::vector<std::string> replaced;  // files that RecoverLog removes
};

// Reads the log as RecoverLog does, but changes nothing.
LogExamination ExamineLog(Env* env, const std::string& path, Index durable_index);

}  // namespace quorate::consensus
