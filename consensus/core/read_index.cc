// Linearizable reads without a log entry: thesis 6.4. A round of heartbeats confirms to a leader
// that it still led after the reads came. Rounds are numbered, so that an answer to an older
// heartbeat, or a duplicate, confirms nothing.
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
    if (leader->waiting.size() >= kPendingReadsMax) {
      reads_.push_back({request_id, false, {}});
    } else {
      leader->waiting.push_back({request_id, options_.self, {}});
    }
    return;
  }
  if (leader_ == kNoMember || forwarded_reads_.size() >= kPendingReadsMax) {
    reads_.push_back({request_id, false, {}});
    return;
  }
  const bool is_new = forwarded_reads_.emplace(request_id, now_ticks_).second;
  ASSERT(is_new, "a request id is used once");
  forwarded_order_.emplace_back(now_ticks_, request_id);
  Send(leader_, ReadIndexRequest{request_id});
}

// --- Rounds at the leader ------------------------------------------------------------------------

bool Raft::ReadRoundDue(const LeaderRole& leader) const {
  // Until an entry of its term is committed, a leader may not know the newest commit index.
  return !leader.waiting.empty() && leader.confirming.empty() &&
         (IsEstablished(leader) || SeededBug(kReadsTooEarly));
}

void Raft::StartReadRound(LeaderRole* leader) {
  ASSERT(IsEstablished(*leader) || SeededBug(kReadsTooEarly));
  ASSERT(!leader->waiting.empty());
  ++leader->round;
  leader->confirming.push_back({leader->round, commit_, std::exchange(leader->waiting, {})});
  if (SeededBug("read without a quorum")) ConfirmReads(leader);
}

void Raft::SendHeartbeats(LeaderRole* leader) {
  for (const Progress& progress : leader->followers) {
    // Learners confirm nothing, so rounds between regular heartbeats do not go to them.
    if (!membership().IsVoter(progress.member()) && !leader->heartbeat_due) continue;
    Send(progress.member(), Heartbeat{std::min(progress.match(), commit_), leader->round});
  }
  leader->heartbeat_due = false;
}

void Raft::ConfirmReads(LeaderRole* leader) {
  if (leader->confirming.empty()) return;
  const ReadRound confirmed = quorum().Reached([&](MemberId member) {
    if (member == options_.self || SeededBug("read without a quorum")) return leader->round;
    const Progress* progress = FindProgress(member);
    return CountsForQuorum(progress) ? progress->read_round() : ReadRound{0};
  });
  while (!leader->confirming.empty() && leader->confirming.front().round <= confirmed) {
    const ReadBatch& batch = leader->confirming.front();
    ASSERT(batch.index <= commit_);
    for (const PendingRead& read : batch.reads) {
      if (read.from == options_.self) {
        reads_.push_back({read.request_id, true, batch.index});
      } else {
        Send(read.from, ReadIndexResponse{read.request_id, std::max(batch.index, read.floor)});
      }
    }
    leader->confirming.pop_front();
  }
}

void Raft::FailLeaderReads(const LeaderRole& leader) {
  // Members that forwarded reads notice themselves that the leader changed.
  auto fail = [this](const std::vector<PendingRead>& reads) {
    for (const PendingRead& read : reads) {
      if (read.from == options_.self) reads_.push_back({read.request_id, false, {}});
    }
  };
  for (const ReadBatch& batch : leader.confirming) fail(batch.reads);
  fail(leader.waiting);
}

// --- Forwarded reads at the others ---------------------------------------------------------------

void Raft::FailForwardedReads() {
  for (const auto& [request_id, ticks] : forwarded_reads_) {
    reads_.push_back({request_id, false, {}});
  }
  forwarded_reads_.clear();
  forwarded_order_.clear();
}

void Raft::ExpireForwardedReads() {
  const auto timeout = static_cast<uint64_t>(options_.election_ticks);
  while (!forwarded_order_.empty() && now_ticks_ - forwarded_order_.front().first >= timeout) {
    const uint64_t request_id = forwarded_order_.front().second;
    forwarded_order_.pop_front();
    if (forwarded_reads_.erase(request_id) > 0) reads_.push_back({request_id, false, {}});
  }
}

// --- Messages ------------------------------------------------------------------------------------

void Raft::Handle(MemberId from, const Heartbeat& heartbeat) {
  if (!AcceptLeader(from)) return;
  if (heartbeat.commit > commit_ && !installing_) {
    auto& follower = std::get<FollowerRole>(role_);
    // The leader's commit index covers entries that this member acknowledged. But the member may
    // have lost them since (data_loss.cc), or another directory of it acknowledged them, and the
    // log may hold other entries at these indexes. So only entries that an AppendRequest has
    // compared are committed.
    const Index held =
        SeededBug("a heartbeat commits what was not matched") ? last_index() : follower.matched;
    const Index commit = std::min(heartbeat.commit, held);
    if (commit > commit_) CommitTo(commit);
    // The acknowledgement shows the leader that the logs were not compared, and it compares them.
    if (heartbeat.commit > follower.matched) follower.ack_due = true;
  }
  Send(from, HeartbeatResponse{heartbeat.read_round});
}

void Raft::Handle(MemberId from, const HeartbeatResponse& response) {
  auto* leader = std::get_if<LeaderRole>(&role_);
  Progress* progress = FindProgress(from);
  if (leader == nullptr || progress == nullptr || response.read_round > leader->round) return;
  progress->RoundAnswered(response.read_round);
  ConfirmReads(leader);
}

void Raft::Handle(MemberId from, const ReadIndexRequest& request) {
  auto* leader = std::get_if<LeaderRole>(&role_);
  if (leader == nullptr || leader->waiting.size() >= kPendingReadsMax) return;
  Index floor;
  if (request.recovering) {
    const Progress* progress = FindProgress(from);
    // The new entry proves the recovery only if it is committed without this member. So the leader
    // must know already that this member does not vote.
    if (progress != nullptr && progress->voting()) return;
    // No new entry during a transfer: the target, which has all of the log, is about to lead.
    if (leader->transfer) return;
    AppendEntry({last_index() + 1, term_, EntryKind::kNoOp, {}});
    floor = last_index();
  }
  leader->waiting.push_back({request.request_id, from, floor});
}

void Raft::Handle(MemberId from, const ReadIndexResponse& response) {
  if (recovery_ && recovery_->request_id == response.request_id) {
    if (from == recovery_->leader && term_ == recovery_->term) recovery_->index = response.index;
    return;
  }
  if (from != leader_ || forwarded_reads_.erase(response.request_id) == 0) return;
  reads_.push_back({response.request_id, true, response.index});
}

}  // namespace quorate::consensus
