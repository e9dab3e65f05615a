// The log on disk: a sequence of preallocated segment files, each record framed by its length and a
// CRC-32C over header and payload.
//
// Durability is asked for separately from writing, so that one fdatasync covers all that waits
// (group commit). Any write or sync error is final: the object refuses everything afterwards,
// because what the disk then holds is unknown; the process is expected to end.
//
// A full disk is no such error if it shows where it should, when space for the next segment is
// reserved: nothing was promised of it. Append, TruncateAfter and Reset return ResourceExhausted
// then, with all before them durable, and can be called again when there is free space.
//
// For what must go on even then, the space of one more segment may be kept in a ballast file
// (ballast_file.h) beside the segments, which becomes the next segment when the disk has no free
// space for one, if that is allowed. It is the last that the log gets on a full disk, and is for
// entries that make space, as deletions do: whoever allows it must not add data any more. A reset
// takes it in any case, for the log that it replaces gives back more.
//
// Recovery: records after the durable mark may be torn by a crash; the log is cut there, and
// cut_at_open() says so. The durable mark (kept in the hard state file and in the segments' own
// structure) tells a torn tail from damage: a bad record at or below it means that acknowledged
// data is gone. So may one above it that was written whole (WasRecord in record.h). Open fails then
// with DataLoss, naming file, offset and index, and how to rejoin the member.
//
// Compaction and reset: a log may begin behind any entry, its base, whose index and term it
// remembers. Whether entries were dropped on purpose is in the name of the segment that now comes
// first, durably, before anything is removed: a segment that is missing for another reason is
// DataLoss, also the first.
//
// Thread-safety: all that writes, and control_entries, from one thread (the log thread). Read and
// the other queries may run in any thread at the same time; Read for entries that were durable when
// it was called. Of entries that are truncated or dropped meanwhile it may return some, or say that
// they are OutOfRange.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/core/raft.h"
#include "consensus/core/types.h"
#include "consensus/log/ballast_file.h"
#include "consensus/log/env.h"

namespace quorate::consensus {

// Hears how far Open is, which reads all segments.
class ScanObserver {
 public:
  virtual ~ScanObserver() = default;
  // After each of them.
  virtual void OnScanned(size_t segments, size_t segments_total) = 0;
};

struct SegmentLogOptions {
  uint64_t segment_bytes = 64u << 20;  // a new segment starts when the current one has this many
  // Files of segments that are kept open, besides the one that is written and those in which reads
  // are running.
  size_t open_files_max = 8;
  ScanObserver* scan_observer = nullptr;  // outlives Open; null: nobody hears of it
};

class SegmentLog {
 public:
  // Opens the log in directory `path` (created if missing) and recovers it. Every entry up to
  // `durable_index` was durable before (0 if unknown): damage there is DataLoss.
  static absl::StatusOr<std::unique_ptr<SegmentLog>> Open(Env* env, std::string path,
                                                          SegmentLogOptions options,
                                                          Index durable_index);
  ~SegmentLog();

  // The entry before first_index(): 0 and 0 unless the log was compacted or reset.
  Index base_index() const;
  Term base_term() const;
  Index first_index() const;  // base_index() + 1
  Index last_index() const;   // base_index() if empty
  // The term of the entry at `index`, which may also be the base; nothing if it is neither.
  std::optional<Term> TermAt(Index index) const;
  // The runs of terms of all entries, as Raft wants them at start.
  std::vector<TermRun> term_runs() const;
  // Where each segment ends, and how much it takes on the disk.
  std::vector<SizeRun> size_runs() const;
  // The entries with IsControl(kind) that Open found, ascending, without those that were truncated
  // or dropped since.
  const std::vector<Entry>& control_entries() const;

  // Where and how much Open has cut of what a crash had torn.
  struct Cut {
    std::string path;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    Index index;  // of the entry that stood there
  };
  const std::optional<Cut>& cut_at_open() const;

  // Writes entries; not durable before Sync. ResourceExhausted if the disk is full: those up to
  // last_index() were written, and the rest may be appended later. REQUIRES: contiguous, the first
  // at last_index() + 1.
  absl::Status Append(std::span<const Entry> entries);
  // Drops every entry above `index`; later appends go on from there. A crash before the next Sync
  // may or may not undo it, but never leaves a mixture. REQUIRES: index >= first_index() - 1.
  absl::Status TruncateAfter(Index index);
  // Makes everything so far durable: data, and the directory if segments were made or removed.
  absl::Status Sync();
  // Drops entries up to `index` or, as whole segments only are removed, up to one before it. No
  // file is touched before DoChores: a crash leaves the log with or without them. REQUIRES:
  // index <= last_index().
  absl::Status CompactTo(Index index);
  // Makes a compaction durable and removes its files, which takes the system long enough to be
  // noticed by whoever waits for a Sync. From any thread, while the others go on.
  // ResourceExhausted if the disk is full: nothing is done, and all may go on.
  absl::Status DoChores();
  // Whether it would do anything. From any thread.
  bool HasChores() const;
  // Forgets every entry: the log goes on behind `index`, whose term is `term`. After a crash before
  // the next Sync either the old log or the new empty one is there. The durable mark of the caller
  // must not be above `index`, or else the entries up to it will be missed at the next Open.
  absl::Status Reset(Index index, Term term);

  // --- The ballast file; all from any thread ---
  // Makes it, durably, if it is not there. ResourceExhausted if there is no free space for it, and
  // that is all.
  absl::Status MakeBallast();
  // Whether it may be taken for entries; at first it may not. As long as it may, the log takes what
  // else is free only if `first`, unless that is null, is there: it comes before the log. `first`
  // outlives the log.
  void AllowBallast(bool allowed, const BallastFile* first);
  bool has_ballast() const;
  // Whether it was taken since Open, and no other one was made since.
  bool ballast_used() const;
  const BallastFile& ballast() const;

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
