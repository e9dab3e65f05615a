// Checkpoints on their way to other members: each is kept as it was when the first of its receivers
// began, and read by any number of them, each at its own place.
//
// A checkpoint is one run of bytes, the same at all members for the same index:
//   u8 format (1), u64 digest, then the records in key order: u32 and u32 lengths, key, value.
// A chunk holds whole records. Each receiver's chunks are read one after the other; those who are
// at the same place share what is read. Who comes to a place where nobody is begins at one nearby
// that is remembered, or, where no reader has been before, looks for it by reading up to there,
// once.
//
// Receivers of about the same time are sent the same checkpoint. There are kSentCheckpointsMax of
// them: while all are in use, who begins is sent the newest of those. The others are closed when
// they were not used for a while, for they keep the disk from being given back.
//
// Thread-safety: Read from one thread, CloseIdle from any.
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
// One that was not read for so long may be closed for another one, and is closed by CloseIdle.
inline constexpr std::chrono::seconds kSentIdleTime{10};
inline constexpr std::chrono::seconds kSentCloseTime{60};
// Of a checkpoint that one call reads at most to look for a place.
inline constexpr size_t kSentSearchBytes = 16u << 20;

class SentCheckpoints {
 public:
  // Both must outlive the object.
  SentCheckpoints(const tree::RecordStore* store, const Clock* clock)
      : store_(store), clock_(clock) {}

  // As consensus::CheckpointStore::Read.
  absl::StatusOr<consensus::SnapshotChunkData> Read(consensus::Index index, uint64_t offset,
                                                    size_t bytes_max);
  // Closes what was not read for kSentCloseTime.
  void CloseIdle();

  // How many are open, and how many readers of all of them.
  size_t open_count() const;
  size_t reader_count() const;
  // Bytes that were read only to find a place.
  uint64_t searched_bytes() const;

 private:
  // The record behind which the bytes go on at `offset`; none at the beginning of the records.
  struct Place {
    uint64_t offset = 0;
    std::string key;
  };
  struct Reader {
    std::unique_ptr<tree::RecordStore::View> view;
    uint64_t next_offset = 0;
    std::string last_key;
    consensus::SnapshotChunkData last_chunk;  // another receiver may want it, or the same again
  };
  struct Checkpoint {
    consensus::SnapshotMeta meta;
    std::unique_ptr<tree::RecordStore::View> view;  // of which the readers' are made
    std::vector<Place> places;                      // ascending, some way apart
    std::list<Reader> readers;                      // the last used first
    std::optional<uint64_t> end;                    // once somebody has read as far
    std::chrono::steady_clock::time_point opened;
    std::chrono::steady_clock::time_point used;
  };
  using Checkpoints = std::list<Checkpoint>;

  void CloseIdleFor(std::chrono::seconds time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For a receiver that begins.
  absl::StatusOr<Checkpoint*> Choose() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Checkpoint*> Find(consensus::Index index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The newest of the store; it may be open already. Closes one that is not in use for it.
  absl::StatusOr<Checkpoint*> OpenNewest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The reader that is at `offset`, or has just read from there. Unavailable if it is not there
  // yet.
  absl::StatusOr<Reader*> ReaderAt(uint64_t offset, Checkpoint* checkpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Reader*> OpenReader(uint64_t offset, Checkpoint* checkpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reads on, without keeping it, until the reader is at `offset` or behind it, or for a while.
  absl::Status Search(uint64_t offset, Checkpoint* checkpoint, Reader* reader)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static absl::Status ReadChunk(size_t bytes_max, Checkpoint* checkpoint, Reader* reader);
  // Remembers where the reader is.
  static void RecordPlace(bool is_end, Checkpoint* checkpoint, const Reader& reader);

  const tree::RecordStore* const store_;
  const Clock* const clock_;
  mutable Mutex mutex_;
  Checkpoints checkpoints_ ABSL_GUARDED_BY(mutex_);
  uint64_t searched_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace quorate::rpc
