// SPDX-License-Identifier: Apache-2.0

// Handles the loss of data: of a whole data directory (a new cluster, a new server, a lost disk),
// or of the end of a log. Raft relies on the members' promises. But a member with a new directory
// does not know what it promised, and a member whose log lost its end does not know that entries
// are missing.
//
// The states of a member. All but the last are durable in its hard state (MemberState):
//
//   state           votes                counts, campaigns  becomes
//   new (new        only for a           no                 normal: by its vote for such a
//   directory)      candidate that                          candidate, or as the only voter
//                   bootstraps                              recovering: on any sign of a cluster
//                   a cluster
//   recovering      no                   no                 normal: by the four steps below
//   normal          yes                  yes                new: if its directory is lost
//   normal, with    if the candidate     counts only        normal: once it has the entries again
//   a known loss    has what the                            that it had acknowledged, or a later
//                   member acknowledged                     leader has replaced them
//
// Assumptions:
//   - A lost directory does not come back before every voter has recorded the new one in its place.
//     The member asks each voter until the voter has done so (TickAnnouncements). From then on the
//     voters drop the messages of the lost directory, and its server ends.
//   - While a cluster is being bootstrapped, no member loses its directory and starts with a new
//     one within the time of one pre-vote.
//   - When a majority of the directories is lost at once, one of the remaining members has an
//     entry, or its vote names the bootstrap leader. A member that never got an entry, and that
//     last voted for itself in an earlier election, cannot tell that the cluster was bootstrapped
//     without it.
//   - Fewer members lose the end of their log than are needed to commit an entry. This counts
//     members that were not notified because their leader died first, and members that were
//     restarted since: they do not know of the loss.
//   - A hard state is not lost alone: its file holds two checksummed copies.
//
// Bootstrap. A new member reports in a pre-vote that its log is empty, but votes only for a
// bootstrap candidate: a candidate to which every voter has reported an empty log. Therefore a
// cluster is bootstrapped only when all its voters are present. A member that lost its disk cannot
// help to bootstrap another cluster over the data of the first, even if other members are new or do
// not know of the first cluster yet. All voters must also have been started with the same
// membership, which they send with the pre-vote. Otherwise two sets of voters could each bootstrap
// a cluster with a member that is in both sets. When a member votes, it enters the normal state.
// When most disks of a bootstrapped cluster are lost, the remaining members do not bootstrap it
// again, because one of them knows that the cluster exists. That is either the bootstrap leader,
// which has the first entry on its disk before it sends that entry to any other member, or a member
// that voted for the bootstrap leader and finds that the leader is new (BootstrapLeaderIsNew).
//
// Recovery. On any sign that a cluster exists, a new member becomes recovering. Its messages say
// `voting = false`. No member counts it for commit, reads or check-quorum, or chooses it as a
// successor, and it does not vote. It becomes normal in four steps:
//  1. It asks the leader which data directory epoch the leader knows of this member. It chooses a
//     greater epoch, which its messages carry from then on (recovery.h).
//  2. The leader records that epoch: from then on it drops messages of the older directory, and no
//     longer counts what that directory acknowledged.
//  3. Only then does the member ask the leader for a read index. The leader appends a new entry,
//     and answers with the index of that entry.
//  4. That entry is committed under the same leader and term, by a majority that does not count
//     this member, and this member's log is durable up to the entry.
// Why this is safe, where T is the term of this member at that time, and e is the entry:
//  - An acknowledgement of the lost directory to the leader of T was either counted before step 2,
//    and then its entries precede e, or it is never counted. Entries that were committed with its
//    acknowledgements to an earlier leader are in the log of every later leader (paper 5.4.3), and
//    precede e.
//  - A vote that the lost directory gave in T cannot conflict: this member gives its own vote to
//    the leader of T, in case there was one.
//  - A vote that the lost directory gave in a later term U, to a candidate that still waits for
//    other votes, is harmless: the candidate also needs the vote of a member of the majority that
//    holds e. Such a member cannot have voted in U before it accepted e in T. Afterwards it
//    refuses, because the candidate asked before e existed, and its log lacks e. (Nor has an entry
//    of a term after T been written before: a majority would have left T.)
// Only the leader has to record the epoch, and any number of members may recover at the same time.
// A leader that does not understand kVersionMembershipInLog appends no entry. Under such a leader
// all other voters have to record the directory epoch. Then the vote in U cannot elect a leader,
// because the candidate's answer brings this member to U, in which it recovers under another
// leader.
//
// Two servers with the same number. While a member hears from a directory, it does not let another
// directory displace it, and answers the other that the number is in use. It drops messages of a
// directory that is older than the one it knows. The server of the older directory does not trust
// the first answer that says so. It asks again, and ends (Status::later_directory_epoch) only when
// a majority has confirmed the later directory several times.
//
// A lost end of the log. A disk that forgets writes that it had reported as durable leaves a log
// that looks like one whose last writes were interrupted by a power failure
// (consensus/log/recovery.cc). The member starts, and does not know that entries are missing. Its
// leader detects the loss when the member rejects entries that it had acknowledged, notifies the
// member (LossNotice), and sends the entries again at once. Until the member has them, it answers
// vote requests as if it still had them. Therefore entries that a majority held only with this
// member's help are not lost while the member knows of the loss. In all other respects the member
// counts: it has the entries that it acknowledges now, and a leader must not need more members than
// before because of the loss. If the lost entries were not committed, a later leader may have
// replaced them. Therefore the loss also ends when an entry of a later term is committed here.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/seeded_bug.h"
#include "consensus/core/raft.h"

namespace quorate::consensus {
namespace {

// After a message from a directory, the directory counts as in use for this many election timeouts.
constexpr uint64_t kAliveElections = 4;

}  // namespace

bool Raft::IsDurablyNormal() const {
  return member_state_ == MemberState::kNormal && durability_.IsMemberStateDurable();
}

void Raft::SetMemberState(MemberState member_state) {
  ASSERT(member_state > member_state_, "the state only advances: new, recovering, normal");
  member_state_ = member_state;
  durability_.MemberStateChanged();
  if (member_state == MemberState::kNormal && recovery_) {
    for (MemberId member : OtherVoters()) {
      if (!recovery_->HasAcknowledged(member)) announcements_.Add(member);
    }
  }
  recovery_.reset();
  refused_by_ = kNoMember;
  if (member_state == MemberState::kRecovering) recovery_.emplace();
  if (member_state == MemberState::kNormal && directory_epoch_ == kNoDirectoryEpoch)
    directory_epoch_ = options_.directory_epoch;
}

void Raft::RecordCluster() {
  if (member_state_ != MemberState::kNew) return;
  if (role() != Role::kFollower) BecomeFollower(term_, kNoMember);
  SetMemberState(SeededBug("a lost disk counts at once") ? MemberState::kNormal
                                                         : MemberState::kRecovering);
}

bool Raft::LeaderMarksRecovery() const {
  return leader_ != kNoMember && version_of(leader_) >= kVersionMembershipInLog;
}

std::vector<MemberId> Raft::AcknowledgementsNeeded() const {
  if (LeaderMarksRecovery()) return {leader_};
  return MembersToAsk();
}

std::vector<MemberId> Raft::MembersToAsk() const {
  std::vector<MemberId> members = OtherVoters();
  const bool known = std::find(members.begin(), members.end(), leader_) != members.end();
  if (leader_ != kNoMember && !known) members.push_back(leader_);
  return members;
}

// --- At the member -------------------------------------------------------------------------------

void Raft::TickRecovery() {
  if (!recovery_) return;
  if (recovery_->Tick(options_.election_ticks, options_.heartbeat_ticks)) RequestAcknowledgements();
}

void Raft::RequestAcknowledgements() {
  const bool has_epoch = directory_epoch_ != kNoDirectoryEpoch;
  for (MemberId member : recovery_->TakeMembersToAsk(MembersToAsk(), has_epoch)) {
    Send(member, DirectoryEpochRequest{});
  }
}

void Raft::AdvanceRecovery() {
  if (!recovery_ || leader_ == kNoMember || installing_) return;
  const std::vector<MemberId> needed = AcknowledgementsNeeded();
  if (directory_epoch_ == kNoDirectoryEpoch) {
    if (!recovery_->AllHaveAnswered(needed)) return;
    directory_epoch_ = recovery_->ChooseEpoch(term_);
    RequestAcknowledgements();
    return;
  }
  recovery_->KeepReadOf(leader_, term_, needed);
  if (const std::optional<Index> index = recovery_->read_index()) {
    const auto* follower = std::get_if<FollowerRole>(&role_);
    if (follower == nullptr || std::min(follower->matched, durable_index()) < *index) return;
    if (LeaderMarksRecovery() && commit_ < *index) return;
    if (vote_ == kNoMember) vote_ = leader_;
    SetMemberState(MemberState::kNormal);
    return;
  }
  if (recovery_->is_reading() || !recovery_->AllHaveAcknowledged(needed)) return;
  const uint64_t request_id = random_.Next();
  recovery_->BeginRead(request_id, leader_, term_);
  Send(leader_, ReadIndexRequest{request_id, true});
}

void Raft::Handle(MemberId from, const DirectoryEpochResponse& response) {
  if (response.directory_epoch != directory_epoch_) return;
  if (member_state_ == MemberState::kNormal) {
    if (response.known_directory_epoch == directory_epoch_) announcements_.Recorded(from);
    return RecordKnownDirectory(from, response.known_directory_epoch);
  }
  if (!recovery_) return;
  if (response.known_directory_epoch == kDirectoryEpochInUse) {
    refused_by_ = from;
    return;
  }
  if (refused_by_ == from) refused_by_ = kNoMember;
  if (directory_epoch_ == kNoDirectoryEpoch) {
    recovery_->RecordKnown(from, response.known_directory_epoch);
  } else if (response.known_directory_epoch > directory_epoch_) {
    // The leader knows a later directory of this member, which started in the meantime. Chooses an
    // epoch again.
    directory_epoch_ = kNoDirectoryEpoch;
    recovery_.emplace();
  } else {
    recovery_->RecordAcknowledged(from);
  }
}

void Raft::RecordKnownDirectory(MemberId from, uint64_t known_directory_epoch) {
  if (!membership().IsVoter(from)) return;
  if (known_directory_epoch <= directory_epoch_ || known_directory_epoch == kDirectoryEpochInUse) {
    later_directories_.Withdraw(from);
    return;
  }
  if (SeededBug("one answer ends a member")) later_directory_epoch_ = known_directory_epoch;
  if (!later_directories_.Record(from)) return;
  const size_t others = OtherVoters().size();
  if (later_directories_.confirmed() >= std::min(others, MajorityOf(membership().voters.size()))) {
    later_directory_epoch_ = known_directory_epoch;
  }
}

void Raft::TickReports() {
  const auto retry_ticks = static_cast<uint64_t>(options_.heartbeat_ticks);
  for (MemberId member : later_directories_.Tick(now_ticks_, retry_ticks, AliveTicks())) {
    Send(member, DirectoryEpochRequest{});
  }
  const auto is_voter = [this](MemberId member) { return membership().IsVoter(member); };
  for (MemberId member : announcements_.Tick(options_.election_ticks, is_voter)) {
    Send(member, DirectoryEpochRequest{});
  }
}

// --- At the others -------------------------------------------------------------------------------

uint64_t Raft::AliveTicks() const {
  return kAliveElections * static_cast<uint64_t>(options_.election_ticks);
}

void Raft::Handle(MemberId from, const DirectoryEpochRequest&) {
  const Peers::Peer* sender = peers_.Find(from);
  ASSERT(sender != nullptr, "the sender of a message is recorded before the message is handled");
  // That of the request, or it would have been dropped.
  const uint64_t directory_epoch = sender->directory_epoch;
  Send(from, DirectoryEpochResponse{directory_epoch, directory_epoch});
}

// --- A lost end of the log -----------------------------------------------------------------------

void Raft::SendLossNotice(MemberId member, Index acknowledged) {
  ASSERT(role() == Role::kLeader);
  if (version_of(member) < kVersionLossNotice) return;
  const Index known = std::max(acknowledged, base_index());
  Send(member, LossNotice{acknowledged, terms_.TermAt(known)});
}

void Raft::Handle(MemberId from, const LossNotice& notice) {
  if (member_state_ != MemberState::kNormal || notice.term > term_ || !AcceptLeader(from)) return;
  // The notice may be late or a duplicate. An entry of another term at that index is not the
  // acknowledged one: the disk may have brought back an older log, which can even be longer.
  const bool is_longer = notice.index <= last_index();
  const bool has_it =
      is_longer && (notice.index <= base_index() || terms_.TermAt(notice.index) == notice.term);
  if (installing_ || has_it) return;
  const Index matched = std::get<FollowerRole>(role_).matched;
  const Index kept = is_longer ? std::min(matched, notice.index - 1) : last_index();
  lost_ = Loss{kept + 1, notice.index, notice.term, term_};
}

void Raft::AdvanceLoss() {
  if (!lost_) return;
  const auto* follower = std::get_if<FollowerRole>(&role_);
  ASSERT(follower != nullptr, "a member with a known loss does not campaign");
  const bool has_all = std::min(follower->matched, durable_index()) >= lost_->last;
  const bool is_replaced = term_ > lost_->notified_in_term &&
                           terms_.TermAt(commit_) > lost_->notified_in_term &&
                           commit_ <= durable_index();
  if (has_all || is_replaced || IsOnlyVoter()) lost_.reset();
}

}  // namespace quorate::consensus
