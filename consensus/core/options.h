// SPDX-License-Identifier: Apache-2.0

// The configuration of a Raft object, and its source of randomness.
//
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

// The source of randomness for election timeouts.
class RandomSource {
 public:
  virtual ~RandomSource() = default;
  // Returns any 64 bits.
  virtual uint64_t Next() = 0;
};

struct RaftOptions {
  MemberId self;  // does not have to be in `membership`
  // The membership for the bootstrap of the cluster. It has an effect only while neither checkpoint
  // nor log has a membership. It is the same at each start of a directory whose member is kNormal
  // (DataDir::SettleMembership).
  Membership membership;
  // The epoch of this member's data directory: kFirstDirectoryEpoch if the directory is new, later
  // the last Output::directory_epoch.
  uint64_t directory_epoch = kFirstDirectoryEpoch;
  // The newest version that this program understands.
  uint32_t version = kVersionNewest;
  // A member starts an election when it has heard from no leader for a random number of ticks in
  // [election_ticks, 2 * election_ticks). A leader that does not hear from a quorum for
  // election_ticks steps down.
  int election_ticks = 20;
  // The ticks between two heartbeats. REQUIRES: 0 < heartbeat_ticks < election_ticks.
  int heartbeat_ticks = 4;
  // The payload of the no-op that a leader with an empty log appends at index 1.
  std::string cluster_id_if_new;
  // Whether this member feeds observers while it follows (raft_feeding.cc).
  bool feeds_observers = false;
  // The number of entries before a checkpoint that the log keeps, for followers that lag a little.
  uint64_t trailing_entries = 5000;
  // The most entries, and the most bytes of entries, before a checkpoint that a leader keeps for a
  // follower that needs them. The follower must have been heard from in the last retained_ticks_max
  // ticks (0: 400 times election_ticks). A member that does not lead keeps as much, back to its
  // previous checkpoint, for the followers that it may have later.
  uint64_t retained_entries_max = 1'000'000;
  uint64_t retained_bytes_max;
  int retained_ticks_max = 0;
  // The most bytes of the log before a checkpoint that a leader keeps for a follower that receives
  // a snapshot, or catches up after one. The leader stops keeping them when the follower has made
  // no progress for snapshot_stall_ticks (0: 100 times election_ticks). A receiver discards its
  // staged chunks if no chunk arrives for the same time.
  uint64_t transfer_bytes_max;
  int snapshot_stall_ticks = 0;
  // A compaction removes at least this many entries.
  uint64_t compaction_step_entries = 1000;
  // The most bytes of one SnapshotChunk, of all chunks in flight to one follower, and of all chunks
  // sent between two ticks. The last one is only the initial value: the rate adapts (snapshot.cc).
  size_t snapshot_chunk_bytes = 256u << 10;
  size_t snapshot_window_bytes_max;
  size_t snapshot_bytes_per_tick = 1u << 20;
  // A leader whose oldest write is not durable after this many ticks hands leadership over (0: ten
  // times election_ticks).
  int disk_stall_ticks = 0;
  // Bounds. limits.h explains them. Tests and the simulation make them tiny.
  size_t append_bytes_max;
  size_t inflight_messages_max;
  size_t inflight_bytes_max;
  size_t uncommitted_bytes_max;
  size_t cached_bytes_max;
  size_t apply_bytes_max;
  // A batch that is written for another reason includes the commit hint if the commit index has
  // grown by this many entries since the last hint. A batch with a new term or vote always includes
  // it. It is not included more often because a hard state may cost the storage an extra sync.
  size_t commit_hint_entries = 4096;

  RaftOptions();  // the values of limits.h
  // Returns InvalidArgument, naming the field, if a value or a relation between values is not
  // allowed.
  absl::Status Validate() const;
};

}  // namespace quorate::consensus
