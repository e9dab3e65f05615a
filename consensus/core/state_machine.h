// SPDX-License-Identifier: Apache-2.0

// The interfaces through which consensus drives the state machine that it replicates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

// The replicated state machine. One thread at a time calls it, in log order, with each entry
// exactly once.
class StateMachine {
 public:
  virtual ~StateMachine() = default;

  // Applies committed entries, which follow without a gap after those of the last call or after the
  // installed snapshot. Entries of all kinds are included, because every index counts. The
  // replicated state must depend on the entries alone. `entries` is not empty.
  virtual void Apply(std::span<const Entry> entries) = 0;
  // If it can apply the entries without waiting for another thread, applies them and returns true.
  // Otherwise does nothing and returns false.
  virtual bool TryApply(std::span<const Entry> entries) = 0;
};

// A part of the bytes of a snapshot.
struct SnapshotChunkData {
  SnapshotMeta meta;
  uint64_t offset = 0;
  Slice bytes;
  bool last = false;
};

// Durable checkpoints of the state machine. A restart begins with the newest one.
//
// Thread-safety: the apply thread calls Begin and Install; the checkpoint thread calls Finish,
// Stage and DiscardStaged; the read thread calls Read; any thread calls newest.
class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;

  // Returns the newest durable checkpoint; nullopt if there is none.
  virtual std::optional<SnapshotMeta> newest() const = 0;

  // Begins a checkpoint of the present state machine, which has applied entries up to meta.index.
  // It is cheap; nothing is durable yet. REQUIRES: no checkpoint is unfinished.
  virtual void Begin(const SnapshotMeta& meta) = 0;
  // Makes the checkpoint that was begun the newest durable one. Returns ResourceExhausted if the
  // disk is full: then the previous checkpoint remains the newest, and Begin may be called again.
  // The next checkpoint then includes the contents of this one.
  virtual absl::Status Finish() = 0;

  // Returns about bytes_max bytes of the checkpoint of `index`, from `offset` on. Index 0 means the
  // newest checkpoint, or one that is being read for another follower. A checkpoint can be read as
  // long as it is being read. Returns NotFound if the checkpoint does not exist any more: the
  // caller begins again with index 0 and offset 0. Returns Unavailable if the position of `offset`
  // is still being searched: the caller calls again after all other work.
  virtual absl::StatusOr<SnapshotChunkData> Read(Index index, uint64_t offset,
                                                 size_t bytes_max) = 0;

  // Stages a chunk of a snapshot that is being received. Offset 0 starts again and discards the
  // chunks that were staged before. With the last chunk, the whole snapshot is checked and made
  // durable. Returns the offset of the next chunk. After an error nothing is staged:
  // InvalidArgument if the chunk does not follow the previous one, DataLoss if the snapshot is
  // damaged, ResourceExhausted if the disk is full.
  virtual absl::StatusOr<uint64_t> Stage(const SnapshotMeta& meta, uint64_t offset,
                                         std::string_view bytes, bool last) = 0;
  // Discards the staged snapshot, in memory and on disk.
  virtual absl::Status DiscardStaged() = 0;
  // Replaces the state machine by the staged snapshot and makes it the newest checkpoint,
  // atomically with respect to crashes.
  virtual absl::Status Install(const SnapshotMeta& meta) = 0;
};

}  // namespace quorate::consensus
