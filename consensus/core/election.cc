// SPDX-License-Identifier: Apache-2.0

// Leader election: paper 5.2 and 5.4.1, thesis 9.6 (pre-vote), 6.2 (check-quorum), 3.10 (transfer).
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/seeded_bug.h"
#include "consensus/core/describe.h"
#include "consensus/core/raft.h"

namespace quorate::consensus {

bool Raft::HearsFromLeader() const {
  if (role() == Role::kLeader) return true;  // a leader without a quorum would have stepped down
  return leader_ != kNoMember && election_timer_.hears_leader();
}

// --- Campaigns -----------------------------------------------------------------------------------

bool Raft::MayCampaign() const {
  if (member_state_ == MemberState::kRecovering || installing_ || lost_ || DiskStalls())
    return false;
  // A leader must be able to apply the entries that it commits.
  if (settings_.version() > options_.version) return false;
  return settings_.IsVoterFrom(commit_, options_.self);
}

std::pair<Term, Index> Raft::LastPosition() const {
  std::pair position(terms_.last_term(), last_index());
  if (installing_) position = std::max(position, std::pair(installing_->term, installing_->index));
  if (lost_) position = std::max(position, std::pair(lost_->last_term, lost_->last));
  return position;
}

std::vector<MemberId> Raft::OtherVoters() const {
  std::vector<MemberId> voters = membership().Members();
  std::erase_if(voters, [this](MemberId member) {
    return member == options_.self || !membership().IsVoter(member);
  });
  return voters;
}

void Raft::StartPreVote(bool leadership_transfer) {
  ASSERT(MayCampaign());
  ASSERT(role() != Role::kLeader);
  SetLeader(kNoMember);
  EndFeeding();
  role_ = PreCandidateRole{VoteTally(membership()), leadership_transfer};
  election_timer_.Restart(&random_);
  // A pre-vote promises nothing and changes no state (thesis 9.6). Therefore no message has to wait
  // for the disk.
  for (MemberId voter : OtherVoters()) {
    SendAtTerm(voter, term_ + 1,
               VoteRequest{true, leadership_transfer, last_index(), terms_.last_term()});
  }
  CountVote(options_.self, true, member_state_ == MemberState::kNormal);
}

void Raft::Campaign(bool leadership_transfer, bool bootstrap) {
  ASSERT(MayCampaign() || SeededBug("a removed member disturbs"));
  ASSERT(role() != Role::kLeader);
  ASSERT(member_state_ == MemberState::kNormal || bootstrap);
  ASSERT(!bootstrap || last_index() == Index{0});
  SetTerm(term_ + 1);
  SetLeader(kNoMember);
  vote_ = options_.self;
  if (member_state_ != MemberState::kNormal) SetMemberState(MemberState::kNormal);
  EndFeeding();
  role_ = CandidateRole{VoteTally(membership()), std::nullopt};
  election_timer_.Restart(&random_);
  // This member's vote for itself counts once it is durable. The vote requests imply that vote, so
  // they wait for the same batch.
  for (MemberId voter : OtherVoters()) {
    SendAfterPersist(voter, VoteRequest{false, leadership_transfer, last_index(),
                                        terms_.last_term(), bootstrap});
  }
}

void Raft::OwnVoteDurable(PersistId id) {
  const auto* candidate = std::get_if<CandidateRole>(&role_);
  if (candidate == nullptr || !candidate->own_vote_batch || *candidate->own_vote_batch > id) return;
  ASSERT(vote_ == options_.self);
  CountVote(options_.self, true);
}

void Raft::CountVote(MemberId voter, bool granted, bool reliable) {
  auto* pre_candidate = std::get_if<PreCandidateRole>(&role_);
  auto* candidate = std::get_if<CandidateRole>(&role_);
  ASSERT(pre_candidate != nullptr || candidate != nullptr);
  VoteTally& votes = pre_candidate != nullptr ? pre_candidate->votes : candidate->votes;
  votes.Record(voter, granted, reliable);
  switch (votes.outcome()) {
    case VoteOutcome::kPending:
      return;
    case VoteOutcome::kLost:
      BecomeFollower(term_, kNoMember);
      return;
    case VoteOutcome::kWon:
      if (candidate != nullptr) {
        BecomeLeader();
      } else if (!MayCampaign() || (settings_.Differing() != nullptr && !votes.unanimous())) {
        // The disk has begun to stall. Or members were started with different memberships, so that
        // the votes may not form a majority.
        BecomeFollower(term_, kNoMember);
      } else if (member_state_ == MemberState::kNormal || votes.unanimous()) {
        // A bootstrap is an election that needs the votes of new members.
        const bool bootstrap = last_index() == Index{0} &&
                               (member_state_ != MemberState::kNormal || !votes.has_quorum());
        if (bootstrap && BootstrapLeaderIsNew()) {
          BecomeFollower(term_, kNoMember);
        } else {
          Campaign(pre_candidate->leadership_transfer, bootstrap);
        }
      }
      return;
  }
}

void Raft::BecomeLeader() {
  ASSERT(role() == Role::kCandidate);
  ASSERT(vote_ == options_.self);
  const Index last = last_index();
  LeaderRole leader(last + 1, options_.snapshot_bytes_per_tick);
  SyncFollowers(&leader);
  role_ = std::move(leader);
  staging_.Abandon();
  SetLeader(options_.self);
  // Committing an entry of its own term commits those of earlier terms (paper 5.4.2), and lets the
  // leader learn the commit index (paper 8).
  Entry entry{last + 1, term_, EntryKind::kNoOp, {}};
  if (last == Index{0}) entry.payload = Slice(options_.cluster_id_if_new);
  AppendEntry(std::move(entry));
}

// --- At the leader -------------------------------------------------------------------------------

bool Raft::HasQuorum(const Membership& membership) const {
  ASSERT(role() == Role::kLeader);
  if (SeededBug("no check-quorum")) return true;
  return Quorum(membership).Has([this](MemberId member) {
    if (member == options_.self) return true;
    const Progress* progress = FindProgress(member);
    return CountsForQuorum(progress) && progress->ticks_since_heard() < options_.election_ticks;
  });
}

bool Raft::CountsForQuorum(const Progress* progress) const {
  // The log of a recovering member may lack entries that its lost disk had: see data_loss.cc.
  return progress != nullptr && progress->voting();
}

bool Raft::DiskStalls() const {
  const int stall_ticks =
      options_.disk_stall_ticks > 0 ? options_.disk_stall_ticks : 10 * options_.election_ticks;
  return durability_.WaitedTicks(now_ticks_) >= static_cast<uint64_t>(stall_ticks);
}

const Progress* Raft::BestSuccessor(const LeaderRole& leader) const {
  // Prefers members that were heard from recently, and among them the one with the greatest match
  // index.
  auto rank = [this](const Progress& p) {
    return std::pair(p.ticks_since_heard() < options_.election_ticks, p.match());
  };
  const Progress* best = nullptr;
  for (const Progress& progress : leader.followers) {
    if (!membership().IsVoter(progress.member()) || !CountsForQuorum(&progress)) continue;
    if (best == nullptr || rank(*best) < rank(progress)) best = &progress;
  }
  return best;
}

void Raft::LeaveLeadership(LeaderRole* leader) {
  if (leader->transfer && leader->transfer->must_leave) return;
  const Progress* best = BestSuccessor(*leader);
  if (best == nullptr) {
    BecomeFollower(term_, kNoMember);
    return;
  }
  leader->transfer = Transfer{best->member()};
  leader->transfer->must_leave = true;
}

void Raft::TickLeader(LeaderRole* leader) {
  ASSERT(leader_ == options_.self);
  const int stall_ticks = SnapshotStallTicks();
  PlanFeeding(leader);
  for (Progress& progress : leader->followers) {
    progress.Tick(options_.election_ticks, stall_ticks);
    progress.catch_up().Tick(KnownMatch(*leader, progress), last_index());
  }
  if (!HasQuorum(membership()) && !TakeBackChange()) {
    // Steps down, so that clients turn to the leader that the others may have elected by now
    // (thesis 6.2).
    BecomeFollower(term_, kNoMember);
    return;
  }
  std::erase_if(leader->followers, [&](Progress& progress) {
    return progress.leaving() && MembershipIsCommitted() &&
           progress.TickLeaving() >= options_.election_ticks;
  });
  if (leader->followers.empty()) leader->heartbeat_due = false;
  ShareSnapshotBudget(&leader->followers, &leader->snapshot_rate);
  if (leader->transfer && ++leader->transfer->ticks >= options_.election_ticks) {
    if (leader->transfer->must_leave) {
      BecomeFollower(term_, kNoMember);
      return;
    }
    leader->transfer.reset();
  }
  // The other disks commit entries without this one. But each promise of this member waits for its
  // disk.
  if (DiskStalls() && !IsOnlyVoter()) {
    LeaveLeadership(leader);
    if (role() != Role::kLeader) return;
  }
  if (++leader->ticks_since_heartbeat < options_.heartbeat_ticks) return;
  leader->ticks_since_heartbeat = 0;
  leader->feed_plan.IntervalBegins(commit_);
  leader->heartbeat_due = !leader->followers.empty();
  for (Progress& progress : leader->followers) progress.ProbeAgain();
  if (leader->transfer) leader->transfer->timeout_now_sent = false;
}

absl::Status Raft::TransferLeadership(MemberId target) {
  auto* leader = std::get_if<LeaderRole>(&role_);
  if (leader == nullptr) {
    return absl::FailedPreconditionError("member " + Describe(options_.self) +
                                         " does not lead; leader: " + Describe(leader_));
  }
  if (target == kNoMember) {
    if (const Progress* best = BestSuccessor(*leader); best != nullptr) target = best->member();
  }
  const Progress* progress = FindProgress(target);
  if (progress == nullptr || !membership().IsVoter(target)) {
    return absl::FailedPreconditionError("no voter to hand leadership to: member " +
                                         Describe(target) + " is none besides this one");
  }
  if (!CountsForQuorum(progress)) {
    return absl::FailedPreconditionError("member " + Describe(target) +
                                         " is recovering and cannot lead yet");
  }
  if (leader->transfer && leader->transfer->target == target) return absl::OkStatus();
  const bool must_leave = leader->transfer && leader->transfer->must_leave;
  leader->transfer = Transfer{target};
  leader->transfer->must_leave = must_leave;
  return absl::OkStatus();
}

void Raft::CancelTransfer() {
  auto* leader = std::get_if<LeaderRole>(&role_);
  if (leader != nullptr && leader->transfer && !leader->transfer->must_leave) {
    leader->transfer.reset();
  }
}

bool Raft::TimeoutNowDue(const LeaderRole& leader) const {
  if (!leader.transfer || leader.transfer->timeout_now_sent) return false;
  const Progress* target = FindProgress(leader.transfer->target);
  ASSERT(target != nullptr);
  return target->match() == last_index();
}

// --- Messages ------------------------------------------------------------------------------------

void Raft::HandleVoteRequest(const Message& message, const VoteRequest& request) {
  const MemberId from = message.from;
  const Term term = message.term;
  if (request.last_term > term) return;
  if (request.last_index > Index{0}) RecordCluster();
  // A member that was cut off must not depose a leader that others hear (thesis 4.2.3).
  if (term > term_ && HearsFromLeader() && !request.leadership_transfer &&
      !SeededBug("no pre-vote") &&
      (membership().IsVoter(from) || !SeededBug("a removed member disturbs"))) {
    return;
  }
  const bool bootstraps = request.bootstrap || (request.last_index == Index{0} && !message.voting);
  if (bootstraps && BootstrapLeaderIsNew()) {
    // If this member adopted the candidate's term, it would forget that it voted for the bootstrap
    // leader.
    Send(from, VoteResponse{request.pre_vote, false});
    return;
  }
  if (term > term_ && !request.pre_vote) BecomeFollower(term, kNoMember);
  const bool up_to_date = std::pair(request.last_term, request.last_index) >= LastPosition() ||
                          SeededBug("votes for a shorter log");
  const bool may_vote =
      member_state_ == MemberState::kNormal ||
      (member_state_ == MemberState::kNew && (request.pre_vote || request.bootstrap));
  // This member has only one vote in the current term. A pre-vote asks about a later term.
  const bool vote_is_free =
      term > term_ ||
      (term == term_ && (vote_ == from || (vote_ == kNoMember && leader_ == kNoMember)));
  if (!up_to_date || !vote_is_free || !may_vote) {
    // A request of an older term is answered too: otherwise the sender would never learn the newer
    // term and would ask forever.
    Send(from, VoteResponse{request.pre_vote, false});
  } else if (request.pre_vote) {
    VoteResponse response{true, true};
    if (settings_.MembershipIsConfigured() && message.version >= kVersionMembershipInLog) {
      response.configured = membership();
      response.configured->addresses.clear();
    }
    SendAtTerm(from, term, std::move(response));
  } else {
    GrantVote(from);
  }
}

bool Raft::BootstrapLeaderIsNew() const {
  if (last_index() > Index{0} || member_state_ != MemberState::kNormal) return false;
  if (vote_ == options_.self || !membership().IsVoter(vote_)) return false;
  const Peers::Peer* bootstrap_leader = peers_.Find(vote_);
  return bootstrap_leader == nullptr || !bootstrap_leader->voting;
}

void Raft::GrantVote(MemberId candidate) {
  ASSERT(vote_ == kNoMember || vote_ == candidate, "one vote a term");
  ASSERT(role() == Role::kFollower || role() == Role::kPreCandidate);
  election_timer_.Restart(&random_);
  if (vote_ == kNoMember) {
    vote_ = candidate;
    durability_.HardStateChanged();
  }
  // A new member takes part in the bootstrap of the cluster: its promises count from now on.
  if (member_state_ == MemberState::kNew) SetMemberState(MemberState::kNormal);
  const VoteResponse response{false, true};
  if (durability_.IsHardStateDue()) {
    SendAfterPersist(candidate, response);
  } else if (durability_.IsHardStateDurable()) {
    Send(candidate, response);
  }
  // Otherwise the vote is being written already: the answer to the first request leaves when its
  // batch is durable.
}

void Raft::HandlePreVoteGranted(const Message& message, const VoteResponse& response) {
  if (role() != Role::kPreCandidate || message.term != term_ + 1) return;
  bool differs = false;
  if (settings_.MembershipIsConfigured() && response.configured) {
    differs = settings_.RecordConfigured(message.from, *response.configured);
  }
  CountVote(message.from, !differs, message.voting);
}

void Raft::Handle(MemberId from, const VoteResponse& response) {
  ASSERT(!response.pre_vote || !response.granted);
  const Role asking = response.pre_vote ? Role::kPreCandidate : Role::kCandidate;
  if (role() == asking) CountVote(from, response.granted);
}

void Raft::Handle(MemberId from, const TimeoutNow&) {
  if (!MayCampaign() || member_state_ != MemberState::kNormal || !AcceptLeader(from)) return;
  if (settings_.MembershipIsConfigured() && options_.version >= kVersionMembershipInLog) {
    // It is not known yet whether all members were started with the same membership. The answers to
    // a pre-vote tell.
    StartPreVote(true);
    return;
  }
  // Needs no pre-vote: the leader itself asks for the election, so no leader is disturbed.
  Campaign(true, false);
}

}  // namespace quorate::consensus
