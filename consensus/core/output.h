// The work that a Raft object hands to its driver. Raft has no other effects.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "consensus/core/message.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

// Committed entries first..last, in order and without gaps from one ApplyRange to the next.
struct ApplyRange {
  Index first;
  Index last;
  // first..last, or empty: then they are to be read from the log (they are durable there).
  std::vector<Entry> entries;
};

// A follower needs entries that are no longer in memory: read entries from `first` on, at most up
// to `last` and about `bytes_max` bytes but at least one, and hand them to Raft::LogRead.
struct LogReadRequest {
  MemberId follower;
  Index first;
  Index last;
  size_t bytes_max = 0;
};

// A follower needs a checkpoint: read the one of `index` (0: the newest) from `offset` on, about
// `bytes_max` bytes, and hand them to Raft::SnapshotRead; or call Raft::SnapshotReadFailed if there
// is no such checkpoint (any more).
struct SnapshotReadRequest {
  MemberId follower;
  Index index;
  uint64_t offset = 0;
  size_t bytes_max = 0;
};

// Part of a snapshot that the leader sends: keep it (CheckpointStore::Stage), then call
// Raft::SnapshotWritten or SnapshotWriteFailed. Offset 0 discards what was staged before.
struct SnapshotWriteRequest {
  SnapshotMeta meta;
  uint64_t offset = 0;
  Slice bytes;
  bool last = false;
};

// `follower` could not keep the checkpoint of `index` that this member sent it.
struct SnapshotRejection {
  MemberId follower;
  Index index;
  std::string reason;
};

// A read may be served once the state machine has applied `index`; `ok` is false if leadership
// could not be confirmed (no leader, or it changed): ask again with a new request id.
struct ReadResult {
  uint64_t request_id = 0;
  bool ok = false;
  Index index;
};

// The state of a member and of its cluster, as far as this member knows it.
struct Status {
  Role role = Role::kFollower;
  Term term;
  MemberId leader;                  // kNoMember if unknown
  bool leader_established = false;  // this member leads and its own first entry is committed
  MemberState member_state = MemberState::kNormal;
  // The cluster version: the newest that is committed.
  uint32_t version = kVersionBase;
  // This member is not in the newest committed membership that it knows, and that is not the
  // membership of the bootstrap. It may be true for a while at a member that is being added or
  // catches up.
  bool removed = false;
  // If not 0: the entries that this member had acknowledged and its log lacks (data_loss.cc).
  Index lost_first;
  Index lost_last;
  // If not 0: a majority knows a later data directory of this member, and said so again each time
  // it was asked. The driver ends the process, because only one server may have this number.
  uint64_t later_directory_epoch = 0;
  // The member that refuses this new directory, because an older one is connected and answers.
  MemberId refused_by;
  // A member that was started with another membership, `other_configured`, while neither of the two
  // has a membership in its log.
  MemberId differs_from;
  Membership other_configured = {};
  // If not 0: the version of an entry in the log that this program does not understand. That entry
  // and those after it are not applied.
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
//  5. `discard_staging` comes first: what was staged is given up, in memory and on disk. Then
//     `snapshot_writes` are staged, in order; call Raft::SnapshotWritten after each.
//  6. `install`: the snapshot is staged completely. After everything that was handed out before is
//     persisted and applied, replace the state machine by it (durably), then reset the log so that
//     it begins after install->index, then call Raft::SnapshotInstalled. Until then no batch to
//     persist and no range to apply is given out.
//  7. `compact_to`: the driver may drop entries up to it from the log, at any later time. New
//     requests do not ask for them; requests made before may be left without an answer.
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
  // To be logged.
  std::vector<SnapshotRejection> snapshot_rejections;
  // The driver should take a checkpoint at or after this index when it can, because the newest one
  // did not arrive at a follower as it should.
  std::optional<Index> checkpoint_wanted;
  // The newest membership in the log, committed or not: set when it has changed, and in the first
  // Output.
  std::optional<Membership> membership;
  std::optional<Status> status;  // set when it differs from the one before
};

std::string ToString(const ApplyRange& range);
std::string ToString(const LogReadRequest& request);
std::string ToString(const SnapshotReadRequest& request);
std::string ToString(const SnapshotWriteRequest& request);
std::string ToString(const SnapshotRejection& rejection);
std::string ToString(const ReadResult& result);
std::string ToString(const Status& status);
// Several lines, one for each part that is not empty.
std::string ToString(const Output& output);

}  // namespace quorate::consensus
