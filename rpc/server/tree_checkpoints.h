// The checkpoints of a replica's tree: joins the checkpoint deltas of the tree, the store
// that keeps their records, and what consensus wants of both.
//
// A checkpoint is written from a delta in pieces, under the read side of the tree's lock: apply
// waits for a piece at most, and reads for nothing. The delta ends in the same way, whether the
// checkpoint is durable or failed. The recent events of the front ends are beside it: their parts
// do not change, so that only those are written which the checkpoint before has not.
//
// A snapshot as followers get it is described in sent_checkpoints.h. What is received goes to the
// store and into a new tree at once, so that it is checked, by the digest too, before it replaces
// anything.
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
#include "rpc/server/administration.h"
#include "rpc/server/replicated_tree.h"
#include "rpc/server/sent_checkpoints.h"
#include "rpc/server/service.h"
#include "tree/snapshot.h"
#include "tree/store/record_store.h"

namespace quorate::rpc {

class TreeCheckpoints : public consensus::CheckpointStore {
 public:
  // All must outlive the object. `clock` is for what it logs. `ballast` may be null: it is given up
  // when a checkpoint finds no free space, so that the next attempt has it.
  TreeCheckpoints(tree::RecordStore* store, ReplicatedTree* replicated, const Clock* clock,
                  consensus::BallastFile* ballast = nullptr);

  // Puts the newest checkpoint, if there is one, in the place of the tree. Before anything is
  // applied. Errors: DataLoss if it is damaged, naming what is wrong; of reading.
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

  // The newest checkpoint, for a backup. From any thread. FailedPrecondition if there is none.
  absl::StatusOr<CheckpointView> OpenView() const;

  // Those that are being sent.
  const SentCheckpoints& sent() const { return sent_; }

  // Whether checkpoints are to be as small as they can be, without events: disks are full, and each
  // has to let go of more than it takes. From any thread.
  void SetIsShortOfSpace(bool is_short) {
    is_short_of_space_.store(is_short, std::memory_order_relaxed);
  }

  // Whether the last one found no free space, so that what is free is for the next one. From any
  // thread.
  bool needs_space() const { return needs_space_.load(std::memory_order_relaxed); }

  // Bytes received of a snapshot that is not installed yet; 0: there is none. From any thread.
  uint64_t staged_bytes() const { return staged_bytes_.load(std::memory_order_relaxed); }

  // How long it took to write checkpoints. From any thread.
  TimeSummary times() const;

 private:
  // A snapshot that is being received.
  struct Staging {
    consensus::SnapshotMeta meta;
    uint64_t next_offset = 0;
    uint64_t digest = 0;
    tree::TreeLoader loader;
    std::unique_ptr<tree::Tree> tree;  // whole
  };

  int64_t MsSince(std::chrono::steady_clock::time_point start) const;
  // Writes and commits all records of the delta.
  absl::Status WriteDelta();
  // Writes the parts of events_ that are not beside the newest checkpoint, and removes those there
  // that it has not. `*written` becomes what is there with the next one.
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
  tree::RecordStore::Metadata delta_metadata_;  // that Begin took
  std::shared_ptr<const RecentEvents> events_;  // with it; null: none are to be kept
  // The parts beside the newest checkpoint, and what is in each of them; 0: not known, after a
  // start.
  std::map<uint64_t, size_t> event_parts_;
  SentCheckpoints sent_;
  std::unique_ptr<Staging> staging_;
  std::atomic<uint64_t> staged_bytes_{0};

  mutable Mutex times_mutex_;
  TimeSummary times_ ABSL_GUARDED_BY(times_mutex_);
};

}  // namespace quorate::rpc
