// Compaction of the log behind checkpoints, and the transfer of a checkpoint to a follower that
// needs entries which are no longer there (paper 7, thesis 5).
//
// One chunk is under way to a follower at a time, outside of the window of its AppendRequests, and
// all followers share what may leave between two ticks: neither heartbeats nor the log wait for a
// snapshot. A chunk without an answer is sent again, and an answer says where to go on, so that
// loss, repetition and a restart of the follower cost no more than time.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "consensus/core/raft_impl.h"

namespace quorate::consensus {

using Phase = SnapshotTransfer::Phase;

// --- Compaction ----------------------------------------------------------------------------------

void Raft::Impl::Checkpointed(Index index) {
  ASSERT(index <= applied_, "a checkpoint is of what was applied");
  checkpoint_ = std::max(checkpoint_, index);
  Advance();
}

void Raft::Impl::Compact() {
  if (checkpoint_ <= base_index() || installing_) return;
  // As long as there may be members that do not understand snapshots, all of the log is kept.
  if (active_version() < kVersionMembership) return;
  auto behind_checkpoint = [this](uint64_t entries) {
    return checkpoint_ - std::min(entries, checkpoint_.value());
  };
  Index target = std::min(behind_checkpoint(options_.trailing_entries), durable_);
  auto* leader = std::get_if<LeaderRole>(&role_);
  if (leader != nullptr) {
    const Index floor = behind_checkpoint(options_.retained_entries_max);
    for (const Progress& progress : leader->followers) {
      if (progress.ticks_since_heard() >= options_.election_ticks) continue;
      Index needed = progress.match();
      // It goes on behind the snapshot.
      if (progress.state() == Progress::State::kSnapshot) {
        needed = std::max(needed, progress.transfer().index);
      }
      target = std::min(target, std::max(needed, floor));
    }
  }
  if (target < base_index() + options_.compaction_step_entries) return;
  terms_.CompactTo(target);
  memberships_.CompactTo(target);
  versions_.CompactTo(target);
  compact_to_ = target;
  if (leader == nullptr) return;
  for (Progress& progress : leader->followers) CheckSnapshotNeed(&progress);
}

void Raft::Impl::ResetLog(const SnapshotMeta& meta) {
  ASSERT(meta.index > commit_);
  terms_ = TermHistory(meta.index, meta.term, {}, meta.index);
  cache_ = EntryCache(meta.index);
  memberships_ = SettingHistory<Membership>(meta.index, meta.membership);
  versions_ = SettingHistory<uint32_t>(meta.index, meta.version);
  membership_changed_ = true;
  commit_ = durable_ = handed_ = applied_ = apply_handed_ = checkpoint_ = meta.index;
  applying_.clear();
  compact_to_.reset();
  for (PersistBatch& batch : in_progress_) batch.last = std::min(batch.last, meta.index);
}

// --- At the leader -------------------------------------------------------------------------------

void Raft::Impl::CheckSnapshotNeed(Progress* progress) {
  const bool waits = progress->state() == Progress::State::kSnapshot;
  if (NeedsSnapshot(*progress) && !waits) progress->BecomeSnapshot();
}

Raft::Impl::Sending Raft::Impl::NextSnapshotSending(const LeaderRole& leader,
                                                    const Progress& progress) const {
  // The version in force does not matter: it may be that the entry which raises it cannot be
  // committed before this follower has caught up.
  if (progress.version() < kVersionMembership) return Sending::kNothing;
  // One that does not answer gets heartbeats; one that leaves has no use for it.
  if (progress.ticks_since_heard() >= options_.election_ticks || progress.leaving()) {
    return Sending::kNothing;
  }
  const SnapshotTransfer& transfer = progress.transfer();
  switch (transfer.phase) {
    case Phase::kRead:
      return Sending::kSnapshotRead;
    case Phase::kSent:
      if (transfer.ticks < 2 * options_.heartbeat_ticks) return Sending::kNothing;
      [[fallthrough]];
    case Phase::kSend:
      return leader.snapshot_budget_bytes > 0 ? Sending::kSnapshotChunk : Sending::kNothing;
    case Phase::kReading:
    case Phase::kWait:
      return Sending::kNothing;
  }
  ASSERT(false, "a transfer has one of the five phases");
}

void Raft::Impl::RequestSnapshotRead(Progress* progress, Output* output) {
  SnapshotTransfer& transfer = progress->transfer();
  output->snapshot_reads.push_back(
      {progress->member(), transfer.index, transfer.offset, options_.snapshot_chunk_bytes});
  transfer.phase = Phase::kReading;
}

void Raft::Impl::SnapshotRead(MemberId follower, SnapshotMeta meta, uint64_t offset, Slice bytes,
                              bool last) {
  Progress* progress = FindProgress(follower);
  if (progress == nullptr || progress->state() != Progress::State::kSnapshot) return;
  SnapshotTransfer& transfer = progress->transfer();
  // It may have been asked for by an earlier leadership of this member.
  if (transfer.phase != Phase::kReading || offset != transfer.offset) return;
  if (transfer.index != Index{0} && meta.index != transfer.index) return;
  if (meta.index < base_index() || meta.index > commit_) {
    // The log does not go on behind it any more.
    SnapshotReadFailed(follower);
    return;
  }
  transfer.index = meta.index;
  transfer.meta = std::move(meta);
  transfer.bytes = std::move(bytes);
  transfer.last = last;
  transfer.phase = Phase::kSend;
}

void Raft::Impl::SnapshotReadFailed(MemberId follower) {
  Progress* progress = FindProgress(follower);
  if (progress == nullptr || progress->state() != Progress::State::kSnapshot) return;
  if (progress->transfer().phase != Phase::kReading) return;
  // From the beginning, with the newest there is.
  progress->transfer() = SnapshotTransfer{};
  progress->transfer().phase = Phase::kWait;
}

void Raft::Impl::SendSnapshotChunk(LeaderRole* leader, Progress* progress) {
  SnapshotTransfer& transfer = progress->transfer();
  leader->snapshot_budget_bytes -= static_cast<int64_t>(std::max<size_t>(1, transfer.bytes.size()));
  transfer.phase = Phase::kSent;
  transfer.ticks = 0;
  Send(progress->member(),
       SnapshotChunk{transfer.meta, transfer.offset, transfer.last, transfer.bytes});
}

void Raft::Impl::Handle(MemberId from, const SnapshotAck& ack) {
  Progress* progress = FindProgress(from);
  if (progress == nullptr || progress->state() != Progress::State::kSnapshot) return;
  SnapshotTransfer& transfer = progress->transfer();
  if (ack.index == Index{0} || ack.index != transfer.index) return;
  if (ack.done) {
    progress->LeaveSnapshot(std::max(ack.index, progress->match()));
    CheckSnapshotNeed(progress);
    return;
  }
  if (transfer.phase != Phase::kSent || ack.next_offset == transfer.offset) return;
  // Further on than what was sent, if this leader sent the same picture before; or back, if what
  // was staged is lost.
  transfer.offset = ack.next_offset;
  transfer.bytes = Slice();
  transfer.phase = Phase::kRead;
}

// --- At the follower -----------------------------------------------------------------------------

bool Raft::Impl::HasAllOf(const SnapshotMeta& meta) const {
  if (meta.index <= commit_) return true;
  return meta.index <= last_index() && terms_.TermAt(meta.index) == meta.term;
}

void Raft::Impl::Handle(MemberId from, const SnapshotChunk& chunk) {
  const SnapshotMeta& meta = chunk.meta;
  if (meta.index == Index{0} || meta.term == Term{0} || meta.term > term_) return;
  if (!AcceptLeader(from) || installing_) return;
  if (meta.version > options_.version) return;
  if (HasAllOf(meta)) {
    AbandonStaging();
    Send(from, SnapshotAck{meta.index, 0, true});
    return;
  }
  const bool same =
      staging_ && staging_->meta.index == meta.index && staging_->meta.term == meta.term;
  if (!same) {
    if (chunk.offset != 0) {
      Send(from, SnapshotAck{meta.index, 0, false});
      return;
    }
    AbandonStaging();
    staging_ = Staging{};
    staging_->meta = meta;
  }
  // The answer follows when what is under way is staged.
  if (staging_->writing || staging_->write) return;
  if (chunk.offset != staging_->next_offset) {
    Send(from, SnapshotAck{meta.index, staging_->next_offset, false});
    return;
  }
  staging_->write = SnapshotWriteRequest{meta, chunk.offset, chunk.bytes, chunk.last};
  staging_->last = chunk.last;
}

void Raft::Impl::AbandonStaging() {
  if (staging_ && staging_->writing) ++abandoned_writes_;
  staging_.reset();
}

void Raft::Impl::SnapshotWritten(Index index, uint64_t next_offset) {
  // Answers come in the order of the requests.
  if (abandoned_writes_ > 0) {
    --abandoned_writes_;
    return;
  }
  ASSERT(staging_ && staging_->writing, "it was asked for");
  ASSERT(staging_->meta.index == index);
  staging_->writing = false;
  if (staging_->last && next_offset != 0) {
    StagingComplete();
    return;
  }
  staging_->next_offset = next_offset;
  if (leader_ != kNoMember) Send(leader_, SnapshotAck{index, next_offset, false});
  if (next_offset == 0) staging_.reset();
}

void Raft::Impl::StagingComplete() {
  const SnapshotMeta meta = staging_->meta;
  staging_.reset();
  if (HasAllOf(meta)) {
    // The log was faster.
    if (leader_ != kNoMember) Send(leader_, SnapshotAck{meta.index, 0, true});
    return;
  }
  if (role() != Role::kFollower) BecomeFollower(term_, kNoMember);
  installing_ = meta;
}

void Raft::Impl::SnapshotInstalled(Index index) {
  ASSERT(installing_ && install_handed_, "it was asked for");
  ASSERT(installing_->index == index);
  ResetLog(*std::exchange(installing_, std::nullopt));
  install_handed_ = false;
  if (auto* follower = std::get_if<FollowerRole>(&role_)) {
    // It is committed, and so in the log of every leader from now on.
    *follower = FollowerRole{};
    follower->matched = follower->acked = index;
  }
  if (leader_ != kNoMember) Send(leader_, SnapshotAck{index, 0, true});
  Advance();
}

}  // namespace quorate::consensus
