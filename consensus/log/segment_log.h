// SPDX-License-Identifier: Apache-2.0

// The log on disk: a sequence of preallocated segment files, each record framed by its length and a
// CRC-32C over header and payload.
//
// Writing and syncing are separate calls, so that one fdatasync covers all waiting writes (group
// commit). Any write or sync error is final: the object refuses everything afterwards, because what
// the disk then holds is unknown; the process is expected to end.
//
// A full disk is not such an error if it is detected when space for the next segment is reserved,
// because no entry in that segment was acknowledged yet. Append, TruncateAfter and Reset then
// return ResourceExhausted, and can be called again when there is free space. After such an Append,
// all entries up to last_index() are durable.
//
// For entries that must be written even then, the space of one more segment may be kept in a
// ballast file (ballast_file.h) beside the segments. It becomes the next segment when the disk has
// no free space for one, if AllowBallast permits it. This is the last segment that the log gets on
// a full disk, and is meant for entries that free space, such as deletions: a caller that permits
// it must stop adding data. A reset uses the ballast file in any case, because the removal of the
// old log frees more space.
//
// Recovery: records after the durable mark may be torn by a crash; the log is cut there, and
// cut_at_open() says so. The durable mark (kept in the hard state file and in the segments' own
// structure) distinguishes a torn tail from damage: a bad record at or below the mark means that
// acknowledged data is lost. A bad record above the mark that was once written completely
// (WasRecord in record.h) may mean the same. In both cases Open fails with DataLoss, naming file,
// offset and index, and how to rejoin the member.
//
// Compaction and reset: the log may begin after any entry, its base, whose index and term it keeps.
// Before any file is removed, the segment that becomes the first one durably gets a name that says
// that the entries before it were dropped on purpose. A segment that is missing for another reason,
// also the first one, is DataLoss.
//
// Thread-safety: except where a comment says otherwise, one thread at a time makes all calls
// that write, and calls control_entries. Read and the other queries may run in any thread at the
// same time. Read may be called only for entries that are durable. If entries are truncated or
// dropped meanwhile, Read may return some of them, or OutOfRange.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/core/initial_state.h"
#include "consensus/core/types.h"
#include "consensus/log/ballast_file.h"
#include "consensus/log/env.h"

namespace quorate::consensus {

// Observes the progress of Open, which reads all segments.
class ScanObserver {
 public:
  virtual ~ScanObserver() = default;
  // Called after each segment: `segments` of `segments_total` have been read.
  virtual void OnScanned(size_t segments, size_t segments_total) = 0;
};

struct SegmentLogOptions {
  uint64_t segment_bytes = 64u << 20;  // a new segment starts when the current one has this many
  // The number of segment files that are kept open, besides the one that is written and those in
  // which reads are running.
  size_t open_files_max = 8;
  ScanObserver* scan_observer = nullptr;  // must outlive Open; may be null
};

class SegmentLog {
 public:
  // Opens the log in directory `path` (created if missing) and recovers it. The entries up to
  // `durable_index` are known to have been durable (0 if unknown): damage to them is DataLoss.
  static absl::StatusOr<std::unique_ptr<SegmentLog>> Open(Env* env, std::string path,
                                                          SegmentLogOptions options,
                                                          Index durable_index);
  ~SegmentLog();

  // Index and term of the entry before first_index(); 0 and 0 unless the log was compacted or
  // reset.
  Index base_index() const;
  Term base_term() const;
  Index first_index() const;  // base_index() + 1
  Index last_index() const;   // base_index() if empty
  // Returns the term of the entry at `index`, or of the base if `index` is base_index(); nullopt if
  // `index` is neither.
  std::optional<Term> TermAt(Index index) const;
  // Returns the runs of terms of all entries, for InitialState.
  std::vector<TermRun> term_runs() const;
  // Returns the last index of each segment, and the bytes of its records.
  std::vector<SizeRun> size_runs() const;
  // Returns the entries with IsControl(kind) that Open found, ascending, without those that were
  // truncated or dropped since.
  const std::vector<Entry>& control_entries() const;

  // The torn bytes that Open has cut after a crash.
  struct Cut {
    std::string path;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    Index index;  // of the entry that was torn
  };
  const std::optional<Cut>& cut_at_open() const;

  // Writes entries; not durable before Sync. ResourceExhausted if the disk is full: then the
  // entries up to last_index() were written, and the rest may be appended later. REQUIRES:
  // contiguous, the first at last_index() + 1.
  absl::Status Append(std::span<const Entry> entries);
  // Drops every entry above `index`; the next entry appended is the one after `index`. After a
  // crash before the next Sync, the log is either the old or the truncated one, and never a
  // mixture. REQUIRES: index >= first_index() - 1.
  absl::Status TruncateAfter(Index index);
  // Makes all changes so far durable: data, and the directory if segments were made or removed.
  absl::Status Sync();
  // Drops the entries up to `index`, or up to one before it, because only whole segments are
  // removed. No file is touched before DoChores: a crash leaves the log with or without the
  // entries. REQUIRES: index <= last_index().
  absl::Status CompactTo(Index index);
  // Makes compactions durable, and removes the files of the dropped segments. This is separate from
  // CompactTo because it takes long enough to delay a Sync. May be called from any thread, also
  // during other calls. Returns ResourceExhausted if the disk is full; then nothing was done, and
  // the log stays usable.
  absl::Status DoChores();
  // Returns whether DoChores has something to do. May be called from any thread.
  bool HasChores() const;
  // Drops every entry: the log continues after `index`, whose term is `term`. After a crash before
  // the next Sync, Open finds either the old log or the new empty one. The durable mark that the
  // caller keeps must not be above `index`, or the next Open reports the entries up to the mark as
  // missing.
  absl::Status Reset(Index index, Term term);

  // --- The ballast file; all from any thread ---
  // Creates the file durably, if it does not exist. Returns ResourceExhausted if there is no free
  // space for it; the log stays usable.
  absl::Status MakeBallast();
  // Sets whether the log may use the file for entries; initially it may not. While it may, and
  // `first` is not null, the log takes other free space only if the ballast file `first` exists,
  // because free space is needed for that file first. `first` must outlive the log.
  void AllowBallast(bool allowed, const BallastFile* first);
  bool has_ballast() const;
  // Returns whether the log has used the file since Open, and has not made it again.
  bool ballast_used() const;
  const BallastFile& ballast() const;

  // Returns the entries from `first` to at most `last`. Stops after about `bytes_max` bytes, but
  // returns at least one entry. Payloads share one buffer. Errors: OutOfRange if `first` is not in
  // the log, DataLoss if a record is damaged.
  absl::StatusOr<std::vector<Entry>> Read(Index first, Index last, size_t bytes_max) const;

 private:
  class Impl;
  explicit SegmentLog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quorate::consensus
