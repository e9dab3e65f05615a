// SPDX-License-Identifier: Apache-2.0

// Compaction of the log up to checkpoints, and the transfer of a checkpoint to a follower that
// needs entries which the log no longer holds (paper 7, thesis 5).
//
// Chunks do not use the window of AppendRequests: each follower has a separate window for them
// (snapshot_transfer.h). All followers share the bytes that may be sent between two ticks
// (snapshot_rate.h). A chunk without an answer is sent again, and an answer says at which offset to continue.
//
// A follower's staging outlives the leadership in which it was sent. If the next leader begins with
// another checkpoint, the follower asks it once to continue with the staged one. The leader can do
// that if it has that checkpoint too, or has sent it before. A staging that receives no more chunks
// is discarded.
//
// LogRetention decides how much of the log is kept for followers (log_retention.h). The log after
// the checkpoint that is being sent is kept while the transfer makes progress, and then while the
// follower catches up: otherwise the follower would need another checkpoint when the transfer is
// complete.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/seeded_bug.h"
#include "consensus/core/limits.h"
#include "consensus/core/raft.h"

namespace quorate::consensus {

using Phase = SnapshotTransfer::Phase;

// --- Compaction ----------------------------------------------------------------------------------

void Raft::Checkpointed(Index index) {
  ASSERT(index <= apply_.applied(), "a checkpoint has only applied entries");
  retention_.Checkpointed(index, base_index());
  Compact();
}

void Raft::SetSpaceIsShort(bool is_short) {
  retention_.SetSpaceIsShort(is_short);
  Compact();
}

LogRetention::Limits Raft::RetentionLimits() const {
  const int retained_ticks =
      options_.retained_ticks_max > 0 ? options_.retained_ticks_max : 400 * options_.election_ticks;
  return {options_.trailing_entries,
          options_.retained_entries_max,
          options_.retained_bytes_max,
          options_.transfer_bytes_max,
          retained_ticks,
          SnapshotStallTicks()};
}

int Raft::SnapshotStallTicks() const {
  return options_.snapshot_stall_ticks > 0 ? options_.snapshot_stall_ticks
                                           : 100 * options_.election_ticks;
}

std::vector<LogRetention::Follower> Raft::RetentionFollowers(const LeaderRole& leader) {
  std::vector<LogRetention::Follower> followers;
  followers.reserve(leader.followers.size());
  for (const Progress& progress : leader.followers) {
    const bool fed = leader.feed_plan.FeederOf(progress.member()) != kNoMember;
    followers.push_back({KnownMatch(leader, progress), fed ? Index{0} : progress.held_from(),
                         progress.state() == Progress::State::kSnapshot && !fed,
                         progress.ticks_since_heard()});
  }
  return followers;
}

std::vector<LogRetention::Follower> Raft::RetentionFollowers(const Feeding& feeding) {
  std::vector<LogRetention::Follower> followers;
  followers.reserve(feeding.observers.size());
  for (const Progress& progress : feeding.observers) {
    followers.push_back({progress.match(), progress.held_from(),
                         progress.state() == Progress::State::kSnapshot,
                         progress.ticks_since_heard()});
  }
  return followers;
}

void Raft::ReleaseHeld(const std::vector<LogRetention::Follower>& followers,
                       std::vector<Progress>* receivers) const {
  ASSERT(followers.size() == receivers->size());
  // While the disk is almost full, a hold has no effect. It is kept for the time after that.
  for (size_t i = 0; i < followers.size() && !retention_.space_is_short(); ++i) {
    if (retention_.IsCaughtUp(followers[i])) (*receivers)[i].ReleaseHeld();
  }
}

Index Raft::CompactionTarget() {
  auto* leader = std::get_if<LeaderRole>(&role_);
  if (leader == nullptr) {
    Index target =
        retention_.TargetElsewhere(durable_index(), sizes_, now_ticks_, !OtherVoters().empty());
    auto* follower = std::get_if<FollowerRole>(&role_);
    if (follower == nullptr || !follower->feeding) return target;
    const std::vector<LogRetention::Follower> fed = RetentionFollowers(*follower->feeding);
    ReleaseHeld(fed, &follower->feeding->observers);
    return std::min(target, retention_.TargetAtLeader(durable_index(), sizes_, now_ticks_, fed));
  }
  const std::vector<LogRetention::Follower> followers = RetentionFollowers(*leader);
  ReleaseHeld(followers, &leader->followers);
  return retention_.TargetAtLeader(durable_index(), sizes_, now_ticks_, followers);
}

void Raft::Compact() {
  if (retention_.checkpoint() <= base_index() || installing_) return;
  // Keeps all of the log as long as there may be members that do not understand snapshots.
  if (cluster_version() < kVersionMembership) return;
  const Index target = SeededBug("compaction past the checkpoint")
                           ? std::min(apply_.applied(), durable_index())
                           : CompactionTarget();
  if (target < base_index() + options_.compaction_step_entries) return;
  terms_.CompactTo(target);
  sizes_.CompactTo(target);
  settings_.CompactTo(target);
  compact_to_ = target;
  if (auto* leader = std::get_if<LeaderRole>(&role_)) {
    for (Progress& progress : leader->followers) CheckSnapshotNeed(&progress);
  } else if (auto* follower = std::get_if<FollowerRole>(&role_); follower && follower->feeding) {
    for (Progress& progress : follower->feeding->observers) CheckSnapshotNeed(&progress);
  }
}

void Raft::ResetLog(const SnapshotMeta& meta) {
  ASSERT(meta.index > commit_);
  terms_ = TermHistory(meta.index, meta.term, {}, meta.index);
  sizes_.Reset(meta.index);
  cache_ = EntryCache(meta.index);
  settings_.Reset(meta);
  commit_ = meta.index;
  apply_.Reset(meta.index);
  durability_.Reset(meta.index);
  retention_.Reset(meta.index);
  compact_to_.reset();
}

// --- At the leader -------------------------------------------------------------------------------

void Raft::CheckSnapshotNeed(Progress* progress) {
  const bool waits = progress->state() == Progress::State::kSnapshot;
  if (!NeedsSnapshot(*progress) || waits) return;
  progress->BecomeSnapshot({options_.snapshot_chunk_bytes, options_.snapshot_window_bytes_max,
                            options_.heartbeat_ticks, options_.election_ticks,
                            std::max(1, SnapshotStallTicks() / 4)});
  // Returns the follower's share of the budget until the next tick.
  const auto* leader = std::get_if<LeaderRole>(&role_);
  const SnapshotRate& rate = leader != nullptr
                                 ? leader->snapshot_rate
                                 : std::get<FollowerRole>(role_).feeding->snapshot_rate;
  const auto count = std::count_if(receivers()->begin(), receivers()->end(),
                                   [this](const Progress& p) { return SendsSnapshotTo(p); });
  progress->transfer().Refill(rate.ShareOf(std::max<std::ptrdiff_t>(1, count)));
}

bool Raft::TakesManyChunks(const Progress& progress) const {
  return std::min(progress.version(), options_.version) >= kVersionSnapshotWindow;
}

Raft::Sending Raft::NextSnapshotSending(const Progress& progress) const {
  // The follower's version counts, not the cluster version: perhaps the entry that raises the
  // cluster version cannot be committed before this follower has caught up.
  if (progress.version() < kVersionMembership) return Sending::kNothing;
  // A follower that does not answer gets heartbeats only. A removed follower has no use for a
  // snapshot.
  if (progress.ticks_since_heard() >= options_.election_ticks || progress.leaving()) {
    return Sending::kNothing;
  }
  const SnapshotTransfer& transfer = progress.transfer();
  if (transfer.SendDue(TakesManyChunks(progress))) return Sending::kSnapshotChunk;
  return transfer.ReadDue() ? Sending::kSnapshotRead : Sending::kNothing;
}

void Raft::ShareSnapshotBudget(std::vector<Progress>* receivers, SnapshotRate* rate) {
  auto takes_part = [this](const Progress& progress) {
    return SendsSnapshotTo(progress) && !progress.leaving() &&
           progress.ticks_since_heard() < options_.election_ticks &&
           progress.transfer().phase() != Phase::kWait;
  };
  const auto count = std::count_if(receivers->begin(), receivers->end(), takes_part);
  bool kept_back = false;
  if (count > 0) {
    const int64_t share = rate->ShareOf(count);
    for (Progress& progress : *receivers) {
      if (!takes_part(progress)) continue;
      kept_back |= progress.transfer().Refill(share);
    }
  }
  rate->Tick(now_ticks_, commit_, last_index(), kept_back);
}

void Raft::RequestSnapshotRead(Progress* progress, Output* output) {
  SnapshotTransfer& transfer = progress->transfer();
  output->snapshot_reads.push_back({progress->member(), transfer.index(), transfer.next_offset(),
                                    options_.snapshot_chunk_bytes});
  transfer.ReadRequested();
}

void Raft::SnapshotRead(MemberId follower, SnapshotMeta meta, uint64_t offset, Slice bytes,
                        bool last) {
  Progress* progress = FindProgress(follower);
  if (progress == nullptr || progress->state() != Progress::State::kSnapshot) return;
  if (meta.index < base_index() || meta.index > commit_) {
    // The log no longer continues this checkpoint.
    progress->transfer().ReadFailed();
    return;
  }
  progress->transfer().Read(meta, {offset, std::move(bytes), last});
}

void Raft::SnapshotReadFailed(MemberId follower) {
  Progress* progress = FindProgress(follower);
  if (progress == nullptr || progress->state() != Progress::State::kSnapshot) return;
  progress->transfer().ReadFailed();
}

void Raft::SendSnapshotChunk(Progress* progress) {
  SnapshotTransfer::Chunk chunk = progress->transfer().TakeChunk();
  SendToReceiver(progress->member(), SnapshotChunk{progress->transfer().meta(), chunk.offset,
                                                   chunk.last, std::move(chunk.bytes)});
}

void Raft::Handle(MemberId from, const SnapshotAck& ack) {
  Progress* progress = FindReceiver(from);
  if (progress == nullptr || progress->state() != Progress::State::kSnapshot) return;
  SnapshotTransfer& transfer = progress->transfer();
  if (ack.index == Index{0}) return;
  if (ack.index != transfer.index()) {
    if (ack.done) return;
    // A follower that feeds may lack what a checkpoint of the leader has.
    if (ack.index >= base_index() && ack.index <= LastToSend()) {
      transfer.Resume(ack.index, ack.next_offset);
    } else {
      transfer.Refuse();
    }
    return;
  }
  if (ack.done) {
    progress->LeaveSnapshot(std::max(ack.index, progress->match()));
    CheckSnapshotNeed(progress);
    return;
  }
  progress->AcknowledgedChunk(ack.next_offset);
}

void Raft::Handle(MemberId from, const SnapshotRejected& rejected) {
  Progress* progress = FindReceiver(from);
  if (progress == nullptr || progress->state() != Progress::State::kSnapshot) return;
  if (rejected.index == Index{0} || rejected.index != progress->transfer().index()) return;
  progress->transfer().Failed();
  snapshot_rejections_.push_back({from, rejected.index, rejected.reason});
  // This member's checkpoint may be damaged: a newer one should replace it.
  checkpoint_wanted_ = rejected.index + 1;
}

// --- At the follower -----------------------------------------------------------------------------

bool Raft::HasAllOf(const SnapshotMeta& meta) const {
  if (meta.index <= commit_) return true;
  return meta.index <= last_index() && terms_.TermAt(meta.index) == meta.term;
}

void Raft::Handle(MemberId from, MemberId leader, const SnapshotChunk& chunk) {
  const SnapshotMeta& meta = chunk.meta;
  if (meta.index == Index{0} || meta.term == Term{0} || meta.term > term_) return;
  if (!AcceptLeader(leader) || installing_) return;
  std::get<FollowerRole>(role_).feeder = from == leader ? kNoMember : from;
  if (meta.version > options_.version) {
    if (HasAllOf(meta)) return;
    if (snapshot_version_ == 0) snapshot_version_ticks_ = now_ticks_;
    snapshot_version_ = meta.version;
    return;
  }
  snapshot_version_ = 0;
  if (HasAllOf(meta)) {
    staging_.Abandon();
    Send(from, SnapshotAck{meta.index, 0, true});
    return;
  }
  if (staging_.is_active() && HasAllOf(staging_.meta())) staging_.Abandon();
  if (const auto ack = staging_.Receive(chunk, term_)) Send(from, *ack);
}

bool Raft::SnapshotIsTooNew() const {
  return snapshot_version_ > 0 && leader_ != kNoMember &&
         now_ticks_ - snapshot_version_ticks_ >= static_cast<uint64_t>(options_.election_ticks);
}

void Raft::TickStaging() {
  if (!staging_.Tick(SnapshotStallTicks())) return;
  if (!SeededBug("a staging is never given back")) staging_.Abandon();
}

void Raft::SnapshotWritten(Index index, uint64_t next_offset) {
  switch (staging_.ChunkWritten(index, next_offset)) {
    case SnapshotStaging::Written::kAbandoned:
      return;
    case SnapshotStaging::Written::kPart:
      if (leader_ != kNoMember) Send(Source(), SnapshotAck{index, staging_.staged(), false});
      return;
    case SnapshotStaging::Written::kAll:
      StagingComplete();
      return;
  }
}

void Raft::SnapshotWriteFailed(Index index, std::string reason) {
  if (!staging_.WriteFailed(index) || leader_ == kNoMember) return;
  const MemberId source = Source();
  if (std::min(version_of(source), options_.version) >= kVersionSnapshotWindow) {
    if (reason.size() > kReasonBytesMax) reason.resize(kReasonBytesMax);
    Send(source, SnapshotRejected{index, std::move(reason)});
  } else {
    Send(source, SnapshotAck{index, 0, false});
  }
}

void Raft::StagingComplete() {
  const SnapshotMeta meta = staging_.meta();
  if (HasAllOf(meta)) {
    // The entries have arrived through the log in the meantime.
    staging_.Abandon();
    if (leader_ != kNoMember) Send(Source(), SnapshotAck{meta.index, 0, true});
    return;
  }
  staging_.Complete();
  if (role() != Role::kFollower) BecomeFollower(term_, kNoMember);
  EndFeeding();
  installing_ = meta;
}

void Raft::SnapshotInstalled(Index index) {
  ASSERT(installing_ && install_handed_, "the install was handed out");
  ASSERT(installing_->index == index);
  ResetLog(*std::exchange(installing_, std::nullopt));
  install_handed_ = false;
  if (auto* follower = std::get_if<FollowerRole>(&role_)) {
    // The snapshot has committed entries only. Therefore every leader from now on has them.
    const MemberId feeder = follower->feeder;
    *follower = FollowerRole{};
    follower->feeder = feeder;
    follower->matched = follower->acked = index;
  }
  if (leader_ != kNoMember) Send(Source(), SnapshotAck{index, 0, true});
  Advance();
}

}  // namespace quorate::consensus
