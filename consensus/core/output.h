// SPDX-License-Identifier: Apache-2.0

// The work that a Raft object hands to its driver. Raft has no other side effects.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "consensus/core/message.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

// Committed entries first..last, in order. There are no gaps between one ApplyRange and the next.
struct ApplyRange {
  Index first;
  Index last;
  // The entries first..last. If empty, the driver reads them from the log, where they are durable.
  std::vector<Entry> entries;
};

// A follower needs entries that are no longer in memory. The driver reads entries from `first` on,
// at most up to `last` and about `bytes_max` bytes but at least one entry, and passes them to
// Raft::LogRead.
struct LogReadRequest {
  MemberId follower;
  Index first;
  Index last;
  size_t bytes_max = 0;
};

// A follower needs a checkpoint. The driver reads about `bytes_max` bytes of the checkpoint of
// `index` (0: the newest), from `offset` on, and passes them to Raft::SnapshotRead. If there is no
// such checkpoint (any more), it calls Raft::SnapshotReadFailed.
struct SnapshotReadRequest {
  MemberId follower;
  Index index;
  uint64_t offset = 0;
  size_t bytes_max = 0;
};

// A part of a snapshot that the leader sends. The driver stages it (CheckpointStore::Stage), and
// then calls Raft::SnapshotWritten or SnapshotWriteFailed. Offset 0 discards all chunks that were
// staged before.
struct SnapshotWriteRequest {
  SnapshotMeta meta;
  uint64_t offset = 0;
  Slice bytes;
  bool last = false;
};

// `follower` could not store the checkpoint of `index` that this member sent.
struct SnapshotRejection {
  MemberId follower;
  Index index;
  std::string reason;
};

// The answer to a read. If `ok`, the read may be served once the state machine has applied `index`.
// If not `ok`, leadership could not be confirmed (there is no leader, or it changed): the caller
// asks again with a new request id.
struct ReadResult {
  uint64_t request_id = 0;
  bool ok = false;
  Index index;
};

// The state of a member, and of its cluster as far as this member knows it.
struct Status {
  Role role = Role::kFollower;
  Term term;
  MemberId leader;                  // kNoMember if unknown
  bool leader_established = false;  // this member leads and has committed an entry of its term
  // The newest one that is durable: what the member would be after a restart.
  MemberState member_state = MemberState::kNormal;
  // The cluster version: the newest committed version.
  uint32_t version = kVersionBase;
  // True if the newest committed membership that this member knows does not include it, unless that
  // is the membership of the bootstrap. It may be true for a while at a member that is being added
  // or catches up.
  bool removed = false;
  // If not 0: the entries that this member had acknowledged and its log lacks (data_loss.cc).
  Index lost_first;
  Index lost_last;
  // If not 0: a majority knows a later data directory of this member, and has confirmed that each
  // time it was asked. The driver ends the process, because only one server may have this number.
  uint64_t later_directory_epoch = 0;
  // The member that refuses this new directory because an older directory is connected and answers.
  MemberId refused_by;
  // A member that was started with another membership, `other_configured`, while neither of the two
  // members has a membership in its log.
  MemberId differs_from;
  Membership other_configured = {};
  // If not 0: the version of an entry in the log that this program does not understand. That entry
  // and the entries after it are not applied.
  uint32_t version_needed = 0;
  friend bool operator==(const Status&, const Status&) = default;
};

// The contract of the driver:
//  1. If `persist_id` is set: make `directory_epoch` durable (if set), write `hard_state` (if set),
//     cut the log to `truncate_after` (if set: drop every entry above it), append `entries`, make
//     all of it durable, and only then send `messages_after_persist` and call
//     Raft::Persisted(*persist_id). Batches become durable in order of their ids; several may be
//     made durable by one sync.
//  2. `messages_now` may leave at once, before or during that write.
//  3. Messages may be lost, duplicated and reordered, but not altered.
//  4. Each `apply` range goes to the state machine in order; call Raft::Applied afterwards.
//  5. `discard_staging` comes first: the staged chunks are discarded, in memory and on disk. Then
//     `snapshot_writes` are staged, in order; call Raft::SnapshotWritten after each.
//  6. `install`: the snapshot is staged completely. When everything that was handed out before is
//     persisted and applied, replace the state machine by the snapshot (durably), then reset the
//     log so that it begins after install->index, then call Raft::SnapshotInstalled. Until then
//     Raft hands out no batch to persist and no range to apply.
//  7. `compact_to`: the driver may drop entries up to this index from the log, at any later time.
//     New requests do not ask for them; earlier requests may be left without an answer.
//  If `persist_id` is not set, hard_state, truncate_after, entries and messages_after_persist are
//  empty.
struct Output {
  std::optional<PersistId> persist_id;
  // The new epoch of the data directory (RaftOptions::directory_epoch at the next start).
  std::optional<uint64_t> directory_epoch;
  std::optional<HardState> hard_state;
  std::optional<Index> truncate_after;
  std::vector<Entry> entries;
  std::vector<Message> messages_after_persist;

  std::vector<Message> messages_now;
  std::optional<ApplyRange> apply;
  std::vector<LogReadRequest> log_reads;
  std::vector<ReadResult> reads;
  std::vector<SnapshotReadRequest> snapshot_reads;
  bool discard_staging = false;
  std::vector<SnapshotWriteRequest> snapshot_writes;
  std::optional<SnapshotMeta> install;
  std::optional<Index> compact_to;
  // Checkpoints that followers could not store, to be logged.
  std::vector<SnapshotRejection> snapshot_rejections;
  // If set, the driver should take a checkpoint at or after this index when it can, because a
  // follower could not store the newest one.
  std::optional<Index> checkpoint_wanted;
  // The newest membership in the log, committed or not. It is set when it has changed, and in the
  // first Output.
  std::optional<Membership> membership;
  std::optional<Status> status;  // set when it differs from the previous one
};

std::string ToString(const ApplyRange& range);
std::string ToString(const LogReadRequest& request);
std::string ToString(const SnapshotReadRequest& request);
std::string ToString(const SnapshotWriteRequest& request);
std::string ToString(const SnapshotRejection& rejection);
std::string ToString(const ReadResult& result);
std::string ToString(const Status& status);
// Returns several lines, one for each part that is not empty.
std::string ToString(const Output& output);

}  // namespace quorate::consensus
