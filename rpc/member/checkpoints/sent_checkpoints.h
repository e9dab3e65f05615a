// SPDX-License-Identifier: Apache-2.0

// The checkpoints that are being sent to other members as snapshots. Each is kept open as it was
// when its first receiver began, and is read by any number of receivers, each at its own offset.
//
// A checkpoint is one run of bytes, the same at all members for the same index:
//   u8 format (1), u64 digest, then the records in key order: u32 and u32 lengths, key, value.
// A chunk holds whole records. Each receiver's chunks are read in order, and receivers at the same
// offset share them. For an offset at which no reader is, a new reader seeks to the nearest
// recorded place before the offset, and skips the records between them.
//
// Receivers that begin at about the same time are sent the same checkpoint. At most
// kSentCheckpointsMax checkpoints are open: while all are in use, a new receiver is sent the newest
// of them. A checkpoint that was not read for a while is closed, because its disk space cannot be
// freed while it is open.
//
// Thread-safety: Read is called from one thread, CloseIdle from any.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "consensus/core/state_machine.h"
#include "tree/store/record_store.h"

namespace quorate::rpc {

inline constexpr uint8_t kSentFormat = 1;
inline constexpr size_t kSentHeaderBytes = 1 + sizeof(uint64_t);
inline constexpr size_t kSentCheckpointsMax = 4;
// Receivers that begin within this time of the first share its checkpoint.
inline constexpr std::chrono::seconds kSentShareTime{1};
// A checkpoint that was not read for kSentIdleTime may be closed to open another one; after
// kSentCloseTime it is closed in any case.
inline constexpr std::chrono::seconds kSentIdleTime{10};
inline constexpr std::chrono::seconds kSentCloseTime{60};
// The most bytes that one call reads to find an offset.
inline constexpr size_t kSentSearchBytes = 16u << 20;

class SentCheckpoints {
 public:
  // Both must outlive the object.
  SentCheckpoints(const tree::RecordStore* store, const Clock* clock)
      : store_(store), clock_(clock) {}

  // As consensus::CheckpointStore::Read.
  absl::StatusOr<consensus::SnapshotChunkData> Read(consensus::Index index, uint64_t offset,
                                                    size_t bytes_max);
  // Closes the checkpoints that were not read for kSentCloseTime.
  void CloseIdle();

  // Return how many checkpoints are open, and how many readers all of them have.
  size_t open_count() const;
  size_t reader_count() const;
  // Returns the number of bytes that were read only to find an offset.
  uint64_t searched_bytes() const;

 private:
  // A remembered offset, and the key of the record that ends there; empty at the beginning of the
  // records.
  struct Place {
    uint64_t offset = 0;
    std::string key;
  };
  struct Reader {
    std::unique_ptr<tree::RecordStore::View> view;
    uint64_t next_offset = 0;
    std::string last_key;
    consensus::SnapshotChunkData last_chunk;  // for other receivers, and a repeated request
  };
  struct Checkpoint {
    consensus::SnapshotMeta meta;
    std::unique_ptr<tree::RecordStore::View> view;  // the readers' views are opened from it
    std::vector<Place> places;                      // ascending, at least kPlaceBytes apart
    std::list<Reader> readers;                      // the last used one first
    std::optional<uint64_t> end;                    // set once a reader has reached it
    std::chrono::steady_clock::time_point opened;
    std::chrono::steady_clock::time_point used;
  };
  using Checkpoints = std::list<Checkpoint>;

  void CloseIdleFor(std::chrono::seconds time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the checkpoint to send to a receiver that begins.
  absl::StatusOr<Checkpoint*> Choose() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Checkpoint*> Find(consensus::Index index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Opens the newest checkpoint of the store, unless it is open already. Closes idle ones for it if
  // there are too many.
  absl::StatusOr<Checkpoint*> OpenNewest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns a reader that is at `offset`, or whose last chunk begins there. Unavailable if the
  // search for the offset is not finished; the caller tries again.
  absl::StatusOr<Reader*> ReaderAt(uint64_t offset, Checkpoint* checkpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Reader*> OpenReader(uint64_t offset, Checkpoint* checkpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Advances `reader`, without keeping the records, until it is at or after `offset`, or has read
  // kSentSearchBytes.
  absl::Status Search(uint64_t offset, Checkpoint* checkpoint, Reader* reader)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static absl::Status ReadChunk(size_t bytes_max, Checkpoint* checkpoint, Reader* reader);
  // Remembers the reader's offset as a place if it is far enough from the last one.
  static void RecordPlace(bool is_end, Checkpoint* checkpoint, const Reader& reader);

  const tree::RecordStore* const store_;
  const Clock* const clock_;
  mutable Mutex mutex_;
  Checkpoints checkpoints_ ABSL_GUARDED_BY(mutex_);
  uint64_t searched_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace quorate::rpc
