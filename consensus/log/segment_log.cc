// SPDX-License-Identifier: Apache-2.0

// How the log survives crashes:
//
//  - A new segment is made only when everything before it is durable, and takes records only when
//    its own header and directory entry are durable. So at any time only the end of the newest
//    segment may be torn, and recovery (recovery.cc) treats any other bad record as damage.
//  - A truncation makes such a new segment. Its first index is the one after the last entry that
//    stays, and its generation is the highest, so it replaces all entries that older segments hold
//    from there on. The log is the old one until the new header is valid on the disk, and the
//    truncated one from then on. No byte of a record is ever overwritten, so a concurrent reader
//    never sees half of a new one. This costs a file for each truncation, which Raft does only
//    after a leader failed with entries that it could not commit. The replaced segments are removed
//    afterwards; recovery removes them if a crash brings them back.
//  - CompactTo only forgets the dropped segments in memory. DoChores first durably gives the
//    segment that is the first one now a name that says that it begins the log. Then it removes the
//    older segments. So the removals leave no gap, in whatever order they reach the disk, and
//    recovery notices a segment that is missing for another reason.
//  - A reset makes a new segment that has such a name from the beginning. The log is the old one
//    until the new header is valid on the disk, and the new one from then on.
//  - The ballast file becomes a segment by a rename, after the segment's header was written to it.
//  - Records of different segments cannot be mixed up: the CRC of each covers the generation of its
//    segment and its offset.
//  - No record is appended to torn records. The log continues in a new segment or, if the disk has
//    no free space for one, in the same segment after the torn bytes were durably replaced by
//    zeros.
#include "consensus/log/segment_log.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/mutex.h"
#include "base/seeded_bug.h"
#include "base/strings.h"
#include "consensus/core/limits.h"
#include "consensus/log/out_of_descriptors.h"
#include "consensus/log/record.h"
#include "consensus/log/recovery.h"
#include "consensus/log/segment.h"
#include "consensus/log/segment_files.h"

namespace quorate::consensus {
namespace {

// Payloads up to this size are copied next to their headers; an iovec of their own costs more.
constexpr size_t kCopiedPayloadMax = 4096;
// The write buffer is freed if one batch made it larger than this.
constexpr size_t kKeptBufferBytes = 4u << 20;
// The number of zeros that are written ahead of small writes (AddZeros), in pieces of a given size.
constexpr size_t kZerosBytes = 256u << 10;
constexpr size_t kZerosPieceBytes = 64u << 10;

uint64_t SegmentBytes(const SegmentLogOptions& options) {
  return std::max<uint64_t>(options.segment_bytes, kSegmentHeaderBytes);
}

}  // namespace

class SegmentLog::Impl {
 public:
  Impl(Env* env, std::string path, SegmentLogOptions options, RecoveredLog recovered)
      : env_(*env),
        path_(std::move(path)),
        options_(options),
        files_(env, path_, options.open_files_max),
        ballast_(env, path_, SegmentBytes(options)),
        durable_(recovered.last_index),
        last_term_(recovered.last_term),
        last_generation_(recovered.last_generation),
        control_entries_(std::move(recovered.control_entries)),
        segments_(std::move(recovered.segments)),
        base_index_(recovered.base_index),
        base_term_(recovered.base_term),
        term_runs_(std::move(recovered.term_runs)),
        last_index_(recovered.last_index) {
    if (recovered.torn_bytes == 0) return;
    const Segment& last = *segments_.back();
    cut_at_open_ = Cut{last.path, last.end, recovered.torn_bytes, last.next};
  }

  // Makes the newest segment ready for records.
  absl::Status Start() {
    if (segments_.empty()) {
      ASSERT(last_index_ == Index{0});
      return FailUnlessFull(Extend());
    }
    Segment& segment = *segments_.back();
    newest_file_ = segment.file;
    files_.Adopt(segments_.back());
    if (cut_at_open_.has_value()) {
      absl::Status begun = StartSegmentAfter(last_index_);
      if (!absl::IsResourceExhausted(begun)) return begun;
      if (absl::Status s = Fail(ZeroTornBytes(segment, cut_at_open_->bytes)); !s.ok()) return s;
    }
    if (segment.capacity >= options_.segment_bytes) return absl::OkStatus();
    absl::Status allocated = newest_file_->Preallocate(options_.segment_bytes);
    // On a full disk the log can still be read; the next entries then need a new segment.
    if (absl::IsResourceExhausted(allocated)) return absl::OkStatus();
    if (allocated.ok()) segment.capacity = options_.segment_bytes;
    return Fail(allocated);
  }

  Index base_index() const {
    MutexLock lock(&mutex_);
    return base_index_;
  }
  Term base_term() const {
    MutexLock lock(&mutex_);
    return base_term_;
  }
  Index last_index() const {
    MutexLock lock(&mutex_);
    return last_index_;
  }
  std::vector<TermRun> term_runs() const {
    MutexLock lock(&mutex_);
    return term_runs_;
  }
  std::vector<SizeRun> size_runs() const {
    MutexLock lock(&mutex_);
    std::vector<SizeRun> runs;
    for (const auto& segment : segments_) {
      if (segment->empty()) continue;
      runs.push_back({segment->next - 1, segment->end - kSegmentHeaderBytes});
    }
    return runs;
  }
  const std::vector<Entry>& control_entries() const { return control_entries_; }
  const std::optional<Cut>& cut_at_open() const { return cut_at_open_; }

  std::optional<Term> TermAt(Index index) const {
    MutexLock lock(&mutex_);
    if (index < base_index_ || index > last_index_) return std::nullopt;
    auto above = std::upper_bound(term_runs_.begin(), term_runs_.end(), index,
                                  [](Index i, const TermRun& run) { return i < run.first; });
    return above == term_runs_.begin() ? base_term_ : std::prev(above)->term;
  }

  absl::Status Append(std::span<const Entry> entries) {
    if (absl::Status s = status(); !s.ok()) return s;
    CheckSequence(entries);
    while (!entries.empty()) {
      Segment& segment = *segments_.back();
      const size_t count = CountFitting(segment, entries);
      if (count > 0) {
        if (absl::Status s = Fail(WriteRecords(&segment, entries.first(count))); !s.ok()) return s;
        entries = entries.subspan(count);
      } else if (segment.empty()) {
        const uint64_t needed = segment.end + RecordBytes(entries.front().payload.size());
        if (absl::Status s = FailUnlessFull(newest_file_->Preallocate(needed)); !s.ok()) return s;
        segment.capacity = needed;
      } else {
        if (absl::Status s = Roll(); !s.ok()) return s;
      }
    }
    return absl::OkStatus();
  }

  absl::Status TruncateAfter(Index index) {
    if (absl::Status s = status(); !s.ok()) return s;
    ASSERT(index >= base_index_);
    return index >= last_index_ ? absl::OkStatus() : StartSegmentAfter(index);
  }

  // Starts a new segment after `index`, which replaces all entries after it. REQUIRES: base_index_
  // <= index <= last_index_.
  absl::Status StartSegmentAfter(Index index) {
    // Pending chores come first, because the set of files must not change during the truncation.
    if (absl::Status s = DoChores(); !s.ok()) return s;
    absl::StatusOr<uint64_t> end = EndOf(index);
    if (!end.ok()) return Fail(end.status());
    if (absl::Status s = Fail(SyncData()); !s.ok()) return s;
    const size_t kept = KeptSegments(index);
    const bool begins_log = kept == 0 && base_index_ > Index{0};
    const Term term = TermAt(index).value();
    absl::StatusOr<std::shared_ptr<Segment>> segment =
        MakeSegment(index + 1, term, begins_log, /*frees_space=*/false);
    if (!segment.ok()) return segment.status();
    last_term_ = term;
    std::vector<std::shared_ptr<Segment>> replaced;
    {
      MutexLock lock(&mutex_);
      if (kept > 0) {
        Segment& cut = *segments_[kept - 1];
        cut.end = *end;
        cut.next = index + 1;
        std::erase_if(cut.checkpoints, [&](const Checkpoint& c) { return c.index > index; });
      }
      replaced.assign(segments_.begin() + static_cast<ptrdiff_t>(kept), segments_.end());
      segments_.resize(kept);
      segments_.push_back(*std::move(segment));
      while (!term_runs_.empty() && term_runs_.back().first > index) term_runs_.pop_back();
      last_index_ = index;
      ++removals_;
    }
    durable_ = index;
    std::erase_if(control_entries_, [&](const Entry& entry) { return entry.index > index; });
    if (absl::Status s = Fail(RemoveFiles(replaced)); !s.ok()) return s;
    return kept == 0 ? absl::OkStatus() : Fail(Trim(segments_[kept - 1]));
  }

  absl::Status CompactTo(Index index) {
    if (absl::Status s = status(); !s.ok()) return s;
    ASSERT(index <= last_index_);
    ptrdiff_t count = 0;
    for (size_t i = 0; i + 1 < segments_.size() && segments_[i]->next <= index + 1; ++i) ++count;
    if (count == 0) return absl::OkStatus();
    const std::shared_ptr<Segment> front = segments_[static_cast<size_t>(count)];
    const Index base_index = front->name.first - 1;
    const Term base_term = TermAt(base_index).value();
    {
      MutexLock lock(&mutex_);
      dropped_.insert(dropped_.end(), segments_.begin(), segments_.begin() + count);
      segments_.erase(segments_.begin(), segments_.begin() + count);
      base_index_ = base_index;
      base_term_ = base_term;
      DropTermRuns();
      ++removals_;
      beginning_ = front;
    }
    std::erase_if(control_entries_, [&](const Entry& entry) { return entry.index <= base_index; });
    return absl::OkStatus();
  }

  bool HasChores() const {
    MutexLock lock(&mutex_);
    return status_.ok() && beginning_ != nullptr;
  }

  absl::Status DoChores() {
    MutexLock chores_lock(&chores_mutex_);
    std::vector<std::shared_ptr<Segment>> dropped;
    std::shared_ptr<Segment> beginning;
    {
      MutexLock lock(&mutex_);
      if (!status_.ok()) return status_;
      dropped.swap(dropped_);
      beginning.swap(beginning_);
    }
    if (beginning == nullptr) return absl::OkStatus();
    if (absl::Status s = FailUnlessFull(files_.RenameToBegin(beginning.get())); !s.ok()) {
      // The work is kept for the next call. If a later compaction has set a later beginning, that
      // one stays.
      MutexLock lock(&mutex_);
      dropped_.insert(dropped_.begin(), dropped.begin(), dropped.end());
      if (beginning_ == nullptr) beginning_ = beginning;
      return s;
    }
    if (absl::Status s = Fail(SyncDirectoryNow()); !s.ok()) return s;
    for (const std::shared_ptr<Segment>& segment : dropped) {
      if (absl::Status s = Fail(files_.RemoveInSteps(segment)); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status MakeBallast() {
    if (absl::Status s = status(); !s.ok()) return s;
    return FailUnlessFull(ballast_.Make());
  }
  void AllowBallast(bool allowed, const BallastFile* first) {
    comes_first_.store(allowed ? first : nullptr);
    ballast_allowed_.store(allowed);
  }
  const BallastFile& ballast() const { return ballast_; }

  absl::Status Reset(Index index, Term term) {
    if (absl::Status s = status(); !s.ok()) return s;
    if (absl::Status s = DoChores(); !s.ok()) return s;
    absl::StatusOr<std::shared_ptr<Segment>> segment =
        MakeSegment(index + 1, term, /*begins_log=*/true, /*frees_space=*/true);
    if (!segment.ok()) return segment.status();
    dirty_ = false;  // unsynced entries are forgotten, too
    last_term_ = term;
    std::vector<std::shared_ptr<Segment>> replaced{*std::move(segment)};
    {
      MutexLock lock(&mutex_);
      segments_.swap(replaced);
      base_index_ = index;
      base_term_ = term;
      term_runs_.clear();
      last_index_ = index;
      ++removals_;
    }
    durable_ = index;
    control_entries_.clear();
    return Fail(RemoveFiles(replaced));
  }

  absl::Status Sync() {
    if (absl::Status s = status(); !s.ok()) return s;
    if (absl::Status s = Fail(SyncData()); !s.ok()) return s;
    return directory_changed_ ? Fail(SyncDirectory()) : absl::OkStatus();
  }

  absl::StatusOr<std::vector<Entry>> Read(Index first, Index last, size_t bytes_max) {
    for (;;) {
      absl::StatusOr<ReadPlan> plan = PlanRead(first, last, bytes_max);
      if (!plan.ok()) return plan.status();
      absl::StatusOr<std::vector<Entry>> entries = Execute(*plan, first, bytes_max);
      if (entries.ok()) {
        ASSERT(!entries->empty() && entries->front().index == first);
        return entries;
      }
      // If entries were truncated or dropped meanwhile, the error is no damage: plan again.
      if (removals() == plan->removals) return Fail(entries.status());
    }
  }

 private:
  // Consecutive whole records of one segment.
  struct Run {
    std::shared_ptr<Segment> segment;
    uint64_t offset = 0;
    uint64_t size = 0;
    Index first;
  };
  struct ReadPlan {
    std::vector<Run> runs;
    uint64_t size = 0;  // of all of them
    Index last;
    uint64_t removals = 0;
  };

  absl::Status status() const {
    MutexLock lock(&mutex_);
    return status_;
  }

  uint64_t removals() const {
    MutexLock lock(&mutex_);
    return removals_;
  }

  // Keeps the first error, with which all later calls fail, because what the disk holds is unknown
  // from then on. Returns it; returns OK if `status` is OK.
  absl::Status Fail(absl::Status status) {
    if (status.ok()) return status;
    // ResourceExhausted would invite a retry, but an operation was interrupted halfway.
    if (absl::IsResourceExhausted(status)) status = absl::InternalError(status.message());
    MutexLock lock(&mutex_);
    if (status_.ok()) status_ = std::move(status);
    return status_;
  }

  absl::Status NotInLog(Index index) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return absl::OutOfRangeError(absl::StrCat(
        path_, ": entry ", index.value(), " is not in the log, which begins behind entry ",
        base_index_.value(), " and ends with entry ", last_index_.value()));
  }

  // As Fail, for operations that change nothing if there is no free space: their ResourceExhausted
  // is not final, so that they can be tried again.
  absl::Status FailUnlessFull(absl::Status status) {
    return absl::IsResourceExhausted(status) ? status : Fail(std::move(status));
  }

  void CheckSequence(std::span<const Entry> entries) const {
    Index next = last_index_ + 1;
    Term term = last_term_;
    for (const Entry& entry : entries) {
      ASSERT(entry.index == next, "entries are appended without gaps");
      ASSERT(entry.term >= term, "terms do not go back within a log");
      ASSERT(entry.payload.size() <= kEntryPayloadBytesMax);
      ++next;
      term = entry.term;
    }
  }

  static size_t CountFitting(const Segment& segment, std::span<const Entry> entries) {
    size_t count = 0;
    for (uint64_t end = segment.end; count < entries.size(); ++count) {
      end += RecordBytes(entries[count].payload.size());
      if (end > segment.capacity) break;
    }
    return count;
  }

  // Writes the entries after the segment's last record, with one write.
  absl::Status WriteRecords(Segment* segment, std::span<const Entry> entries) {
    ASSERT(!entries.empty());
    size_t copied_bytes = 0;
    for (const Entry& entry : entries) {
      const size_t payload = entry.payload.size();
      copied_bytes += kRecordHeaderBytes + RecordPadding(payload).size();
      if (payload <= kCopiedPayloadMax) copied_bytes += payload;
    }
    if (buffer_.size() < copied_bytes) buffer_.resize(std::max(copied_bytes, 2 * buffer_.size()));
    pieces_.clear();
    char* to = buffer_.data();
    const char* piece = to;
    uint64_t offset = segment->end;
    for (const Entry& entry : entries) {
      const std::string_view payload = entry.payload.view();
      const std::string_view padding = RecordPadding(payload.size());
      EncodeRecordHeader(entry, durable_, {segment->name.generation, offset}, to);
      to += kRecordHeaderBytes;
      if (payload.size() <= kCopiedPayloadMax) {
        to = std::copy(payload.begin(), payload.end(), to);
      } else {
        pieces_.emplace_back(piece, static_cast<size_t>(to - piece));
        pieces_.push_back(payload);
        piece = to;
      }
      to = std::copy(padding.begin(), padding.end(), to);
      offset += RecordBytes(payload.size());
    }
    if (to != piece) pieces_.emplace_back(piece, static_cast<size_t>(to - piece));
    ASSERT(to == buffer_.data() + copied_bytes && offset <= segment->capacity);
    const uint64_t zeros_end = AddZeros(*segment, offset);
    dirty_ = true;
    absl::Status written = newest_file_->WriteAt(segment->end, pieces_);
    if (buffer_.size() > kKeptBufferBytes) std::string().swap(buffer_);
    if (written.ok()) {
      zeros_end_ = zeros_end;
      Publish(segment, entries, offset);
    }
    return written;
  }

  // Adds to pieces_, whose bytes end at offset `end`, the zeros that are to be written behind them,
  // and returns the offset up to which bytes have been written then. The space is allocated and
  // reads as zeros already, but the first write to it changes the file's metadata, which each sync
  // would have to write, too. So the space for many small writes is written once. A large write
  // is not worth that: it would be written twice, and its metadata costs little beside its bytes.
  uint64_t AddZeros(const Segment& segment, uint64_t end) {
    static const std::string zeros(kZerosPieceBytes, '\0');
    if (end <= zeros_end_ || end - segment.end > kZerosBytes / 4) return std::max(end, zeros_end_);
    const uint64_t zeros_end = std::min(end + kZerosBytes, segment.capacity);
    for (uint64_t at = end; at < zeros_end; at += pieces_.back().size()) {
      pieces_.push_back(std::string_view(zeros).substr(0, zeros_end - at));
    }
    return zeros_end;
  }

  // Makes the entries written up to `end` visible to readers.
  void Publish(Segment* segment, std::span<const Entry> entries, uint64_t end) {
    MutexLock lock(&mutex_);
    uint64_t offset = segment->end;
    for (const Entry& entry : entries) {
      segment->NoteRecord(entry.index, offset);
      offset += RecordBytes(entry.payload.size());
      if (term_runs_.empty() || term_runs_.back().term != entry.term) {
        term_runs_.push_back({entry.index, entry.term});
      }
    }
    ASSERT(offset == end);
    segment->end = end;
    segment->next = entries.back().index + 1;
    last_index_ = entries.back().index;
    last_term_ = entries.back().term;
  }

  absl::Status SyncData() {
    if (!dirty_) return absl::OkStatus();
    if (absl::Status s = newest_file_->Sync(); !s.ok()) return s;
    dirty_ = false;
    durable_ = last_index_;
    return absl::OkStatus();
  }

  absl::Status SyncDirectory() {
    if (absl::Status s = SyncDirectoryNow(); !s.ok()) return s;
    directory_changed_ = false;
    return absl::OkStatus();
  }

  // May be called from any thread; does not reset directory_changed_.
  absl::Status SyncDirectoryNow() {
    if (SeededBug("the directory is not synced")) return absl::OkStatus();
    return env_.SyncDirectory(path_);
  }

  absl::Status RemoveFiles(const std::vector<std::shared_ptr<Segment>>& segments) {
    for (const std::shared_ptr<Segment>& segment : segments) {
      if (absl::Status s = files_.Remove(segment); !s.ok()) return s;
      directory_changed_ = true;
    }
    return absl::OkStatus();
  }

  // Removes the term runs of entries that are no longer in the log, after base_index_ moved.
  void DropTermRuns() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto above = std::upper_bound(term_runs_.begin(), term_runs_.end(), base_index_ + 1,
                                  [](Index i, const TermRun& run) { return i < run.first; });
    ASSERT(above != term_runs_.begin(), "the entries that were dropped had one");
    term_runs_.erase(term_runs_.begin(), std::prev(above));
    if (base_index_ == last_index_) {
      term_runs_.clear();
    } else {
      term_runs_.front().first = base_index_ + 1;
    }
  }

  // Makes the newest segment, which is full, durable, and starts a new one.
  absl::Status Roll() {
    if (absl::Status s = Fail(SyncData()); !s.ok()) return s;
    const std::shared_ptr<Segment> full = segments_.back();
    if (absl::Status s = Extend(); !s.ok()) return s;
    return Fail(Trim(full));
  }

  absl::Status Extend() {
    absl::StatusOr<std::shared_ptr<Segment>> segment =
        MakeSegment(last_index_ + 1, last_term_, /*begins_log=*/false, /*frees_space=*/false);
    if (!segment.ok()) return segment.status();
    MutexLock lock(&mutex_);
    segments_.push_back(*std::move(segment));
    return absl::OkStatus();
  }

  // Frees the space after the segment's last record. The change need not be durable.
  absl::Status Trim(const std::shared_ptr<Segment>& segment) {
    if (segment->capacity == segment->end) return absl::OkStatus();
    segment->capacity = segment->end;
    absl::StatusOr<std::shared_ptr<File>> file = files_.Get(segment);
    return file.ok() ? (*file)->Truncate(segment->end) : file.status();
  }

  // Durably makes a segment for the entries from `first` on. `term` is the term of the entry before
  // `first`. Returns ResourceExhausted, and changes nothing, if there is no free space for the
  // segment and no ballast file that it may use. `frees_space` says that the segment replaces
  // others, and so may use the ballast file and all free space. REQUIRES: all entries before
  // `first` are durable, or `begins_log`.
  absl::StatusOr<std::shared_ptr<Segment>> MakeSegment(Index first, Term term, bool begins_log,
                                                       bool frees_space) {
    ASSERT(!dirty_ || begins_log);
    auto segment = std::make_shared<Segment>();
    segment->name = {first, last_generation_ + 1, begins_log};
    segment->path = absl::StrCat(path_, "/", ToFileName(segment->name));
    segment->next = first;
    const std::string header = EncodeSegmentHeader(segment->name, term);
    const bool takes_ballast = frees_space || ballast_allowed_.load();
    absl::Status made = AllocateFile(segment.get(), frees_space ? nullptr : comes_first_.load());
    if (made.ok()) {
      const std::string_view piece = header;
      if (absl::Status s = segment->file->WriteAt(0, {&piece, 1}); !s.ok()) return Fail(s);
      if (absl::Status s = segment->file->Sync(); !s.ok()) return Fail(s);
    } else if (absl::IsResourceExhausted(made) && !IsOutOfDescriptors(made) && takes_ballast &&
               ballast_.exists()) {
      made = TakeBallast(segment.get(), header);
    }
    if (absl::IsResourceExhausted(made)) return GiveUpFile(*segment, made);
    if (!made.ok()) return Fail(made);
    if (absl::Status s = SyncDirectory(); !s.ok()) return Fail(s);
    ++last_generation_;
    newest_file_ = segment->file;
    zeros_end_ = 0;
    files_.Adopt(segment);  // from now on, reads of other segments may close it
    return segment;
  }

  // Makes the file and reserves its space. Returns ResourceExhausted if the disk is full, or if
  // `first` is not null and that ballast file does not exist: free space is then kept for it.
  absl::Status AllocateFile(Segment* segment, const BallastFile* first) {
    if (first != nullptr && !first->exists()) {
      return absl::ResourceExhaustedError(
          absl::StrCat(segment->path,
                       ": the disk is full; the free space that is left is kept for a checkpoint"));
    }
    absl::StatusOr<std::unique_ptr<File>> file = env_.OpenFile(segment->path, /*create=*/true);
    if (!file.ok()) return file.status();
    segment->file = *std::move(file);
    segment->capacity = SegmentBytes(options_);
    return segment->file->Preallocate(segment->capacity);
  }

  absl::Status TakeBallast(Segment* segment, const std::string& header) {
    absl::StatusOr<std::unique_ptr<File>> file = ballast_.TurnInto(segment->path, header);
    if (!file.ok()) return file.status();
    segment->file = *std::move(file);
    absl::StatusOr<uint64_t> size = segment->file->Size();
    if (!size.ok()) return size.status();
    segment->capacity = *size;
    return absl::OkStatus();
  }

  // Durably removes the file of a segment for which there is no free space. Otherwise a crash could
  // bring it back beside another segment of the same generation. Returns `why`.
  absl::Status GiveUpFile(const Segment& segment, const absl::Status& why) {
    if (env_.Exists(segment.path)) {
      if (absl::Status s = env_.Remove(segment.path); !s.ok()) return Fail(s);
      if (absl::Status s = SyncDirectory(); !s.ok()) return Fail(s);
    }
    return why;
  }

  // Returns the number of segments whose first index is at or below `index`.
  size_t KeptSegments(Index index) const {
    return static_cast<size_t>(
        std::count_if(segments_.begin(), segments_.end(),
                      [&](const auto& segment) { return segment->name.first <= index; }));
  }

  // Returns the offset where the record of `index` ends in its segment; 0 if there is no such
  // segment.
  absl::StatusOr<uint64_t> EndOf(Index index) {
    const size_t kept = KeptSegments(index);
    if (kept == 0) return 0;
    const std::shared_ptr<Segment>& segment = segments_[kept - 1];
    ASSERT(index < segment->next);
    if (index + 1 == segment->next) return segment->end;
    const Checkpoint& checkpoint = segment->CheckpointBefore(index);
    const Run run{segment, checkpoint.offset,
                  segment->OffsetAfter(checkpoint.index) - checkpoint.offset, checkpoint.index};
    std::string bytes(run.size, '\0');
    if (absl::Status s = ReadRun(run, bytes.data()); !s.ok()) return s;
    uint64_t at = 0;
    for (Index next = checkpoint.index; next <= index; ++next) {
      absl::StatusOr<RecordView> record = RecordAt(run, bytes, at, next);
      if (!record.ok()) return record.status();
      at += record->size;
    }
    return run.offset + at;
  }

  absl::StatusOr<ReadPlan> PlanRead(Index first, Index last, size_t bytes_max) const {
    MutexLock lock(&mutex_);
    if (!status_.ok()) return status_;
    if (first <= base_index_ || first > last_index_) return NotInLog(first);
    ReadPlan plan;
    plan.last = std::min(std::max(first, last), last_index_);
    plan.removals = removals_;
    auto at = std::upper_bound(segments_.begin(), segments_.end(), first,
                               [](Index i, const auto& s) { return i < s->name.first; });
    ASSERT(at != segments_.begin());
    for (--at; at != segments_.end(); ++at) {
      const Segment& segment = **at;
      if (segment.empty() || segment.name.first > plan.last) break;
      const Index from = std::max(first, segment.name.first);
      const Checkpoint begin = segment.CheckpointBefore(from);
      const uint64_t end = RunEnd(segment, begin, from, plan, bytes_max);
      ASSERT(end > begin.offset && end <= segment.end);
      plan.runs.push_back({*at, begin.offset, end - begin.offset, begin.index});
      plan.size += end - begin.offset;
      if (end < segment.end || plan.size >= bytes_max) break;
    }
    return plan;
  }

  // Returns the offset at which to stop reading in `segment`: after plan.last or after enough
  // bytes, but not before the end of the record of `from`.
  static uint64_t RunEnd(const Segment& segment, const Checkpoint& begin, Index from,
                         const ReadPlan& plan, size_t bytes_max) {
    const uint64_t wanted = bytes_max - std::min<uint64_t>(bytes_max, plan.size);
    const uint64_t behind_from = segment.OffsetAfter(from);
    auto enough = std::partition_point(
        segment.checkpoints.begin(), segment.checkpoints.end(), [&](const Checkpoint& c) {
          return c.offset < behind_from || c.offset - begin.offset < wanted;
        });
    const uint64_t end = enough == segment.checkpoints.end() ? segment.end : enough->offset;
    return std::min(end, std::max(behind_from, segment.OffsetAfter(plan.last)));
  }

  absl::Status ReadRun(const Run& run, char* to) {
    absl::StatusOr<std::shared_ptr<File>> file = files_.Get(run.segment);
    if (!file.ok()) return file.status();
    absl::StatusOr<size_t> got = (*file)->ReadAt(run.offset, run.size, to);
    if (!got.ok()) return got.status();
    if (*got == run.size) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        files_.PathOf(*run.segment), ": ends at offset ", run.offset + *got, ", in or after entry ",
        run.first.value(), ", before its records do", ToAbsl(kRejoinAdvice)));
  }

  // Returns the record at `at` in `bytes`, the content of `run`. DataLoss unless it is a valid
  // record of `index`.
  absl::StatusOr<RecordView> RecordAt(const Run& run, std::string_view bytes, uint64_t at,
                                      Index index) const {
    const uint64_t offset = run.offset + at;
    RecordView record = ParseRecord(bytes.substr(at), {run.segment->name.generation, offset});
    if (record.state == RecordView::State::kValid && record.index == index) return record;
    return absl::DataLossError(absl::StrCat(files_.PathOf(*run.segment), ": the record of entry ",
                                            index.value(), " at offset ", offset, " is damaged",
                                            ToAbsl(kRejoinAdvice)));
  }

  absl::StatusOr<std::vector<Entry>> Execute(const ReadPlan& plan, Index first, size_t bytes_max) {
    auto writable = std::make_shared<std::string>();
    writable->resize(plan.size);
    uint64_t filled = 0;
    for (const Run& run : plan.runs) {
      if (absl::Status s = ReadRun(run, writable->data() + filled); !s.ok()) return s;
      filled += run.size;
    }
    ASSERT(filled == plan.size);
    const Slice::Buffer buffer = std::move(writable);
    std::vector<Entry> entries;
    uint64_t begin = 0;
    uint64_t bytes = 0;
    for (const Run& run : plan.runs) {
      const std::string_view view = std::string_view(*buffer).substr(begin, run.size);
      Index next = run.first;
      for (uint64_t at = 0; at < run.size && next <= plan.last; ++next) {
        absl::StatusOr<RecordView> record = RecordAt(run, view, at, next);
        if (!record.ok()) return record.status();
        if (next >= first) {
          const size_t payload_at = begin + at + kRecordHeaderBytes;
          Entry entry{record->index, record->term, record->kind,
                      Slice(buffer, payload_at, record->payload.size())};
          bytes += entry.ByteSize();
          if (bytes > bytes_max && !entries.empty()) return entries;
          entries.push_back(std::move(entry));
        }
        at += record->size;
      }
      begin += run.size;
    }
    return entries;
  }

  Env& env_;
  const std::string path_;
  const SegmentLogOptions options_;
  SegmentFiles files_;
  BallastFile ballast_;
  std::atomic<bool> ballast_allowed_{false};
  std::atomic<const BallastFile*> comes_first_{nullptr};

  // --- The log's thread only ---
  Index durable_;  // everything up to it is durable
  Term last_term_;
  uint64_t last_generation_;
  std::shared_ptr<File> newest_file_;   // of the newest segment
  uint64_t zeros_end_ = 0;              // up to here its bytes have been written (AddZeros)
  std::vector<Entry> control_entries_;  // as control_entries() says
  std::optional<Cut> cut_at_open_;
  bool dirty_ = false;              // the newest segment has unsynced writes
  bool directory_changed_ = false;  // unsynced removals
  std::string buffer_;              // headers and small payloads of one write
  std::vector<std::string_view> pieces_;

  // --- Written by the log's thread under mutex_; only that thread reads them without it ---
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<Segment>> segments_;  // ascending, not empty after Start
  Index base_index_;
  Term base_term_;
  std::vector<TermRun> term_runs_;
  Index last_index_;
  uint64_t removals_ = 0;  // how often TruncateAfter, CompactTo and Reset removed entries

  // --- Pending work of DoChores, which holds chores_mutex_ throughout, acquired before mutex_ ---
  Mutex chores_mutex_;
  std::vector<std::shared_ptr<Segment>> dropped_ ABSL_GUARDED_BY(mutex_);  // files to be removed
  // The segment that now begins the log, until DoChores renames it and removes the files before it.
  std::shared_ptr<Segment> beginning_ ABSL_GUARDED_BY(mutex_);

  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // the first error
};

SegmentLog::SegmentLog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SegmentLog::~SegmentLog() = default;

absl::StatusOr<std::unique_ptr<SegmentLog>> SegmentLog::Open(Env* env, std::string path,
                                                             SegmentLogOptions options,
                                                             Index durable_index) {
  ASSERT(env != nullptr && !path.empty());
  if (absl::Status s = env->CreateDirectories(path); !s.ok()) return s;
  absl::StatusOr<RecoveredLog> recovered =
      RecoverLog(env, path, durable_index, options.scan_observer);
  if (!recovered.ok()) return recovered.status();
  auto impl = std::make_unique<Impl>(env, std::move(path), options, *std::move(recovered));
  if (absl::Status s = impl->Start(); !s.ok()) return s;
  return std::unique_ptr<SegmentLog>(new SegmentLog(std::move(impl)));
}

Index SegmentLog::base_index() const { return impl_->base_index(); }
Term SegmentLog::base_term() const { return impl_->base_term(); }
Index SegmentLog::first_index() const { return impl_->base_index() + 1; }
Index SegmentLog::last_index() const { return impl_->last_index(); }
std::vector<TermRun> SegmentLog::term_runs() const { return impl_->term_runs(); }
std::vector<SizeRun> SegmentLog::size_runs() const { return impl_->size_runs(); }
std::optional<Term> SegmentLog::TermAt(Index index) const { return impl_->TermAt(index); }
const std::vector<Entry>& SegmentLog::control_entries() const { return impl_->control_entries(); }
const std::optional<SegmentLog::Cut>& SegmentLog::cut_at_open() const {
  return impl_->cut_at_open();
}
absl::Status SegmentLog::Append(std::span<const Entry> entries) { return impl_->Append(entries); }
absl::Status SegmentLog::TruncateAfter(Index index) { return impl_->TruncateAfter(index); }
absl::Status SegmentLog::Sync() { return impl_->Sync(); }
absl::Status SegmentLog::CompactTo(Index index) { return impl_->CompactTo(index); }
absl::Status SegmentLog::DoChores() { return impl_->DoChores(); }
bool SegmentLog::HasChores() const { return impl_->HasChores(); }
absl::Status SegmentLog::Reset(Index index, Term term) { return impl_->Reset(index, term); }
absl::Status SegmentLog::MakeBallast() { return impl_->MakeBallast(); }
void SegmentLog::AllowBallast(bool allowed, const BallastFile* first) {
  impl_->AllowBallast(allowed, first);
}
bool SegmentLog::has_ballast() const { return impl_->ballast().exists(); }
bool SegmentLog::ballast_used() const { return impl_->ballast().used(); }
const BallastFile& SegmentLog::ballast() const { return impl_->ballast(); }
absl::StatusOr<std::vector<Entry>> SegmentLog::Read(Index first, Index last,
                                                    size_t bytes_max) const {
  return impl_->Read(first, last, bytes_max);
}

}  // namespace quorate::consensus
