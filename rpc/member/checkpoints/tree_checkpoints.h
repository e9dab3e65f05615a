// SPDX-License-Identifier: Apache-2.0

// The checkpoints of a replica's tree: implements consensus::CheckpointStore by the checkpoint
// deltas of the tree and the store that keeps their records.
//
// A checkpoint is written from a delta in pieces. Each piece is read under the read side of the
// tree's lock, so that applying waits for one piece at most, and reads do not wait. The delta is
// also ended in pieces, whether the checkpoint is durable or failed. The recent events of the front
// ends are stored with the checkpoint. A stored part does not change, so a checkpoint writes only
// the parts that the one before it does not have.
//
// The format of a snapshot is described in sent_checkpoints.h. A received chunk is staged in the
// store and loaded into a new tree at once, so that the snapshot is checked, including its digest,
// before it replaces anything.
//
// Thread-safety: as consensus::CheckpointStore.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/slice.h"
#include "consensus/core/state_machine.h"
#include "consensus/log/ballast_file.h"
#include "rpc/frontend/administration.h"
#include "rpc/frontend/service.h"
#include "rpc/member/checkpoints/replicated_tree.h"
#include "rpc/member/checkpoints/sent_checkpoints.h"
#include "tree/snapshot.h"
#include "tree/store/record_store.h"

namespace quorate::rpc {

class TreeCheckpoints : public consensus::CheckpointStore {
 public:
  // All pointers must outlive the object. `clock` measures durations for the log. `ballast` may be
  // null. If a checkpoint finds no free space, the ballast file is removed, so that the next
  // attempt has its space.
  TreeCheckpoints(tree::RecordStore* store, ReplicatedTree* replicated, const Clock* clock,
                  consensus::BallastFile* ballast = nullptr);

  // Replaces the tree by the newest checkpoint, if there is one. REQUIRES: nothing was applied yet.
  // Errors: DataLoss, with the reason, if it is damaged; errors of reading it.
  absl::Status Load();

  std::optional<consensus::SnapshotMeta> newest() const override;
  void Begin(const consensus::SnapshotMeta& meta) override;
  absl::Status Finish() override;
  absl::StatusOr<consensus::SnapshotChunkData> Read(consensus::Index index, uint64_t offset,
                                                    size_t bytes_max) override;
  absl::StatusOr<uint64_t> Stage(const consensus::SnapshotMeta& meta, uint64_t offset,
                                 std::string_view bytes, bool last) override;
  absl::Status DiscardStaged() override;
  absl::Status Install(const consensus::SnapshotMeta& meta) override;

  // Returns the newest checkpoint, for a backup. From any thread. FailedPrecondition if there is
  // none.
  absl::StatusOr<CheckpointView> OpenView() const;

  // Returns the checkpoints that are being sent.
  const SentCheckpoints& sent() const { return sent_; }

  // Sets whether checkpoints are written without events, to be as small as possible. That is needed
  // while disks are full and each checkpoint has to free more space than it takes. From any thread.
  void SetIsShortOfSpace(bool is_short) {
    is_short_of_space_.store(is_short, std::memory_order_relaxed);
  }

  // Returns whether the last checkpoint failed, as it does without free space. Then the ballast
  // file is not made again, so that the next checkpoint can use the free space. From any thread.
  bool needs_space() const { return needs_space_.load(std::memory_order_relaxed); }

  // Returns the bytes received of a snapshot that is not installed yet; 0: there is none. From any
  // thread.
  uint64_t staged_bytes() const { return staged_bytes_.load(std::memory_order_relaxed); }

  // Returns how long it took to write checkpoints. From any thread.
  TimeSummary times() const;
  // Returns the wall time in milliseconds at which this process wrote the last checkpoint; -1 if it
  // has written none. From any thread.
  int64_t written_ms() const;

 private:
  // A snapshot that is being received.
  struct Staging {
    consensus::SnapshotMeta meta;
    uint64_t next_offset = 0;
    uint64_t digest = 0;
    tree::TreeLoader loader;
    std::unique_ptr<tree::Tree> tree;  // set once the snapshot is complete
  };

  int64_t MsSince(std::chrono::steady_clock::time_point start) const;
  // Writes and commits all records of the delta.
  absl::Status WriteDelta();
  // Writes the parts of events_ that are not stored with the newest checkpoint, and removes stored
  // parts that events_ does not have. Sets `*written` to the parts that the next checkpoint has,
  // and their sizes.
  absl::Status WriteEvents(std::map<uint64_t, size_t>* written);
  void EndDelta(bool durable);
  absl::Status GiveBallastUp();
  absl::Status StageRecords(std::string_view bytes);
  absl::Status FinishStaging();

  tree::RecordStore* const store_;
  ReplicatedTree* const replicated_;
  const Clock* const clock_;
  consensus::BallastFile* const ballast_;
  std::atomic<bool> needs_space_{false};
  std::atomic<bool> is_short_of_space_{false};
  tree::RecordStore::Metadata delta_metadata_;  // of the delta that Begin took
  std::shared_ptr<const RecentEvents> events_;  // taken with the delta; null: none are stored
  // The parts stored with the newest checkpoint, and their sizes; a size of 0 is not known yet.
  std::map<uint64_t, size_t> event_parts_;
  SentCheckpoints sent_;
  std::unique_ptr<Staging> staging_;
  std::atomic<uint64_t> staged_bytes_{0};

  mutable Mutex times_mutex_;
  TimeSummary times_ ABSL_GUARDED_BY(times_mutex_);
  int64_t written_ms_ ABSL_GUARDED_BY(times_mutex_) = -1;
};

}  // namespace quorate::rpc
