// SPDX-License-Identifier: Apache-2.0

#include "consensus/log/segment.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/strings.h"

namespace quorate::consensus {
namespace {

constexpr std::string_view kMagic = "QuorLog\n";
constexpr std::string_view kSuffix = ".log";
constexpr std::string_view kBeginSuffix = ".first.log";
constexpr size_t kIndexDigits = 20;
constexpr size_t kGenerationDigits = 12;
constexpr size_t kHeaderCrcAt = kSegmentHeaderBytes - 4;
constexpr size_t kWindowBytes = 1u << 20;

static_assert(kSegmentHeaderBytes % kRecordAlignment == 0);

template <class T>
bool ParseDigits(std::string_view text, T* value) {
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return false;
  }
  const auto result = std::from_chars(text.data(), text.data() + text.size(), *value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

// Reads a file in large pieces from front to back.
class FileWindow {
 public:
  FileWindow(const File& file, uint64_t file_size) : file_(file), file_size_(file_size) {}

  // Returns at least `size` bytes from `offset` on, or as many as the file has.
  absl::StatusOr<std::string_view> View(uint64_t offset, uint64_t size) {
    ASSERT(offset <= file_size_);
    const uint64_t wanted = std::min(size, file_size_ - offset);
    if (offset < begin_ || offset + wanted > begin_ + bytes_.size()) {
      bytes_.resize(std::min(std::max<uint64_t>(wanted, kWindowBytes), file_size_ - offset));
      begin_ = offset;
      absl::StatusOr<size_t> got = file_.ReadAt(offset, bytes_.size(), bytes_.data());
      if (!got.ok()) return got.status();
      bytes_.resize(*got);
    }
    ASSERT(offset >= begin_ && offset - begin_ <= bytes_.size());
    return std::string_view(bytes_).substr(offset - begin_);
  }

  // Returns the record at `offset`. Its state is kBad if the file ends before the record does.
  absl::StatusOr<RecordView> Record(uint64_t offset, uint64_t generation) {
    uint64_t size = kRecordHeaderBytes;
    for (int tries = 0; tries < 3; ++tries) {
      absl::StatusOr<std::string_view> bytes = View(offset, size);
      if (!bytes.ok()) return bytes.status();
      RecordView record = ParseRecord(*bytes, {generation, offset});
      if (record.state != RecordView::State::kIncomplete) return record;
      if (record.size > file_size_ - offset) break;
      size = record.size;
    }
    return RecordView{};
  }

 private:
  const File& file_;
  const uint64_t file_size_;
  uint64_t begin_ = 0;
  std::string bytes_;
};

absl::Status UnknownKind(const Segment& segment, const RecordView& record) {
  return absl::FailedPreconditionError(
      absl::StrCat(segment.path, ": entry ", record.index.value(), " at offset ", segment.end,
                   " is of kind ", static_cast<int>(record.kind),
                   ", which this version does not know: run the version that wrote it, or newer"));
}

// Returns the number of leading zero bytes at which no record can begin: the index of a record, in
// its second word, is never zero.
size_t ZeroWords(std::string_view bytes) {
  size_t at = 0;
  for (; bytes.size() - at >= 2 * kRecordAlignment; at += kRecordAlignment) {
    uint64_t words[2];
    std::memcpy(words, bytes.data() + at, sizeof(words));
    if ((words[0] | words[1]) != 0) break;
  }
  return at;
}

// Returns whether the bytes at segment.end, which are not the next valid record, were once a
// record.
absl::StatusOr<bool> WasRecordAtEnd(const Segment& segment, FileWindow* window) {
  const RecordPlace place{segment.name.generation, segment.end};
  absl::StatusOr<std::string_view> bytes = window->View(segment.end, kRecordHeaderBytes);
  if (!bytes.ok()) return bytes.status();
  const RecordView record = ParseRecord(bytes->substr(0, kRecordHeaderBytes), place);
  if (record.state == RecordView::State::kIncomplete) {
    bytes = window->View(segment.end, record.size);
    if (!bytes.ok()) return bytes.status();
  }
  return WasRecord(*bytes, place);
}

// Searches for valid records at each place from segment.end on where a record could begin, and
// fills in garbage_end, record_after_garbage and marked_durable.
absl::Status ScanRest(const Segment& segment, uint64_t size, FileWindow* window,
                      SegmentScan* scan) {
  // A higher index is not possible, because the rest of the file has no space for more records.
  const Index last = segment.next + (size - segment.end) / kRecordHeaderBytes;
  for (uint64_t offset = segment.end; offset < size;) {
    absl::StatusOr<std::string_view> bytes = window->View(offset, kRecordHeaderBytes);
    if (!bytes.ok()) return bytes.status();
    if (bytes->empty()) break;
    if (const size_t zeros = ZeroWords(*bytes); zeros > 0) {
      offset += zeros;
      continue;
    }
    const std::string_view word = bytes->substr(0, kRecordAlignment);
    if (word.find_first_not_of('\0') != std::string_view::npos) {
      scan->garbage_end = offset + word.find_last_not_of('\0') + 1;
    }
    uint64_t step = kRecordAlignment;
    if (MayBeRecord(*bytes, {segment.name.generation, offset}, segment.next, last, size - offset)) {
      absl::StatusOr<RecordView> record = window->Record(offset, segment.name.generation);
      if (!record.ok()) return record.status();
      if (record->state == RecordView::State::kValid) {
        scan->record_after_garbage = true;
        scan->marked_durable = std::max(scan->marked_durable, record->durable);
        step = record->size;
        scan->garbage_end = offset + step;
      }
    }
    offset += step;
  }
  return absl::OkStatus();
}

}  // namespace

std::string ToFileName(SegmentName name) {
  return absl::StrFormat("%020d.%012d", name.first.value(), name.generation)
      .append(name.begins_log ? kBeginSuffix : kSuffix);
}

std::optional<SegmentName> ParseSegmentFileName(std::string_view file_name) {
  constexpr size_t kDotAt = kIndexDigits;
  constexpr size_t kSuffixAt = kDotAt + 1 + kGenerationDigits;
  if (file_name.size() < kSuffixAt || file_name[kDotAt] != '.') return std::nullopt;
  const std::string_view suffix = file_name.substr(kSuffixAt);
  if (suffix != kSuffix && suffix != kBeginSuffix) return std::nullopt;
  uint64_t first = 0;
  uint64_t generation = 0;
  if (!ParseDigits(file_name.substr(0, kIndexDigits), &first) ||
      !ParseDigits(file_name.substr(kDotAt + 1, kGenerationDigits), &generation) || first == 0 ||
      generation == 0) {
    return std::nullopt;
  }
  return SegmentName{Index(first), generation, suffix == kBeginSuffix};
}

std::string EncodeSegmentHeader(SegmentName name, Term previous_term) {
  std::string bytes;
  LittleEndianWriter writer(&bytes);
  writer.Raw(kMagic);
  writer.Int(kSegmentFormatVersion);
  writer.Int(name.first.value());
  writer.Int(name.generation);
  writer.Int(previous_term.value());
  ASSERT(bytes.size() < kHeaderCrcAt);
  bytes.resize(kHeaderCrcAt, '\0');
  writer.Int(Crc32c(bytes));
  ASSERT(bytes.size() == kSegmentHeaderBytes);
  return bytes;
}

absl::StatusOr<std::optional<SegmentHeader>> ParseSegmentHeader(const std::string& path,
                                                                std::string_view bytes) {
  // Magic and CRC have the same place in every version, so that damage can be distinguished from a
  // newer format.
  if (bytes.size() != kSegmentHeaderBytes || !bytes.starts_with(kMagic) ||
      LoadInt<std::endian::little, uint32_t>(bytes.data() + kHeaderCrcAt) !=
          Crc32c(bytes.substr(0, kHeaderCrcAt))) {
    return std::nullopt;
  }
  LittleEndianReader reader(bytes.substr(kMagic.size()));
  const uint32_t version = reader.Int<uint32_t>();
  if (version > kSegmentFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": has format version ", version, ", this program knows up to ",
                     kSegmentFormatVersion, ": run the version that wrote it, or newer"));
  }
  if (version < kSegmentFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": has format version ", version, " of before the first release, this program knows ",
        kSegmentFormatVersion,
        ": take a backup with the program that wrote it (`quorate backup`), and restore that"));
  }
  SegmentHeader header;
  header.first = Index(reader.Int<uint64_t>());
  header.generation = reader.Int<uint64_t>();
  header.previous_term = Term(reader.Int<uint64_t>());
  ASSERT(reader.ok());
  return header;
}

void Segment::NoteRecord(Index index, uint64_t offset) {
  ASSERT(checkpoints.empty() ? index == name.first : index > checkpoints.back().index);
  if (checkpoints.empty() || offset - checkpoints.back().offset >= kCheckpointBytes) {
    checkpoints.push_back({index, offset});
  }
}

const Checkpoint& Segment::CheckpointBefore(Index index) const {
  ASSERT(index >= name.first && index < next);
  auto above = std::upper_bound(checkpoints.begin(), checkpoints.end(), index,
                                [](Index i, const Checkpoint& c) { return i < c.index; });
  ASSERT(above != checkpoints.begin(), "the first record has a checkpoint");
  return *std::prev(above);
}

uint64_t Segment::OffsetAfter(Index index) const {
  auto above = std::upper_bound(checkpoints.begin(), checkpoints.end(), index,
                                [](Index i, const Checkpoint& c) { return i < c.index; });
  return above == checkpoints.end() ? end : above->offset;
}

absl::StatusOr<SegmentScan> ScanSegment(Segment* segment, Term previous_term, Index stop) {
  ASSERT(segment->empty() && segment->checkpoints.empty());
  ASSERT(stop >= segment->name.first);
  absl::StatusOr<uint64_t> size = segment->file->Size();
  if (!size.ok()) return size.status();
  SegmentScan scan;
  scan.last_term = previous_term;
  scan.garbage_end = segment->end;
  if (*size <= segment->end) return scan;
  FileWindow window(*segment->file, *size);
  while (segment->next < stop && segment->end < *size) {
    absl::StatusOr<RecordView> record = window.Record(segment->end, segment->name.generation);
    if (!record.ok()) return record.status();
    if (record->state != RecordView::State::kValid || record->index != segment->next ||
        record->term < scan.last_term) {
      break;
    }
    if (record->kind > kEntryKindLast) return UnknownKind(*segment, *record);
    if (IsControl(record->kind)) {
      scan.control_entries.push_back(
          {record->index, record->term, record->kind, Slice(std::string(record->payload))});
    }
    if (scan.term_runs.empty() || record->term != scan.last_term) {
      scan.term_runs.push_back({record->index, record->term});
    }
    scan.last_term = record->term;
    scan.marked_durable = std::max(scan.marked_durable, record->durable);
    segment->NoteRecord(record->index, segment->end);
    segment->end += record->size;
    ++segment->next;
  }
  scan.garbage_end = segment->end;
  if (segment->next < stop) {
    if (absl::Status s = ScanRest(*segment, *size, &window, &scan); !s.ok()) return s;
    absl::StatusOr<bool> damaged = WasRecordAtEnd(*segment, &window);
    if (!damaged.ok()) return damaged.status();
    scan.damaged = *damaged;
  }
  return scan;
}

absl::Status ForEachRecord(
    const Segment& segment,
    const std::function<absl::Status(const RecordView& record, uint64_t offset)>& record) {
  ASSERT(segment.file != nullptr);
  FileWindow window(*segment.file, segment.end);
  for (uint64_t offset = kSegmentHeaderBytes; offset < segment.end;) {
    absl::StatusOr<RecordView> view = window.Record(offset, segment.name.generation);
    if (!view.ok()) return view.status();
    if (view->state != RecordView::State::kValid) {
      return absl::DataLossError(
          absl::StrCat(segment.path, ": changed at offset ", offset, " while it was read"));
    }
    if (absl::Status s = record(*view, offset); !s.ok()) return s;
    offset += view->size;
  }
  return absl::OkStatus();
}

}  // namespace quorate::consensus
