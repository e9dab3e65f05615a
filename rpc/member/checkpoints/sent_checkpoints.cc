// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/checkpoints/sent_checkpoints.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "rpc/member/checkpoints/checkpoint_metadata.h"

namespace quorate::rpc {
namespace {

using consensus::Index;
using consensus::SnapshotChunkData;

// The least distance between two remembered places of a checkpoint.
constexpr uint64_t kPlaceBytes = 1u << 20;
// The most readers of one checkpoint that are kept open. Each receiver above this number costs a
// seek for each chunk.
constexpr size_t kReadersMax = 16;

// Returns the bytes that a record takes in a sent checkpoint.
size_t SentBytes(std::string_view key, std::string_view value) {
  return 2 * sizeof(uint32_t) + key.size() + value.size();
}

}  // namespace

// --- The choice of a checkpoint ------------------------------------------------------------------

void SentCheckpoints::CloseIdle() {
  MutexLock lock(&mutex_);
  CloseIdleFor(kSentCloseTime);
}

void SentCheckpoints::CloseIdleFor(std::chrono::seconds time) {
  const auto now = clock_->Now();
  checkpoints_.remove_if(
      [&](const Checkpoint& checkpoint) { return now - checkpoint.used >= time; });
}

absl::StatusOr<SentCheckpoints::Checkpoint*> SentCheckpoints::OpenNewest() {
  auto view = store_->OpenView();
  if (!view.ok()) return view.status();
  auto meta = DecodeCheckpointMetadata((*view)->metadata());
  if (!meta.ok()) return meta.status();
  for (Checkpoint& checkpoint : checkpoints_) {
    if (checkpoint.meta == *meta) return &checkpoint;
  }
  if (checkpoints_.size() >= kSentCheckpointsMax) CloseIdleFor(kSentIdleTime);
  if (checkpoints_.size() >= kSentCheckpointsMax) {
    return absl::UnavailableError("as many checkpoints as possible are being sent");
  }
  Checkpoint& opened = checkpoints_.emplace_back();
  opened.meta = *std::move(meta);
  opened.view = *std::move(view);
  opened.places.push_back({kSentHeaderBytes, {}});
  opened.opened = opened.used = clock_->Now();
  return &opened;
}

absl::StatusOr<SentCheckpoints::Checkpoint*> SentCheckpoints::Choose() {
  CloseIdleFor(kSentCloseTime);
  const auto youngest = std::max_element(
      checkpoints_.begin(), checkpoints_.end(),
      [](const Checkpoint& a, const Checkpoint& b) { return a.opened < b.opened; });
  if (youngest != checkpoints_.end() && clock_->Now() - youngest->opened < kSentShareTime) {
    return &*youngest;
  }
  auto newest = OpenNewest();
  // As many checkpoints as allowed are in use: the receiver shares the newest of them.
  if (absl::IsUnavailable(newest.status())) return &*youngest;
  if (absl::IsFailedPrecondition(newest.status())) {
    return absl::NotFoundError("there is no checkpoint yet");
  }
  return newest;
}

absl::StatusOr<SentCheckpoints::Checkpoint*> SentCheckpoints::Find(Index index) {
  for (Checkpoint& checkpoint : checkpoints_) {
    if (checkpoint.meta.index == index) return &checkpoint;
  }
  // If this member became the leader meanwhile, the earlier leader may have begun to send this
  // receiver the same checkpoint.
  const std::optional<tree::RecordStore::Metadata> newest = store_->newest();
  if (newest.has_value() && newest->zxid == ZxidOf(index)) {
    auto opened = OpenNewest();
    if (opened.ok() && (*opened)->meta.index == index) return opened;
    if (!opened.ok() && !absl::IsUnavailable(opened.status())) return opened;
  }
  return absl::NotFoundError(
      absl::StrCat("there is no checkpoint of index ", index.value(), " any more"));
}

// --- The chunks of a checkpoint ------------------------------------------------------------------

absl::StatusOr<SnapshotChunkData> SentCheckpoints::Read(Index index, uint64_t offset,
                                                        size_t bytes_max) {
  MutexLock lock(&mutex_);
  auto found = index == Index{0} ? Choose() : Find(index);
  if (!found.ok()) return found.status();
  Checkpoint& checkpoint = **found;
  // Reading at offset 0 does not count as use. Otherwise a checkpoint that Raft cannot use, because
  // of its index, would be tried repeatedly, and would stay open for ever.
  if (offset > 0) checkpoint.used = clock_->Now();
  auto at = ReaderAt(offset, &checkpoint);
  if (!at.ok()) return at.status();
  Reader& reader = **at;
  if (reader.next_offset != offset) return reader.last_chunk;
  if (absl::Status s = ReadChunk(bytes_max, &checkpoint, &reader); !s.ok()) return s;
  return reader.last_chunk;
}

absl::StatusOr<SentCheckpoints::Reader*> SentCheckpoints::ReaderAt(uint64_t offset,
                                                                   Checkpoint* checkpoint) {
  std::list<Reader>& readers = checkpoint->readers;
  auto reader = std::find_if(readers.begin(), readers.end(), [offset](const Reader& r) {
    const bool has_read = !r.last_chunk.bytes.empty();
    return (r.next_offset == offset && !(has_read && r.last_chunk.last)) ||
           (has_read && r.last_chunk.offset == offset);
  });
  if (reader == readers.end()) return OpenReader(offset, checkpoint);
  readers.splice(readers.begin(), readers, reader);
  return &readers.front();
}

absl::StatusOr<SentCheckpoints::Reader*> SentCheckpoints::OpenReader(uint64_t offset,
                                                                     Checkpoint* checkpoint) {
  const auto not_found = [&] {
    return absl::NotFoundError(absl::StrCat("the checkpoint of index ",
                                            checkpoint->meta.index.value(),
                                            " has no record at offset ", offset));
  };
  if (checkpoint->end.has_value() && offset >= *checkpoint->end) return not_found();
  auto view = checkpoint->view->OpenAnother();
  if (!view.ok()) return view.status();
  Reader reader;
  reader.view = *std::move(view);
  if (offset > 0) {
    if (offset < kSentHeaderBytes) return not_found();
    const auto behind =
        std::upper_bound(checkpoint->places.begin(), checkpoint->places.end(), offset,
                         [](uint64_t wanted, const Place& place) { return wanted < place.offset; });
    const Place& place = *std::prev(behind);
    reader.next_offset = place.offset;
    reader.last_key = place.key;
    if (absl::Status s = reader.view->SeekBehind(place.key); !s.ok()) return s;
    if (absl::Status s = Search(offset, checkpoint, &reader); !s.ok()) return s;
    if (reader.next_offset < offset && !checkpoint->end.has_value()) {
      // The places up to here are recorded, so that the next call continues from here.
      return absl::UnavailableError("the offset is still being searched for; ask again");
    }
    if (reader.next_offset != offset || checkpoint->end == offset) return not_found();
  }
  if (checkpoint->readers.size() >= kReadersMax) checkpoint->readers.pop_back();
  checkpoint->readers.push_front(std::move(reader));
  return &checkpoint->readers.front();
}

absl::Status SentCheckpoints::Search(uint64_t offset, Checkpoint* checkpoint, Reader* reader) {
  const uint64_t start = reader->next_offset;
  bool more = true;
  while (more && reader->next_offset < offset && reader->next_offset - start < kSentSearchBytes) {
    auto next = reader->view->Next(1, [&](std::string_view key, std::string_view value) {
      reader->next_offset += SentBytes(key, value);
      reader->last_key.assign(key);
      return absl::OkStatus();
    });
    if (!next.ok()) return next.status();
    more = *next;
    RecordPlace(!more, checkpoint, *reader);
  }
  searched_bytes_ += reader->next_offset - start;
  return absl::OkStatus();
}

void SentCheckpoints::RecordPlace(bool is_end, Checkpoint* checkpoint, const Reader& reader) {
  if (is_end) checkpoint->end = reader.next_offset;
  if (reader.next_offset < checkpoint->places.back().offset + kPlaceBytes) return;
  checkpoint->places.push_back({reader.next_offset, reader.last_key});
}

absl::Status SentCheckpoints::ReadChunk(size_t bytes_max, Checkpoint* checkpoint, Reader* reader) {
  std::string bytes;
  LittleEndianWriter writer(&bytes);
  const uint64_t offset = reader->next_offset;
  if (offset == 0) {
    writer.Int(kSentFormat);
    writer.Int(reader->view->metadata().digest);
  }
  auto more = reader->view->Next(bytes_max, [&](std::string_view key, std::string_view value) {
    writer.String(key);
    writer.String(value);
    reader->last_key.assign(key);
    return absl::OkStatus();
  });
  if (!more.ok()) return more.status();
  reader->next_offset = offset + bytes.size();
  reader->last_chunk = {checkpoint->meta, offset, Slice(std::move(bytes)), !*more};
  RecordPlace(!*more, checkpoint, *reader);
  return absl::OkStatus();
}

// --- State ---------------------------------------------------------------------------------------

size_t SentCheckpoints::open_count() const {
  MutexLock lock(&mutex_);
  return checkpoints_.size();
}

size_t SentCheckpoints::reader_count() const {
  MutexLock lock(&mutex_);
  size_t count = 0;
  for (const Checkpoint& checkpoint : checkpoints_) count += checkpoint.readers.size();
  return count;
}

uint64_t SentCheckpoints::searched_bytes() const {
  MutexLock lock(&mutex_);
  return searched_bytes_;
}

}  // namespace quorate::rpc
