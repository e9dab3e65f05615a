// What the log finds on the disk at start, and how it is made whole; or only what it would find.
//
// Thread-safety: functions; each must be alone on the directory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "consensus/core/raft.h"
#include "consensus/core/types.h"
#include "consensus/log/env.h"
#include "consensus/log/segment.h"
#include "consensus/log/segment_log.h"

namespace quorate::consensus {

struct RecoveredLog {
  // Ascending, without gaps; empty if there is none. The file of the last one is open.
  std::vector<std::shared_ptr<Segment>> segments;
  Index base_index;  // the entry before the first
  Term base_term;
  std::vector<TermRun> term_runs;
  std::vector<Entry> control_entries;
  Index last_index;
  Term last_term;
  uint64_t last_generation = 0;  // the highest that was ever seen
  uint64_t torn_bytes = 0;       // behind the last record: nothing is to be appended to them
};

// Reads all segments in `path`, and removes what is replaced or unfinished. Everything in the
// result is durable. `observer`, which may be null, hears of each segment that was read. Errors: as
// SegmentLog::Open.
absl::StatusOr<RecoveredLog> RecoverLog(Env* env, const std::string& path, Index durable_index,
                                        ScanObserver* observer);

// Durably writes zeros over so many bytes behind the last record. REQUIRES: segment.file is set.
absl::Status ZeroTornBytes(const Segment& segment, uint64_t torn_bytes);

struct LogExamination {
  absl::Status status;       // what RecoverLog would return, but for errors of its repairs
  std::string damaged_path;  // if the status is DataLoss: of what
  std::optional<uint64_t> damaged_offset;
  RecoveredLog log;     // as far as it is whole
  Index durable_index;  // the highest that anything says was durable
  // In the order of the log, also behind the damage; there without regard to what is before. Null:
  // not readable at all.
  std::vector<std::shared_ptr<Segment>> segments;
  std::vector<std::string> replaced;  // files that RecoverLog removes
};

// The same without changing anything.
LogExamination ExamineLog(Env* env, const std::string& path, Index durable_index);

}  // namespace quorate::consensus
