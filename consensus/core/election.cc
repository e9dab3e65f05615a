// Leader election: paper 5.2 and 5.4.1, thesis 9.6 (pre-vote), 6.2 (check-quorum), 3.10 (transfer).
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "consensus/core/describe.h"
#include "consensus/core/raft_impl.h"

namespace quorate::consensus {

void Raft::Impl::ResetElectionTimer() {
  const auto ticks = static_cast<uint64_t>(options_.election_ticks);
  election_elapsed_ = 0;
  // Drawn anew each time, lest two members that tie once tie again (paper 5.2).
  election_timeout_ = static_cast<int>(ticks + random_.Next() % ticks);
  ASSERT(election_timeout_ >= options_.election_ticks);
}

bool Raft::Impl::HearsFromLeader() const {
  if (role() == Role::kLeader) return true;  // it has its quorum, or it would not lead any more
  return leader_ != kNoMember && ticks_since_leader_ < options_.election_ticks;
}

void Raft::Impl::DoubtLeader() {
  ASSERT(role() == Role::kFollower);
  // It counts as not heard from, so that the others' pre-votes are granted, and the election
  // timeout is nearly over. If it lives after all, its next heartbeat comes first or a pre-vote
  // fails: those who still hear from it refuse.
  const auto spread = static_cast<uint64_t>(options_.heartbeat_ticks);
  const int soon = election_elapsed_ + 1 + static_cast<int>(random_.Next() % spread);
  ticks_since_leader_ = std::max(ticks_since_leader_, options_.election_ticks);
  election_timeout_ = std::min(election_timeout_, soon);
}

// --- Campaigns -----------------------------------------------------------------------------------

void Raft::Impl::StartPreVote() {
  ASSERT(IsVoter());
  ASSERT(role() != Role::kLeader);
  SetLeader(kNoMember);
  role_ = PreCandidateRole{VoteTally(options_.membership.voters)};
  ResetElectionTimer();
  // Nothing is promised and no state changes (thesis 9.6): nothing waits for the disk.
  for (MemberId voter : options_.membership.voters) {
    if (voter == options_.self) continue;
    SendAtTerm(voter, term_ + 1, VoteRequest{true, false, last_index(), terms_.last_term()});
  }
  CountVote(options_.self, true);
}

void Raft::Impl::Campaign(bool leadership_transfer) {
  ASSERT(IsVoter());
  ASSERT(role() != Role::kLeader);
  SetTerm(term_ + 1);
  SetLeader(kNoMember);
  vote_ = options_.self;
  role_ = CandidateRole{VoteTally(options_.membership.voters), std::nullopt};
  ResetElectionTimer();
  // The vote for itself counts, here and in the eyes of others, once it cannot be forgotten.
  for (MemberId voter : options_.membership.voters) {
    if (voter == options_.self) continue;
    SendAfterPersist(voter,
                     VoteRequest{false, leadership_transfer, last_index(), terms_.last_term()});
  }
}

void Raft::Impl::OwnVoteDurable(PersistId id) {
  const auto* candidate = std::get_if<CandidateRole>(&role_);
  if (candidate == nullptr || !candidate->own_vote_batch || *candidate->own_vote_batch > id) return;
  ASSERT(vote_ == options_.self);
  CountVote(options_.self, true);
}

void Raft::Impl::CountVote(MemberId voter, bool granted) {
  auto* pre_candidate = std::get_if<PreCandidateRole>(&role_);
  auto* candidate = std::get_if<CandidateRole>(&role_);
  ASSERT(pre_candidate != nullptr || candidate != nullptr);
  VoteTally& votes = pre_candidate != nullptr ? pre_candidate->votes : candidate->votes;
  votes.Record(voter, granted);
  switch (votes.outcome()) {
    case VoteOutcome::kPending:
      return;
    case VoteOutcome::kLost:
      BecomeFollower(term_, kNoMember);
      return;
    case VoteOutcome::kWon:
      if (candidate != nullptr) {
        BecomeLeader();
      } else {
        Campaign(false);
      }
      return;
  }
}

void Raft::Impl::BecomeLeader() {
  ASSERT(role() == Role::kCandidate);
  ASSERT(vote_ == options_.self);
  LeaderRole leader;
  const Index last = last_index();
  leader.first_index = last + 1;
  for (uint32_t id = 1; id <= 254; ++id) {
    const MemberId member(id);
    if (member == options_.self || !options_.membership.Contains(member)) continue;
    leader.followers.emplace_back(member, options_.membership.IsVoter(member), last,
                                  options_.inflight_messages_max, options_.inflight_bytes_max);
  }
  role_ = std::move(leader);
  SetLeader(options_.self);
  // An entry of its own term is what commits those of earlier terms (paper 5.4.2), and tells it
  // what is committed (paper 8).
  Entry entry{last + 1, term_, EntryKind::kNoOp, {}};
  if (last == Index{0}) entry.payload = Slice(options_.cluster_id_if_new);
  AppendEntry(std::move(entry));
}

// --- At the leader -------------------------------------------------------------------------------

bool Raft::Impl::HasQuorum(const LeaderRole& leader) const {
  size_t heard = 1;
  for (const Progress& progress : leader.followers) {
    if (progress.voter() && progress.ticks_since_heard() < options_.election_ticks) ++heard;
  }
  return heard >= MajorityOf(options_.membership.voters.size());
}

void Raft::Impl::TickLeader(LeaderRole* leader) {
  ASSERT(leader_ == options_.self);
  for (Progress& progress : leader->followers) progress.Tick(options_.election_ticks);
  if (!HasQuorum(*leader)) {
    // Its clients had better ask the leader that the others may have by now (thesis 6.2).
    BecomeFollower(term_, kNoMember);
    return;
  }
  if (leader->transfer && ++leader->transfer->ticks >= options_.election_ticks) {
    leader->transfer.reset();
  }
  if (++leader->ticks_since_heartbeat < options_.heartbeat_ticks) return;
  leader->ticks_since_heartbeat = 0;
  leader->heartbeat_due = !leader->followers.empty();
  for (Progress& progress : leader->followers) progress.ProbeAgain();
  if (leader->transfer) leader->transfer->timeout_now_sent = false;
}

absl::Status Raft::Impl::TransferLeadership(MemberId target) {
  auto* leader = std::get_if<LeaderRole>(&role_);
  if (leader == nullptr) {
    return absl::FailedPreconditionError("member " + Describe(options_.self) +
                                         " does not lead; leader: " + Describe(leader_));
  }
  if (target == kNoMember) {
    // One that can be heard, and among those the one that has the most.
    auto rank = [this](const Progress& p) {
      return std::pair(p.ticks_since_heard() < options_.election_ticks, p.match());
    };
    const Progress* best = nullptr;
    for (const Progress& progress : leader->followers) {
      if (!progress.voter()) continue;
      if (best == nullptr || rank(*best) < rank(progress)) best = &progress;
    }
    if (best != nullptr) target = best->member();
  }
  const Progress* progress = FindProgress(target);
  if (progress == nullptr || !progress->voter()) {
    return absl::FailedPreconditionError("no voter to hand leadership to: member " +
                                         Describe(target) + " is none besides this one");
  }
  if (leader->transfer && leader->transfer->target == target) return absl::OkStatus();
  leader->transfer = Transfer{target};
  return absl::OkStatus();
}

bool Raft::Impl::TimeoutNowDue(const LeaderRole& leader) const {
  if (!leader.transfer || leader.transfer->timeout_now_sent) return false;
  const Progress* target = FindProgress(leader.transfer->target);
  ASSERT(target != nullptr);
  return target->match() == last_index();
}

// --- Messages ------------------------------------------------------------------------------------

void Raft::Impl::HandleVoteRequest(MemberId from, Term term, const VoteRequest& request) {
  if (request.last_term > term) return;
  // A member that was cut off must not depose a leader which others hear (thesis 4.2.3).
  if (term > term_ && HearsFromLeader() && !request.leadership_transfer) return;
  if (term > term_ && !request.pre_vote) BecomeFollower(term, kNoMember);
  const bool up_to_date = std::pair(request.last_term, request.last_index) >=
                          std::pair(terms_.last_term(), last_index());
  // In the current term it can only have the one vote; a pre-vote asks about a later term.
  const bool vote_is_free =
      term > term_ ||
      (term == term_ && (vote_ == from || (vote_ == kNoMember && leader_ == kNoMember)));
  if (!up_to_date || !vote_is_free) {
    // Also for an older term: the sender must learn the newer one, or it would ask for ever.
    Send(from, VoteResponse{request.pre_vote, false});
  } else if (request.pre_vote) {
    SendAtTerm(from, term, VoteResponse{true, true});
  } else {
    GrantVote(from);
  }
}

void Raft::Impl::GrantVote(MemberId candidate) {
  ASSERT(vote_ == kNoMember || vote_ == candidate, "one vote a term");
  ASSERT(role() == Role::kFollower || role() == Role::kPreCandidate);
  ResetElectionTimer();
  if (vote_ == kNoMember) {
    vote_ = candidate;
    hard_state_changed_ = true;
  }
  const VoteResponse response{false, true};
  if (hard_state_changed_) {
    SendAfterPersist(candidate, response);
  } else if (vote_batch_ <= persisted_) {
    Send(candidate, response);
  }
  // Else the answer to the first request is on its way with the batch.
}

void Raft::Impl::HandlePreVoteGranted(MemberId from, Term term) {
  if (role() != Role::kPreCandidate || term != term_ + 1) return;
  CountVote(from, true);
}

void Raft::Impl::Handle(MemberId from, const VoteResponse& response) {
  ASSERT(!response.pre_vote || !response.granted);
  const Role asking = response.pre_vote ? Role::kPreCandidate : Role::kCandidate;
  if (role() == asking) CountVote(from, response.granted);
}

void Raft::Impl::Handle(MemberId from, const TimeoutNow&) {
  if (!IsVoter() || !AcceptLeader(from)) return;
  // The leader asks for it, so there is nobody to be disturbed: no pre-vote.
  Campaign(true);
}

}  // namespace quorate::consensus
