// What the log finds on the disk at start, and how it is made whole.
//
// Thread-safety: a function; it must be alone on the directory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "consensus/core/raft.h"
#include "consensus/core/types.h"
#include "consensus/log/env.h"
#include "consensus/log/segment.h"

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
};

// Reads all segments in `path`, cuts a torn tail and removes what is replaced or unfinished.
// Everything in the result is durable. Errors: as SegmentLog::Open.
absl::StatusOr<RecoveredLog> RecoverLog(Env* env, const std::string& path, Index durable_index);

}  // namespace quorate::consensus
