// SPDX-License-Identifier: Apache-2.0

// Linearizable reads without a log entry (thesis 6.4). A round of heartbeats confirms to a leader
// that it still led after the reads arrived. Rounds are numbered, so that a duplicate answer, or an
// answer to an older heartbeat, confirms nothing.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/seeded_bug.h"
#include "consensus/core/limits.h"
#include "consensus/core/raft.h"

namespace quorate::consensus {
namespace {

constexpr char kReadsTooEarly[] = "a read before the no-op";

}  // namespace

void Raft::ReadIndex(uint64_t request_id) {
  if (auto* leader = std::get_if<LeaderRole>(&role_)) {
    if (leader->reads.is_full()) {
      reads_.push_back({request_id, false, {}});
    } else {
      leader->reads.Add({request_id, options_.self, {}});
    }
    return;
  }
  if (leader_ == kNoMember || !forwarded_reads_.Add(request_id, now_ticks_)) {
    reads_.push_back({request_id, false, {}});
    return;
  }
  Send(leader_, ReadIndexRequest{request_id});
}

// --- Rounds at the leader ------------------------------------------------------------------------

bool Raft::ReadRoundDue(const LeaderRole& leader) const {
  // Until a leader has committed an entry of its term, it may not know the newest commit index.
  return leader.reads.has_waiting() && !leader.reads.is_confirming() &&
         (IsEstablished(leader) || SeededBug(kReadsTooEarly));
}

void Raft::StartReadRound(LeaderRole* leader) {
  ASSERT(IsEstablished(*leader) || SeededBug(kReadsTooEarly));
  leader->reads.Start(commit_);
  if (SeededBug("read without a quorum")) ConfirmReads(leader);
}

void Raft::SendHeartbeats(LeaderRole* leader) {
  for (const Progress& progress : leader->followers) {
    // Learners confirm nothing. Therefore rounds between regular heartbeats do not go to them.
    if (!membership().IsVoter(progress.member()) && !leader->heartbeat_due) continue;
    Send(progress.member(), Heartbeat{std::min(progress.match(), commit_), leader->reads.round(),
                                      leader->feed_plan.FedBy(progress.member())});
  }
  leader->heartbeat_due = false;
}

void Raft::ConfirmReads(LeaderRole* leader) {
  if (!leader->reads.is_confirming()) return;
  const ReadRound confirmed = quorum().Reached([&](MemberId member) {
    if (member == options_.self || SeededBug("read without a quorum")) return leader->reads.round();
    const Progress* progress = FindProgress(member);
    return CountsForQuorum(progress) ? progress->read_round() : ReadRound{0};
  });
  leader->reads.Confirm(confirmed, [this](const PendingRead& read, Index index) {
    ASSERT(index <= commit_);
    if (read.from == options_.self) {
      reads_.push_back({read.request_id, true, index});
    } else {
      Send(read.from, ReadIndexResponse{read.request_id, std::max(index, read.floor)});
    }
  });
}

void Raft::FailLeaderReads(const LeaderRole& leader) {
  // Members that forwarded reads detect themselves that the leader changed.
  leader.reads.ForEach([this](const PendingRead& read) {
    if (read.from == options_.self) reads_.push_back({read.request_id, false, {}});
  });
}

// --- Forwarded reads at other members ------------------------------------------------------------

void Raft::FailForwardedReads() {
  for (const uint64_t request_id : forwarded_reads_.RemoveAll()) {
    reads_.push_back({request_id, false, {}});
  }
}

void Raft::ExpireForwardedReads() {
  const auto timeout = static_cast<uint64_t>(options_.election_ticks);
  for (const uint64_t request_id : forwarded_reads_.RemoveExpired(now_ticks_, timeout)) {
    reads_.push_back({request_id, false, {}});
  }
}

// --- Messages ------------------------------------------------------------------------------------

void Raft::Handle(MemberId from, MemberId leader, const Heartbeat& heartbeat) {
  if (!AcceptLeader(leader)) return;
  if (heartbeat.commit > commit_ && !installing_) {
    auto& follower = std::get<FollowerRole>(role_);
    // The leader's commit index covers entries that this member acknowledged. But the member may
    // have lost them since (data_loss.cc), or another of its directories acknowledged them, and the
    // log may have other entries at these indexes. Therefore only entries that an AppendRequest has
    // compared are committed.
    const Index held =
        SeededBug("a heartbeat commits what was not matched") ? last_index() : follower.matched;
    const Index commit = std::min(heartbeat.commit, held);
    if (commit > commit_) CommitTo(commit);
    // The acknowledgement shows the sender that the logs were not compared, so that it compares
    // them.
    if (heartbeat.commit > follower.matched) {
      follower.ack_due = true;
      follower.feeder = from == leader ? kNoMember : from;
    }
  }
  HeartbeatResponse response{heartbeat.read_round};
  if (from == leader) response.fed = Feed(heartbeat);
  Send(from, std::move(response));
}

void Raft::Handle(MemberId from, const HeartbeatResponse& response) {
  auto* leader = std::get_if<LeaderRole>(&role_);
  Progress* progress = FindProgress(from);
  if (leader == nullptr || progress == nullptr || response.read_round > leader->reads.round()) {
    return;
  }
  progress->RoundAnswered(response.read_round);
  if (response.fed) HandleFeedReport(leader, from, *response.fed);
  ConfirmReads(leader);
}

void Raft::Handle(MemberId from, const ReadIndexRequest& request) {
  auto* leader = std::get_if<LeaderRole>(&role_);
  if (leader == nullptr || leader->reads.is_full()) return;
  Index floor;
  if (request.recovering) {
    const Progress* progress = FindProgress(from);
    // The new entry proves the recovery only if it is committed without this member. Therefore the
    // leader must know already that this member does not vote.
    if (progress != nullptr && progress->voting()) return;
    // Appends no entry during a leadership transfer: the target, which has all of the log, is about
    // to lead.
    if (leader->transfer) return;
    AppendEntry({last_index() + 1, term_, EntryKind::kNoOp, {}});
    floor = last_index();
  }
  leader->reads.Add({request.request_id, from, floor});
}

void Raft::Handle(MemberId from, const ReadIndexResponse& response) {
  if (recovery_ && recovery_->RecordRead(response.request_id, from, term_, response.index)) return;
  if (from != leader_ || !forwarded_reads_.Remove(response.request_id)) return;
  reads_.push_back({response.request_id, true, response.index});
}

}  // namespace quorate::consensus
