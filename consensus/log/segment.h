// SPDX-License-Identifier: Apache-2.0

// One segment file of the log: its name, its header and the scan of its records.
//
// A segment is named <first index>.<generation>.log. Generations grow by one with each segment that
// is ever made in a directory, whatever its first index: a segment replaces everything that older
// generations hold from its first index on. One that is named <first index>.<generation>.first.log
// begins the log: it replaces everything that older generations hold, also before its first index.
// The header takes a page of its own, so that no later write touches it.
//
// Thread-safety: functions without state; see Segment for its own rules.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/core/initial_state.h"
#include "consensus/core/types.h"
#include "consensus/log/env.h"
#include "consensus/log/record.h"

namespace quorate::consensus {

inline constexpr uint32_t kSegmentFormatVersion = 2;
inline constexpr size_t kSegmentHeaderBytes = 4096;
// A segment remembers the offset of one record in about this many bytes.
inline constexpr uint64_t kCheckpointBytes = 4096;
// Advice to the operator when acknowledged data is damaged: the end of error messages.
inline constexpr std::string_view kRejoinAdvice =
    "; the data of this member can no longer be trusted. Stop it; `quorate verify` with its data "
    "directory shows all that is wrong, and `quorate rebuild` puts its data aside, so that it is "
    "filled again by the other members when it starts";

struct SegmentName {
  Index first;
  uint64_t generation = 0;
  bool begins_log = false;  // not in the header, because a rename can set it
  friend bool operator==(const SegmentName&, const SegmentName&) = default;
};

std::string ToFileName(SegmentName name);
// Returns nullopt if `file_name` is not the name of a segment.
std::optional<SegmentName> ParseSegmentFileName(std::string_view file_name);

// Returns the first kSegmentHeaderBytes of a segment. `previous_term` is the term of the entry
// before name.first, 0 if there is none.
std::string EncodeSegmentHeader(SegmentName name, Term previous_term);

struct SegmentHeader {
  Index first;
  uint64_t generation = 0;
  Term previous_term;
};
// Returns nullopt if the bytes are not a whole header (torn, damaged or never written). Returns
// FailedPrecondition, naming `path`, if a program with another format version wrote it.
absl::StatusOr<std::optional<SegmentHeader>> ParseSegmentHeader(const std::string& path,
                                                                std::string_view bytes);

// The remembered offset of one record, from which a search for a later record starts.
struct Checkpoint {
  Index index;
  uint64_t offset = 0;
};

// A segment in memory. Thread-safety: written by the log's thread under the log's lock; other
// threads read under that lock. `path`, `file`, `removed` and name.begins_log are guarded by the
// lock of SegmentFiles.
struct Segment {
  SegmentName name;
  std::string path;
  std::shared_ptr<File> file;             // null while it is closed
  bool removed = false;                   // the file was removed, or is about to be
  uint64_t capacity = 0;                  // bytes that are allocated
  uint64_t end = kSegmentHeaderBytes;     // where the next record goes
  Index next;                             // the index of that record
  std::vector<Checkpoint> checkpoints{};  // ascending; the first record has one

  bool empty() const { return next == name.first; }
  // Records that the record of `index` begins at `offset`. Remembers about one in kCheckpointBytes.
  void NoteRecord(Index index, uint64_t offset);
  // Returns the last checkpoint at or before `index`. REQUIRES: `index` is in the segment.
  const Checkpoint& CheckpointBefore(Index index) const;
  // Returns the offset of the first checkpoint above `index`; `end` if there is none.
  uint64_t OffsetAfter(Index index) const;
};

// What a scan of the records found, besides what it put into the Segment.
struct SegmentScan {
  std::vector<TermRun> term_runs;      // of the segment's own records only
  std::vector<Entry> control_entries;  // those with IsControl(kind)
  Term last_term;                      // of the last record, or of the entry before the segment
  Index marked_durable;                // the highest durable mark of any valid record
  // Set only if the scan reached the end of the file: the end of the last nonzero byte after the
  // last good record (segment.end if there is none), and whether there is a valid record among the
  // bytes up to there.
  uint64_t garbage_end = 0;
  bool record_after_garbage = false;
  // Whether the bytes after the last good record were a complete record that is damaged now
  // (WasRecord), rather than torn by a crash or never written.
  bool damaged = false;
};

// Reads the records of `segment` from its beginning, and fills in end, next and checkpoints. Stops
// before the first record that is not valid or not in sequence, and before the record of index
// `stop`. If the scan did not reach `stop`, searches the rest of the file for valid records.
// Errors: of reading; FailedPrecondition for an entry of a kind that this version does not know.
absl::StatusOr<SegmentScan> ScanSegment(Segment* segment, Term previous_term, Index stop);

// Calls `record` for each record that a scan of the segment found, with its offset; views are valid
// during the call. An error of `record` ends it and is returned. REQUIRES: segment.file is set.
absl::Status ForEachRecord(
    const Segment& segment,
    const std::function<absl::Status(const RecordView& record, uint64_t offset)>& record);

}  // namespace quorate::consensus
