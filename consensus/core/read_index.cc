// Linearizable reads without a log entry: thesis 6.4. A leader learns by a round of heartbeats that
// it still led after the reads came; rounds have numbers, so that an answer to an older heartbeat,
// or one that came twice, confirms nothing.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/seeded_bug.h"
#include "consensus/core/limits.h"
#include "consensus/core/raft_impl.h"

namespace quorate::consensus {
namespace {

constexpr char kReadsTooEarly[] = "a read before the no-op";

}  // namespace

void Raft::Impl::ReadIndex(uint64_t request_id) {
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

bool Raft::Impl::ReadRoundDue(const LeaderRole& leader) const {
  // Until an entry of its term is committed, a leader may not know the newest commit index.
  return !leader.waiting.empty() && leader.confirming.empty() &&
         (IsEstablished(leader) || SeededBug(kReadsTooEarly));
}

void Raft::Impl::StartReadRound(LeaderRole* leader) {
  ASSERT(IsEstablished(*leader) || SeededBug(kReadsTooEarly));
  ASSERT(!leader->waiting.empty());
  ++leader->round;
  leader->confirming.push_back({leader->round, commit_, std::exchange(leader->waiting, {})});
  if (SeededBug("read without a quorum")) ConfirmReads(leader);
}

void Raft::Impl::SendHeartbeats(LeaderRole* leader) {
  for (const Progress& progress : leader->followers) {
    // Learners confirm nothing; they are spared the rounds between heartbeats.
    if (!membership().IsVoter(progress.member()) && !leader->heartbeat_due) continue;
    Send(progress.member(), Heartbeat{std::min(progress.match(), commit_), leader->round});
  }
  leader->heartbeat_due = false;
}

void Raft::Impl::ConfirmReads(LeaderRole* leader) {
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

void Raft::Impl::FailLeaderReads(const LeaderRole& leader) {
  // Those who forwarded theirs notice by themselves that the leader changed.
  auto fail = [this](const std::vector<PendingRead>& reads) {
    for (const PendingRead& read : reads) {
      if (read.from == options_.self) reads_.push_back({read.request_id, false, {}});
    }
  };
  for (const ReadBatch& batch : leader.confirming) fail(batch.reads);
  fail(leader.waiting);
}

// --- Forwarded reads at the others ---------------------------------------------------------------

void Raft::Impl::FailForwardedReads() {
  for (const auto& [request_id, ticks] : forwarded_reads_) {
    reads_.push_back({request_id, false, {}});
  }
  forwarded_reads_.clear();
  forwarded_order_.clear();
}

void Raft::Impl::ExpireForwardedReads() {
  const auto timeout = static_cast<uint64_t>(options_.election_ticks);
  while (!forwarded_order_.empty() && now_ticks_ - forwarded_order_.front().first >= timeout) {
    const uint64_t request_id = forwarded_order_.front().second;
    forwarded_order_.pop_front();
    if (forwarded_reads_.erase(request_id) > 0) reads_.push_back({request_id, false, {}});
  }
}

// --- Messages ------------------------------------------------------------------------------------

void Raft::Impl::Handle(MemberId from, const Heartbeat& heartbeat) {
  if (!AcceptLeader(from)) return;
  if (heartbeat.commit > commit_ && !installing_) {
    auto& follower = std::get<FollowerRole>(role_);
    // The leader means what this member acknowledged. It may have forgotten that since
    // (data_loss.cc), or another directory did it, and then the log may hold other entries in those
    // places: only what an AppendRequest has compared is committed.
    const Index held =
        SeededBug("a heartbeat commits what was not matched") ? last_index() : follower.matched;
    const Index commit = std::min(heartbeat.commit, held);
    if (commit > commit_) CommitTo(commit);
    // The leader compares the logs when it learns that this member has not done so.
    if (heartbeat.commit > follower.matched) follower.ack_due = true;
  }
  Send(from, HeartbeatResponse{heartbeat.read_round});
}

void Raft::Impl::Handle(MemberId from, const HeartbeatResponse& response) {
  auto* leader = std::get_if<LeaderRole>(&role_);
  Progress* progress = FindProgress(from);
  if (leader == nullptr || progress == nullptr || response.read_round > leader->round) return;
  progress->RoundAnswered(response.read_round);
  ConfirmReads(leader);
}

void Raft::Impl::Handle(MemberId from, const ReadIndexRequest& request) {
  auto* leader = std::get_if<LeaderRole>(&role_);
  if (leader == nullptr || leader->waiting.size() >= kPendingReadsMax) return;
  Index floor;
  if (request.recovering) {
    const Progress* progress = FindProgress(from);
    // What it lost must not be counted on by the entry that stands for all of it.
    if (progress != nullptr && progress->voting()) return;
    // A target that has all of the log is about to lead.
    if (leader->transfer) return;
    AppendEntry({last_index() + 1, term_, EntryKind::kNoOp, {}});
    floor = last_index();
  }
  leader->waiting.push_back({request.request_id, from, floor});
}

void Raft::Impl::Handle(MemberId from, const ReadIndexResponse& response) {
  if (recovery_ && recovery_->request_id == response.request_id) {
    if (from == recovery_->leader && term_ == recovery_->term) recovery_->index = response.index;
    return;
  }
  if (from != leader_ || forwarded_reads_.erase(response.request_id) == 0) return;
  reads_.push_back({response.request_id, true, response.index});
}

}  // namespace quorate::consensus
