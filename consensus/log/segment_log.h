// The log on disk: a sequence of preallocated segment files, each record framed by its length and a
// CRC-32C over header and payload.
//
// Durability is asked for separately from writing, so that one fdatasync covers all that waits
// (group commit). Any write or sync error is final: the object refuses everything afterwards,
// because what the disk then holds is unknown; the process is expected to end.
//
// Recovery: records after the durable mark may be torn by a crash; the log is cut there. The
// durable mark (kept in the hard state file and in the segments' own structure) tells a torn tail
// from damage: a bad record at or below it means that acknowledged data is gone, and Open fails
// with DataLoss, naming file, offset and index, and how to rejoin the member. It is never cut
// silently.
//
// Thread-safety: Append, Sync, TruncateAfter from one thread (the log thread). Read may run in any
// thread at the same time, for entries that were durable when it was called and are not truncated.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/core/raft.h"
#include "consensus/core/types.h"
#include "consensus/log/env.h"

namespace quorate::consensus {

struct SegmentLogOptions {
  uint64_t segment_bytes = 64u << 20;  // a new segment starts when the current one has this many
};

class SegmentLog {
 public:
  // Opens the log in directory `path` (created if missing) and recovers it. Every entry up to
  // `durable_index` was durable before (0 if unknown): damage there is DataLoss.
  static absl::StatusOr<std::unique_ptr<SegmentLog>> Open(Env* env, std::string path,
                                                          SegmentLogOptions options,
                                                          Index durable_index);
  ~SegmentLog();

  Index first_index() const;  // 1 unless compacted; last_index() + 1 if empty
  Index last_index() const;   // 0 if empty and never written
  // The runs of terms of all entries, as Raft wants them at start.
  std::vector<TermRun> term_runs() const;

  // Writes entries; not durable before Sync. REQUIRES: contiguous, the first at last_index() + 1.
  absl::Status Append(std::span<const Entry> entries);
  // Drops every entry above `index`; later appends go on from there. A crash before the next Sync
  // may or may not undo it, but never leaves a mixture. REQUIRES: index >= first_index() - 1.
  absl::Status TruncateAfter(Index index);
  // Makes everything so far durable: data, and the directory if segments were made or removed.
  absl::Status Sync();

  // Entries from `first` to at most `last`, stopping after about `bytes_max` bytes but returning at
  // least one. Payloads share one buffer. Errors: OutOfRange if `first` is not in the log, DataLoss
  // if a record is damaged.
  absl::StatusOr<std::vector<Entry>> Read(Index first, Index last, size_t bytes_max) const;

 private:
  class Impl;
  explicit SegmentLog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quorate::consensus
