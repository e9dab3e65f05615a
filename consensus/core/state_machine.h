// The interfaces through which consensus drives whatever it replicates.
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

  // Applies committed entries, contiguous from the last call, or from the installed snapshot. All
  // kinds are included, for their indexes count. Must be deterministic in what it replicates.
  // `entries` is not empty.
  virtual void Apply(std::span<const Entry> entries) = 0;
  // The same, if it need not wait for anybody; else does nothing and returns false.
  virtual bool TryApply(std::span<const Entry> entries) = 0;
};

// A part of a snapshot's bytes.
struct SnapshotChunkData {
  SnapshotMeta meta;
  uint64_t offset = 0;
  Slice bytes;
  bool last = false;
};

// Durable checkpoints of the state machine. The newest one is what a restart begins from.
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
  // Makes that checkpoint the newest durable one. ResourceExhausted if the disk is full: then the
  // one before is the newest still, what the checkpoint held is part of the next one, and that can
  // be begun.
  virtual absl::Status Finish() = 0;

  // Bytes of the checkpoint of `index` from `offset` on, about bytes_max. 0: of the newest, or of
  // one that others are reading; it is kept readable while it is being read. NotFound if there is
  // no such checkpoint any more: begin again with index 0 and offset 0. Unavailable if the place is
  // still being looked for: ask again when all else is done.
  virtual absl::StatusOr<SnapshotChunkData> Read(Index index, uint64_t offset,
                                                 size_t bytes_max) = 0;

  // Keeps a chunk of a snapshot that is being received; offset 0 starts again and forgets what was
  // there. The last one is checked and made durable with all before it. Returns the offset of the
  // next chunk. InvalidArgument if it does not follow on the one before, DataLoss if what was sent
  // is damaged, ResourceExhausted if the disk is full; nothing is staged then.
  virtual absl::StatusOr<uint64_t> Stage(const SnapshotMeta& meta, uint64_t offset,
                                         std::string_view bytes, bool last) = 0;
  // Gives up what is staged, in memory and on disk.
  virtual absl::Status DiscardStaged() = 0;
  // Replaces the state machine by the staged snapshot and makes it the newest checkpoint,
  // atomically with respect to crashes.
  virtual absl::Status Install(const SnapshotMeta& meta) = 0;
};

}  // namespace quorate::consensus
