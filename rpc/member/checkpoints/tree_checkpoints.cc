// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/checkpoints/tree_checkpoints.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "rpc/member/checkpoints/checkpoint_metadata.h"
#include "rpc/member/checkpoints/start_progress.h"
#include "tree/store/load.h"

namespace quorate::rpc {
namespace {

using consensus::Index;
using consensus::SnapshotChunkData;
using consensus::SnapshotMeta;
using tree::RecordStore;

// The bytes of a delta that are read, or ended, under one hold of the tree's lock.
constexpr size_t kPieceBytes = 64u << 10;

// Some records of a delta. All pieces use the same memory, because adding records while the tree is
// locked has to be fast.
class Piece {
 public:
  void Clear() {
    bytes_.clear();
    sizes_.clear();
  }
  void Add(std::string_view key, std::optional<std::string_view> value) {
    sizes_.push_back({key.size(), value.has_value() ? std::optional(value->size()) : std::nullopt});
    bytes_.append(key);
    if (value.has_value()) bytes_.append(*value);
  }
  absl::Status WriteTo(RecordStore* store) const {
    std::string_view rest = bytes_;
    for (const Sizes& sizes : sizes_) {
      const std::string_view key = rest.substr(0, sizes.key);
      rest.remove_prefix(sizes.key);
      std::optional<std::string_view> value;
      if (sizes.value.has_value()) {
        value = rest.substr(0, *sizes.value);
        rest.remove_prefix(*sizes.value);
      }
      if (absl::Status s = store->Write(key, value); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  size_t bytes() const { return bytes_.size(); }
  size_t records() const { return sizes_.size(); }

 private:
  struct Sizes {
    size_t key;
    std::optional<size_t> value;  // none: the record is to be removed
  };
  std::string bytes_;
  std::vector<Sizes> sizes_;
};

// Calls `record` for each record in `bytes`. InvalidArgument if the last one is cut off.
absl::Status ForEachRecordIn(std::string_view bytes, const RecordStore::RecordFunction& record) {
  LittleEndianReader reader(bytes);
  while (!reader.empty()) {
    const std::string_view key = reader.String();
    const std::string_view value = reader.String();
    if (!reader.ok()) return absl::InvalidArgumentError("a record is cut off");
    if (absl::Status status = record(key, value); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

TreeCheckpoints::TreeCheckpoints(RecordStore* store, ReplicatedTree* replicated, const Clock* clock,
                                 consensus::BallastFile* ballast)
    : store_(store),
      replicated_(replicated),
      clock_(clock),
      ballast_(ballast),
      sent_(store, clock) {}

int64_t TreeCheckpoints::MsSince(std::chrono::steady_clock::time_point start) const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_->Now() - start).count();
}

absl::Status TreeCheckpoints::Load() {
  const std::optional<RecordStore::Metadata> metadata = store_->newest();
  if (!metadata.has_value()) return absl::OkStatus();
  auto meta = DecodeCheckpointMetadata(*metadata);
  if (!meta.ok()) return meta.status();
  StartProgress progress(
      fmt::format("loading the checkpoint of zxid 0x{:x}", metadata->zxid.value()), "znodes",
      clock_);
  auto view = store_->OpenView();
  if (!view.ok()) return view.status();
  std::vector<std::string> events;
  absl::Status read = (*view)->ReadEvents([&](uint64_t part, std::string_view bytes) {
    event_parts_[part] = 0;
    events.emplace_back(bytes);
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  auto tree = tree::LoadTree(view->get(), [&progress](uint64_t nodes, uint64_t nodes_total) {
    progress.Note(nodes, nodes_total);
  });
  if (!tree.ok()) return tree.status();
  spdlog::info("checkpoint of zxid 0x{:x}: {} znodes and {} sessions, loaded in {} ms",
               metadata->zxid.value(), (*tree)->node_count(), (*tree)->session_count(),
               progress.ms());
  replicated_->Replace(*std::move(tree), meta->term, events);
  return absl::OkStatus();
}

std::optional<SnapshotMeta> TreeCheckpoints::newest() const {
  const std::optional<RecordStore::Metadata> metadata = store_->newest();
  if (!metadata.has_value()) return std::nullopt;
  auto meta = DecodeCheckpointMetadata(*metadata);
  ASSERT(meta.ok(), "it was decoded when it was loaded, or encoded here");
  return *std::move(meta);
}

// --- Taking a checkpoint -------------------------------------------------------------------------

void TreeCheckpoints::Begin(const SnapshotMeta& meta) {
  const bool has_free_space = !needs_space() && !is_short_of_space_.load(std::memory_order_relaxed);
  GuardedTree::WriteGuard tree = replicated_->guarded_tree().Write();
  ASSERT(tree->last_zxid() == ZxidOf(meta.index));
  tree->BeginDelta();
  delta_metadata_ = MakeCheckpointMetadata(meta, tree->digest());
  events_ = has_free_space ? replicated_->TakeRecentEvents() : nullptr;
}

absl::Status TreeCheckpoints::Finish() {
  absl::Status status = WriteDelta();
  if (absl::IsResourceExhausted(status)) {
    spdlog::error("no checkpoint could be written: {}; it is tried again",
                  std::string(status.message()));
    if (absl::Status s = GiveBallastUp(); !s.ok()) status = s;
  }
  needs_space_.store(!status.ok(), std::memory_order_relaxed);
  EndDelta(status.ok());
  sent_.CloseIdle();
  return status;
}

void TreeCheckpoints::EndDelta(bool durable) {
  for (bool more = true; more;) {
    more = replicated_->guarded_tree().ReadDelta().EndDelta(durable, kPieceBytes);
  }
}

absl::Status TreeCheckpoints::GiveBallastUp() {
  if (ballast_ == nullptr) return absl::OkStatus();
  // This is set before, so that Replica::MakeBallast does not make the file again.
  needs_space_.store(true, std::memory_order_relaxed);
  const absl::StatusOr<bool> given_up = ballast_->GiveUp();
  if (given_up.value_or(false))
    spdlog::warn(
        "the ballast file of the checkpoints is removed for that, and made again when there is "
        "free space");
  return given_up.status();
}

absl::Status TreeCheckpoints::WriteDelta() {
  const auto start = clock_->Now();
  size_t records_written = 0;
  size_t bytes_written = 0;
  Piece piece;
  for (bool more = true; more;) {
    piece.Clear();
    more = replicated_->guarded_tree().ReadDelta().NextDeltaRecords(
        kPieceBytes, [&](std::string_view key, std::optional<std::string_view> value) {
          piece.Add(key, value);
        });
    if (absl::Status s = piece.WriteTo(store_); !s.ok()) return s;
    bytes_written += piece.bytes();
    records_written += piece.records();
  }
  std::map<uint64_t, size_t> event_parts;
  if (absl::Status s = WriteEvents(&event_parts); !s.ok()) return s;
  if (absl::Status s = store_->Commit(delta_metadata_); !s.ok()) return s;
  event_parts_ = std::move(event_parts);
  spdlog::info("checkpoint of zxid 0x{:x}: {} records changed, {} KiB, written in {} ms",
               delta_metadata_.zxid.value(), records_written, (bytes_written + 1023) / 1024,
               MsSince(start));
  MutexLock lock(&times_mutex_);
  times_.Add(MsSince(start));
  written_ms_ = clock_->WallMs();
  return absl::OkStatus();
}

absl::Status TreeCheckpoints::WriteEvents(std::map<uint64_t, size_t>* written) {
  const std::shared_ptr<const RecentEvents> events = std::move(events_);
  if (events != nullptr) {
    const std::vector<RecentEvents::Part> parts = events->parts();
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto [number, bytes] = parts[i];
      written->emplace(number, bytes);
      const auto there = event_parts_.find(number);
      if (there != event_parts_.end() && there->second == bytes) continue;
      if (absl::Status s = store_->WriteEvents(number, events->Encode(i)); !s.ok()) return s;
    }
  }
  for (const auto& [number, bytes] : event_parts_) {
    if (written->contains(number)) continue;
    if (absl::Status s = store_->WriteEvents(number, std::nullopt); !s.ok()) return s;
  }
  return absl::OkStatus();
}

TimeSummary TreeCheckpoints::times() const {
  MutexLock lock(&times_mutex_);
  return times_;
}

int64_t TreeCheckpoints::written_ms() const {
  MutexLock lock(&times_mutex_);
  return written_ms_;
}

// --- Sending a checkpoint ------------------------------------------------------------------------

absl::StatusOr<CheckpointView> TreeCheckpoints::OpenView() const {
  auto view = store_->OpenView();
  if (!view.ok()) return view.status();
  // The metadata is taken from the view, because a newer checkpoint may have been committed
  // meanwhile.
  auto meta = DecodeCheckpointMetadata((*view)->metadata());
  if (!meta.ok()) return meta.status();
  return CheckpointView{*std::move(meta), *std::move(view)};
}

absl::StatusOr<SnapshotChunkData> TreeCheckpoints::Read(Index index, uint64_t offset,
                                                        size_t bytes_max) {
  return sent_.Read(index, offset, bytes_max);
}

// --- Receiving a checkpoint ----------------------------------------------------------------------

absl::StatusOr<uint64_t> TreeCheckpoints::Stage(const SnapshotMeta& meta, uint64_t offset,
                                                std::string_view bytes, bool last) {
  if (offset == 0) {
    if (bytes.size() < kSentHeaderBytes || static_cast<uint8_t>(bytes.front()) != kSentFormat) {
      return absl::InvalidArgumentError("a snapshot of an unknown format");
    }
    staging_ = std::make_unique<Staging>();
    staging_->meta = meta;
    staging_->digest = LoadInt<std::endian::little, uint64_t>(bytes.data() + 1);
    if (absl::Status s = store_->BeginStaging(); !s.ok()) return s;
  }
  if (staging_ == nullptr || staging_->tree != nullptr || staging_->meta != meta ||
      staging_->next_offset != offset) {
    return absl::InvalidArgumentError("a chunk that does not follow the one before");
  }
  absl::Status status = StageRecords(offset == 0 ? bytes.substr(kSentHeaderBytes) : bytes);
  if (status.ok() && last) status = FinishStaging();
  if (!status.ok()) {
    spdlog::error("snapshot could not be kept zxid=0x{:x} reason=\"{}\"; it is sent again later",
                  meta.index.value(), std::string(status.message()));
    staging_.reset();
    staged_bytes_.store(0, std::memory_order_relaxed);
    // The staged records are discarded because they may take the space that is missing.
    if (absl::Status s = store_->DiscardStaged(); !s.ok()) return s;
    return status;
  }
  staging_->next_offset += bytes.size();
  staged_bytes_.store(staging_->next_offset, std::memory_order_relaxed);
  return staging_->next_offset;
}

absl::Status TreeCheckpoints::StageRecords(std::string_view bytes) {
  return ForEachRecordIn(bytes, [this](std::string_view key, std::string_view value) {
    if (absl::Status s = staging_->loader.Add(key, value); !s.ok()) return s;
    return store_->Stage(key, value);
  });
}

absl::Status TreeCheckpoints::FinishStaging() {
  const tree::Zxid zxid = ZxidOf(staging_->meta.index);
  auto tree = staging_->loader.Finish(zxid, staging_->digest);
  if (!tree.ok()) return tree.status();
  staging_->tree = *std::move(tree);
  return store_->FinishStaging(MakeCheckpointMetadata(staging_->meta, staging_->digest));
}

absl::Status TreeCheckpoints::DiscardStaged() {
  if (staging_ != nullptr) {
    spdlog::info("snapshot is given up before it was whole zxid=0x{:x} bytes={}",
                 staging_->meta.index.value(), staging_->next_offset);
  }
  staging_.reset();
  staged_bytes_.store(0, std::memory_order_relaxed);
  return store_->DiscardStaged();
}

absl::Status TreeCheckpoints::Install(const SnapshotMeta& meta) {
  ASSERT(staging_ != nullptr);
  ASSERT(staging_->tree != nullptr, "it was staged completely");
  ASSERT(staging_->meta == meta);
  if (absl::Status s = store_->ReplaceByStaged(); !s.ok()) return s;
  event_parts_.clear();
  spdlog::info("snapshot of zxid 0x{:x} from the leader: {} znodes and {} sessions",
               meta.index.value(), staging_->tree->node_count(), staging_->tree->session_count());
  replicated_->Replace(std::move(staging_->tree), meta.term);
  staging_.reset();
  staged_bytes_.store(0, std::memory_order_relaxed);
  return absl::OkStatus();
}

}  // namespace quorate::rpc
