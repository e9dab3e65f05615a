// SPDX-License-Identifier: Apache-2.0

// The state that a member finds on its disk at its start and passes to its Raft object.
//
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "consensus/core/types.h"

namespace quorate::consensus {

// A run of entries of one term: those from `first` up to the next run, or to the end of the log.
struct TermRun {
  Index first;
  Term term;
};

// A run of entries: those after the previous run up to `last`, and their size in bytes
// (Entry::ByteSize).
struct SizeRun {
  Index last;
  uint64_t bytes = 0;
};

// The state that a member finds on its disk at start. All of it is durable. If the log does not
// contain the entry of the checkpoint, the driver first resets the log to begin after that entry.
struct InitialState {
  HardState hard_state;
  Index base_index;  // the log begins with the entry after this index
  Term base_term;
  Index last_index;                    // base_index if the log is empty
  std::vector<TermRun> term_runs;      // ascending; empty if and only if the log is
  std::vector<SizeRun> size_runs;      // ascending; sizes may be approximate
  std::vector<Entry> control_entries;  // the entries of the log with IsControl(kind), ascending
  // The newest durable checkpoint: base_index <= checkpoint->index <= last_index. If there is none,
  // base_index is 0.
  std::optional<SnapshotMeta> checkpoint;
  Index applied;  // the last index that the state machine has applied: at least base_index
};

}  // namespace quorate::consensus
