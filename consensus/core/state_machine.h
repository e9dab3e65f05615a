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

// Called by one thread at a time, in log order, each entry exactly once.
class StateMachine {
 public:
  virtual ~StateMachine() = default;

  // Applies committed entries, which follow without a gap on the last call or on the installed
  // snapshot. Entries of all kinds are included, because every index counts. The replicated state
  // must depend on the entries alone. `entries` is not empty.
  virtual void Apply(std::span<const Entry> entries) = 0;
  // Applies the entries and returns true if it can do so without waiting for another thread; else
  // does nothing and returns false.
  virtual bool TryApply(std::span<const Entry> entries) = 0;
};

// A part of a snapshot's bytes.
struct SnapshotChunkData {
  SnapshotMeta meta;
  uint64_t offset = 0;
  Slice bytes;
  bool last = false;
};

// Durable checkpoints of the state machine. A restart begins from the newest one.
//
// Thread-safety: Begin and Install from the apply thread; Finish, Stage and DiscardStaged from the
// checkpoint thread; Read from the read thread; newest from any.
class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;

  // The newest durable checkpoint; nullopt if there is none.
  virtual std::optional<SnapshotMeta> newest() const = 0;

  // Takes a checkpoint of the state machine as it is now: meta.index is what it has applied. Cheap;
  // nothing is durable yet. REQUIRES: no checkpoint is unfinished.
  virtual void Begin(const SnapshotMeta& meta) = 0;
  // Makes the checkpoint that was begun the newest durable one. ResourceExhausted if the disk is
  // full: then the previous checkpoint remains the newest, and Begin may be called again; the next
  // checkpoint includes what this one held.
  virtual absl::Status Finish() = 0;

  // Returns about bytes_max bytes of the checkpoint of `index`, from `offset` on. Index 0 means the
  // newest checkpoint, or one that is being read for another follower. A checkpoint stays readable
  // while it is being read. NotFound if there is no such checkpoint any more: begin again with
  // index 0 and offset 0. Unavailable if the position of `offset` is still being searched: call
  // again after all other work.
  virtual absl::StatusOr<SnapshotChunkData> Read(Index index, uint64_t offset,
                                                 size_t bytes_max) = 0;

  // Stages a chunk of a snapshot that is being received; offset 0 starts again and discards what
  // was staged before. With the last chunk the whole snapshot is checked and made durable. Returns
  // the offset of the next chunk. After an error nothing is staged: InvalidArgument if the chunk
  // does not follow the one before, DataLoss if the snapshot is damaged, ResourceExhausted if the
  // disk is full.
  virtual absl::StatusOr<uint64_t> Stage(const SnapshotMeta& meta, uint64_t offset,
                                         std::string_view bytes, bool last) = 0;
  // Discards the staged snapshot, in memory and on disk.
  virtual absl::Status DiscardStaged() = 0;
  // Replaces the state machine by the staged snapshot and makes it the newest checkpoint,
  // atomically with respect to crashes.
  virtual absl::Status Install(const SnapshotMeta& meta) = 0;
};

}  // namespace quorate::consensus
