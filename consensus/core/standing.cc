// Members whose data directory is new: a cluster that begins, a server that joins, a disk that was
// lost. Raft relies on what members promised; one that lost its disk does not know what that was.
//
// Founding. A blank member says in a pre-vote that its log is empty, but votes only for a founding
// candidate: one to whom all voters, each of them, said that their logs are empty. So a cluster is
// founded when all its voters are there; and a member that lost its disk cannot help to found
// another one over the data of the first, whoever else is new or has not heard of it yet. With the
// vote a member is full. Assumed: nobody loses its disk and starts with a new one within the time
// of one pre-vote, and no two disks are lost at a time.
//
// Recovery. On any sign that there is a cluster a blank member is recovering. It receives the log,
// but says `voting = false`, and then nobody counts it: for commit, reads, check-quorum or as a
// successor; and it does not vote. It becomes full so:
//  1. Every other voter, and the leader, have noted its birth: they drop from then on what its
//     older directory sent, and a leader forgets what that one acknowledged.
//  2. Only then it asks the leader for a read index, whose quorum does not count it.
//  3. Under the same leader and term, its log is durable up to there. If the membership has other
//     voters by then, they are asked first, and the read index anew.
// Why this is safe: what the lost directory acknowledged was either counted by a leader before
// that leader noted the birth; then it is committed, and below the read index. Or it is never
// counted again. A vote that it gave can elect only someone whose term is at most the one this
// member has now, for the candidate's answer in step 1 brought it there; and in the term it has now
// there is a leader, to whom it gives its vote in case it gave one before.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/planted_fault.h"
#include "consensus/core/raft_impl.h"

namespace quorate::consensus {

bool Raft::Impl::IsDurablyFull() const {
  return standing_ == Standing::kFull && !standing_changed_ && standing_batch_ <= persisted_;
}

void Raft::Impl::SetStanding(Standing standing) {
  ASSERT(standing > standing_, "from blank by way of recovering to full");
  standing_ = standing;
  standing_changed_ = true;
  hard_state_changed_ = true;
  recovery_.reset();
  if (standing == Standing::kRecovering) recovery_.emplace(Recovery{});
}

void Raft::Impl::NoteCluster() {
  if (standing_ != Standing::kBlank) return;
  if (role() != Role::kFollower) BecomeFollower(term_, kNoMember);
  SetStanding(PlantedFault("a lost disk counts at once") ? Standing::kFull : Standing::kRecovering);
}

std::vector<MemberId> Raft::Impl::EchoesNeeded() const {
  std::vector<MemberId> needed = OtherVoters();
  const bool known = std::find(needed.begin(), needed.end(), leader_) != needed.end();
  if (leader_ != kNoMember && !known) needed.push_back(leader_);
  return needed;
}

void Raft::Impl::TickRecovery() {
  if (!recovery_) return;
  // The answer may be lost, or the leader may have had none.
  if (++recovery_->ticks_since_read >= options_.election_ticks) recovery_->request_id.reset();
  if (++recovery_->ticks_since_request >= options_.heartbeat_ticks) RequestEchoes();
}

void Raft::Impl::RequestEchoes() {
  recovery_->ticks_since_request = 0;
  for (MemberId member : EchoesNeeded()) {
    if (!recovery_->echoed.contains(member)) Send(member, StandingRequest{});
  }
}

void Raft::Impl::AdvanceRecovery() {
  if (!recovery_ || leader_ == kNoMember || installing_) return;
  const std::vector<MemberId> needed = EchoesNeeded();
  auto all_in = [&needed](const std::set<MemberId>& members) {
    return std::all_of(needed.begin(), needed.end(),
                       [&](MemberId member) { return members.contains(member); });
  };
  if (leader_ != recovery_->leader || term_ != recovery_->term ||
      !all_in(recovery_->echoed_before)) {
    recovery_->index.reset();
    recovery_->request_id.reset();
  }
  if (recovery_->index) {
    const auto* follower = std::get_if<FollowerRole>(&role_);
    if (follower == nullptr || std::min(follower->matched, durable_) < *recovery_->index) return;
    if (vote_ == kNoMember) vote_ = leader_;
    SetStanding(Standing::kFull);
    return;
  }
  if (recovery_->request_id || !all_in(recovery_->echoed)) return;
  recovery_->request_id = random_.Next();
  recovery_->ticks_since_read = 0;
  recovery_->leader = leader_;
  recovery_->term = term_;
  recovery_->echoed_before = recovery_->echoed;
  Send(leader_, ReadIndexRequest{*recovery_->request_id, true});
}

void Raft::Impl::Handle(MemberId from, const StandingRequest&) {
  const uint64_t birth = peers_[from].birth;  // of the request, or it would have been dropped
  Send(from, StandingResponse{birth, birth});
}

void Raft::Impl::Handle(MemberId from, const StandingResponse& response) {
  if (response.known_birth > options_.birth) {
    later_birth_ = std::max(later_birth_, response.known_birth);
  } else if (recovery_ && response.birth == options_.birth) {
    recovery_->echoed.insert(from);
  }
}

}  // namespace quorate::consensus
