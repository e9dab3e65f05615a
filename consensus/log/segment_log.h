// The log on disk: a sequence of preallocated segment files, each record framed by its length and a
// CRC-32C over header and payload.
//
// Writing and syncing are separate calls, so that one fdatasync covers all waiting writes (group
// commit). Any write or sync error is final: the object refuses everything afterwards, because what
// the disk then holds is unknown; the process is expected to end.
//
// A full disk is not such an error if it shows when space for the next segment is reserved, because
// no entry in that segment was promised yet. Append, TruncateAfter and Reset return
// ResourceExhausted then, with all before them durable, and can be called again when there is free
// space.
//
// For entries that must be written even then, the space of one more segment may be kept in a
// ballast file (ballast_file.h) beside the segments. It becomes the next segment when the disk has
// no free space for one, if that is allowed. It is the last segment that the log gets on a full
// disk, and is for entries that free space, such as deletions: a caller that allows it must not add
// data any more. A reset uses it in any case, because the log that it replaces frees more space.
//
// Recovery: records after the durable mark may be torn by a crash; the log is cut there, and
// cut_at_open() says so. The durable mark (kept in the hard state file and in the segments' own
// structure) tells a torn tail from damage: a bad record at or below it means that acknowledged
// data is gone. So may a bad record above it that was once written completely (WasRecord in
// record.h). In both cases Open fails with DataLoss, naming file, offset and index, and how to
// rejoin the member.
//
// Compaction and reset: a log may begin after any entry, its base, whose index and term it
// remembers. Before any file is removed, the segment that then comes first durably gets a name that
// says that the entries before it were dropped on purpose. A segment that is missing for another
// reason, also the first, is DataLoss.
//
// Thread-safety: all calls that write, and control_entries, from one thread (the log thread). Read
// and the other queries may run in any thread at the same time; Read only for entries that were
// durable when it was called. If entries are truncated or dropped meanwhile, Read may return some
// of them, or OutOfRange.
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
  // Called after each segment.
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
  // The runs of terms of all entries, for InitialState.
  std::vector<TermRun> term_runs() const;
  // The last index of each segment, and the bytes of its records.
  std::vector<SizeRun> size_runs() const;
  // The entries with IsControl(kind) that Open found, ascending, without those that were truncated
  // or dropped since.
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
  // Drops every entry above `index`; later appends go on from there. A crash before the next Sync
  // may or may not undo it, but never leaves a mixture. REQUIRES: index >= first_index() - 1.
  absl::Status TruncateAfter(Index index);
  // Makes everything so far durable: data, and the directory if segments were made or removed.
  absl::Status Sync();
  // Drops the entries up to `index`, or up to one before it, because only whole segments are
  // removed. No file is touched before DoChores: a crash leaves the log with or without the
  // entries. REQUIRES: index <= last_index().
  absl::Status CompactTo(Index index);
  // Makes a compaction durable and removes its files. That is separate from CompactTo because it
  // takes long enough to delay a Sync. From any thread, also during other calls. ResourceExhausted
  // if the disk is full: then nothing was done, and the log stays usable.
  absl::Status DoChores();
  // Whether DoChores would do anything. From any thread.
  bool HasChores() const;
  // Forgets every entry: the log goes on after `index`, whose term is `term`. After a crash before
  // the next Sync either the old log or the new empty one is there. The durable mark that the
  // caller keeps must not be above `index`, or the next Open finds the entries up to it missing.
  absl::Status Reset(Index index, Term term);

  // --- The ballast file; all from any thread ---
  // Makes the file, durably, if it does not exist. ResourceExhausted if there is no free space for
  // it; the log stays usable.
  absl::Status MakeBallast();
  // Sets whether the file may be used for entries; at first it may not. While it may, and unless
  // `first` is null, the log takes other free space only if the ballast file `first` exists: making
  // that one comes before the log. `first` must outlive the log.
  void AllowBallast(bool allowed, const BallastFile* first);
  bool has_ballast() const;
  // Whether the file was used since Open, and was not made again since.
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
