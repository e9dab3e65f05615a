// SPDX-License-Identifier: Apache-2.0

// A crash may leave the log in these states, which are repaired here:
//
//  - The newest segment has no header: its creation was interrupted. No record is written before
//    the header and the directory entry are durable, so nothing is lost with it.
//  - The last segment ends in records that are torn or missing in part. They are cut: the log goes
//    on in a new segment (SegmentLog), so that no stale record can ever follow a new one. If there
//    is no free space for a segment, zeros are written over all bytes after the last good record,
//    and made durable before anything is appended. This is only a fallback: if the disk fails
//    meanwhile, and the machine goes on, reads may return zeros that are not on the disk.
//  - Segments that a newer generation replaces are still there, because their removal was not
//    durable: a generation replaces everything from its first index on, or all of the log if its
//    name says that it begins the log.
//
// Everything else is damage. Every segment is made durable to its end before a newer one is begun.
// So a segment that is not the last one must hold all its records, and the last one must hold all
// records up to the durable mark. The first segment must begin with entry 1, or its name must say
// that it begins the log: only compaction and reset give that name, durably, before they remove
// anything. The durable mark is the highest of these indexes: the one that the caller knows; those
// in the valid records of the segment, also after the damaged place; and the one before the first
// index of a newer segment.
//
// No mark covers the records of the very last syncs, if neither a record nor a hard state was
// written afterwards. Whether such a record is damaged or torn is decided by its bytes (WasRecord
// in record.h): a torn write leaves at least one sector as it was before, which is zero. So a bad
// record without a zero sector was written completely and damaged later, whether or not it was ever
// acknowledged. A damaged record whose payload holds a whole sector of zeros cannot be recognised
// that way, and is cut.
//
// If the newest segment never got a record and its header is damaged, its creation counts as
// interrupted, because nothing is lost with it.
#include "consensus/log/recovery.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/strings.h"

namespace quorate::consensus {
namespace {

constexpr uint64_t kCopyBytes = 1u << 20;
constexpr Index kNever{std::numeric_limits<uint64_t>::max()};

class Recovery {
 public:
  Recovery(Env* env, const std::string& path, Index durable_index, ScanObserver* observer)
      : env_(*env), path_(path), observer_(observer), durable_index_(durable_index) {}

  absl::StatusOr<RecoveredLog> Run() {
    if (absl::Status s = Find(); !s.ok()) return s;
    if (absl::Status s = Repair(); !s.ok()) return s;
    ASSERT(log_.term_runs.empty() == (log_.last_index == log_.base_index));
    return std::move(log_);
  }

  LogExamination Examine() {
    LogExamination result;
    result.status = Find();
    result.damaged_path = std::move(damaged_path_);
    result.damaged_offset = damaged_offset_;
    for (const SegmentName& name : chain_) {
      const size_t i = result.segments.size();
      // The damaged segment and those after it are scanned each by itself, as far as they can be
      // read.
      result.segments.push_back(i < log_.segments.size() ? log_.segments[i] : ScanAlone(name));
    }
    for (const SegmentName& name : obsolete_) result.replaced.push_back(PathOf(name));
    result.durable_index = durable_index_;
    result.log = std::move(log_);
    return result;
  }

 private:
  std::string PathOf(SegmentName name) const { return absl::StrCat(path_, "/", ToFileName(name)); }

  // Records the damaged place, and returns DataLoss. `what` continues the message after the path.
  absl::Status Damaged(std::string path, std::optional<uint64_t> offset, std::string_view what) {
    damaged_path_ = std::move(path);
    damaged_offset_ = offset;
    return absl::DataLossError(absl::StrCat(damaged_path_, ToAbsl(what), ToAbsl(kRejoinAdvice)));
  }

  absl::Status Find() {
    if (absl::Status s = ListSegments(); !s.ok()) return s;
    if (absl::Status s = DiscardIncompleteSegment(); !s.ok()) return s;
    ChooseChain();
    for (size_t i = 0; i < chain_.size(); ++i) {
      if (absl::Status s = Load(i); !s.ok()) return s;
      if (observer_ != nullptr) observer_->OnScanned(i + 1, chain_.size());
    }
    return log_.last_index < durable_index_ ? EntriesMissing() : absl::OkStatus();
  }

  // Scans a segment without regard to those before it. Returns null if it cannot be read.
  std::shared_ptr<Segment> ScanAlone(SegmentName name) {
    std::optional<SegmentHeader> header;
    absl::StatusOr<std::shared_ptr<Segment>> segment = OpenSegment(name, &header);
    if (!segment.ok()) return nullptr;
    const Term previous_term = header.has_value() ? header->previous_term : Term{0};
    if (!ScanSegment(segment->get(), previous_term, kNever).ok()) return nullptr;
    (*segment)->file.reset();
    return *std::move(segment);
  }

  absl::Status ListSegments() {
    absl::StatusOr<std::vector<std::string>> files = env_.List(path_);
    if (!files.ok()) return files.status();
    for (const std::string& file : *files) {
      if (std::optional<SegmentName> name = ParseSegmentFileName(file)) names_.push_back(*name);
    }
    std::sort(names_.begin(), names_.end(), [](const SegmentName& a, const SegmentName& b) {
      return a.generation < b.generation;
    });
    auto same = std::adjacent_find(
        names_.begin(), names_.end(),
        [](const SegmentName& a, const SegmentName& b) { return a.generation == b.generation; });
    if (same != names_.end()) {
      damaged_path_ = PathOf(*same);
      return absl::DataLossError(absl::StrCat(damaged_path_, " and ", PathOf(*std::next(same)),
                                              ": two segments of one generation; one of them is "
                                              "a copy or renamed: move it away"));
    }
    if (!names_.empty()) log_.last_generation = names_.back().generation;
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<Segment>> OpenSegment(SegmentName name,
                                                       std::optional<SegmentHeader>* header) {
    auto segment = std::make_shared<Segment>();
    segment->name = name;
    segment->path = PathOf(name);
    segment->next = name.first;
    absl::StatusOr<std::unique_ptr<File>> file = env_.OpenFile(segment->path, /*create=*/false);
    if (!file.ok()) return file.status();
    segment->file = *std::move(file);
    absl::StatusOr<uint64_t> size = segment->file->Size();
    if (!size.ok()) return size.status();
    segment->capacity = *size;
    std::string bytes(kSegmentHeaderBytes, '\0');
    absl::StatusOr<size_t> got = segment->file->ReadAt(0, bytes.size(), bytes.data());
    if (!got.ok()) return got.status();
    bytes.resize(*got);
    absl::StatusOr<std::optional<SegmentHeader>> parsed = ParseSegmentHeader(segment->path, bytes);
    if (!parsed.ok()) return parsed.status();
    *header = *parsed;
    return segment;
  }

  // Moves the newest segment to obsolete_ if it has no header, because its creation was
  // interrupted.
  absl::Status DiscardIncompleteSegment() {
    if (names_.empty()) return absl::OkStatus();
    const SegmentName name = names_.back();
    std::optional<SegmentHeader> header;
    absl::StatusOr<std::shared_ptr<Segment>> segment = OpenSegment(name, &header);
    if (!segment.ok()) return segment.status();
    if (header.has_value()) return absl::OkStatus();
    absl::StatusOr<SegmentScan> scan = ScanSegment(segment->get(), Term{0}, kNever);
    if (!scan.ok()) return scan.status();
    // The files that a segment replaces are removed only when its header is durable. So a single
    // segment that begins the log has had a valid header.
    const bool alone = name.begins_log && names_.size() == 1;
    if (!(*segment)->empty() || scan->record_after_garbage || scan->damaged ||
        durable_index_ >= name.first || alone) {
      return Damaged((*segment)->path, 0,
                     absl::StrCat(": the header at offset 0 is damaged; the segment holds entries "
                                  "from ",
                                  name.first.value(), " on"));
    }
    obsolete_.push_back(name);
    names_.pop_back();
    // A segment is created only when everything before it is durable, unless it replaces the whole
    // log.
    if (!name.begins_log) durable_index_ = std::max(durable_index_, name.first - 1);
    return absl::OkStatus();
  }

  // Sets chain_ to the segments that remain when each one replaces older ones from its first index
  // on.
  void ChooseChain() {
    uint64_t begin = 0;  // the generation that begins the log
    for (const SegmentName& name : names_) {
      if (name.begins_log) begin = name.generation;
    }
    for (const SegmentName& name : names_) {
      if (name.generation < begin) {
        obsolete_.push_back(name);
        continue;
      }
      while (!chain_.empty() && chain_.back().first >= name.first) {
        obsolete_.push_back(chain_.back());
        chain_.pop_back();
      }
      chain_.push_back(name);
    }
  }

  absl::Status Load(size_t i) {
    const SegmentName name = chain_[i];
    const bool is_last = i + 1 == chain_.size();
    std::optional<SegmentHeader> header;
    absl::StatusOr<std::shared_ptr<Segment>> opened = OpenSegment(name, &header);
    if (!opened.ok()) return opened.status();
    Segment& segment = **opened;
    if (!header.has_value() || header->first != name.first ||
        header->generation != name.generation) {
      return Damaged(segment.path, 0,
                     absl::StrCat(": the header at offset 0 is damaged or of another segment; "
                                  "entries from ",
                                  name.first.value(), " on are lost with it"));
    }
    if (i == 0 && name.begins_log) {
      log_.base_index = log_.last_index = name.first - 1;
      log_.base_term = log_.last_term = header->previous_term;
    }
    if (name.first != log_.last_index + 1 || header->previous_term != log_.last_term) {
      return Damaged(
          segment.path, std::nullopt,
          absl::StrCat(": begins with entry ", name.first.value(), " after one of term ",
                       header->previous_term.value(), ", but the log before it ends with entry ",
                       log_.last_index.value(), " of term ", log_.last_term.value(),
                       ": a segment file is missing"));
    }
    const Index stop = is_last ? kNever : chain_[i + 1].first;
    absl::StatusOr<SegmentScan> scan = ScanSegment(&segment, log_.last_term, stop);
    if (!scan.ok()) return scan.status();
    durable_index_ = std::max({durable_index_, name.first - 1, scan->marked_durable});
    if (segment.next - 1 < (is_last ? durable_index_ : stop - 1)) {
      return Damaged(
          segment.path, segment.end,
          absl::StrCat(": the record of entry ", segment.next.value(), " at offset ", segment.end,
                       " is damaged or missing, though entries up to ",
                       (is_last ? durable_index_ : std::max(durable_index_, stop - 1)).value(),
                       " were durable"));
    }
    if (is_last && scan->damaged) {
      return Damaged(
          segment.path, segment.end,
          absl::StrCat(": the record of entry ", segment.next.value(), " at offset ", segment.end,
                       " was written whole and is damaged; its entry may have been "
                       "acknowledged"));
    }
    for (const TermRun& run : scan->term_runs) {
      if (log_.term_runs.empty() || log_.term_runs.back().term != run.term) {
        log_.term_runs.push_back(run);
      }
    }
    log_.control_entries.insert(log_.control_entries.end(), scan->control_entries.begin(),
                                scan->control_entries.end());
    log_.last_index = segment.next - 1;
    log_.last_term = scan->last_term;
    if (!log_.segments.empty()) log_.segments.back()->file.reset();  // one open file at a time
    log_.segments.push_back(*std::move(opened));
    log_.torn_bytes = scan->garbage_end - segment.end;
    return absl::OkStatus();
  }

  absl::Status EntriesMissing() {
    return Damaged(path_, std::nullopt,
                   absl::StrCat(": the log ends with entry ", log_.last_index.value(),
                                ", though entries up to ", durable_index_.value(),
                                " were durable: a segment file is missing"));
  }

  absl::Status Repair() {
    if (!log_.segments.empty()) {
      if (absl::Status s = RewriteTail(*log_.segments.back()); !s.ok()) return s;
      if (absl::Status s = log_.segments.back()->file->Sync(); !s.ok()) return s;
    }
    // The directory is synced in any case: an earlier process may have died before it synced the
    // entries that it made.
    if (absl::Status s = env_.SyncDirectory(path_); !s.ok()) return s;
    for (const SegmentName& name : obsolete_) {
      if (absl::Status s = env_.Remove(PathOf(name)); !s.ok()) return s;
    }
    return obsolete_.empty() ? absl::OkStatus() : env_.SyncDirectory(path_);
  }

  // Writes again the records that are not known to be durable. They may have been read from the
  // page cache only: after a failed fsync Linux keeps such pages in the cache and marks them as
  // clean, so that without new writes the next fsync would succeed and do nothing.
  absl::Status RewriteTail(const Segment& segment) {
    uint64_t offset = 0;  // the header too, if the segment may be new
    if (durable_index_ >= segment.name.first) {
      if (durable_index_ + 1 >= segment.next) return absl::OkStatus();
      offset = segment.CheckpointBefore(durable_index_ + 1).offset;
    }
    std::string bytes;
    while (offset < segment.end) {
      // Pieces end at sector boundaries, so that no crash leaves half a sector.
      bytes.resize(std::min(kCopyBytes - offset % kSectorBytes, segment.end - offset));
      absl::StatusOr<size_t> got = segment.file->ReadAt(offset, bytes.size(), bytes.data());
      if (!got.ok()) return got.status();
      ASSERT(*got == bytes.size(), "the scan has read as far");
      const std::string_view piece = bytes;
      if (absl::Status s = segment.file->WriteAt(offset, {&piece, 1}); !s.ok()) return s;
      offset += bytes.size();
    }
    return absl::OkStatus();
  }

  Env& env_;
  const std::string& path_;
  ScanObserver* const observer_;
  Index durable_index_;             // everything up to it was durable
  std::vector<SegmentName> names_;  // by generation
  std::vector<SegmentName> chain_;  // the log, ascending
  std::vector<SegmentName> obsolete_;
  std::string damaged_path_;
  std::optional<uint64_t> damaged_offset_;
  RecoveredLog log_;
};

}  // namespace

absl::StatusOr<RecoveredLog> RecoverLog(Env* env, const std::string& path, Index durable_index,
                                        ScanObserver* observer) {
  return Recovery(env, path, durable_index, observer).Run();
}

absl::Status ZeroTornBytes(const Segment& segment, uint64_t torn_bytes) {
  const uint64_t end = segment.end + torn_bytes;
  const std::string zeros(std::min(kCopyBytes, torn_bytes), '\0');
  for (uint64_t offset = segment.end; offset < end;) {
    const std::string_view piece(zeros.data(), std::min(zeros.size(), end - offset));
    if (absl::Status s = segment.file->WriteAt(offset, {&piece, 1}); !s.ok()) return s;
    offset += piece.size();
  }
  return segment.file->Sync();
}

LogExamination ExamineLog(Env* env, const std::string& path, Index durable_index) {
  return Recovery(env, path, durable_index, nullptr).Examine();
}

}  // namespace quorate::consensus
