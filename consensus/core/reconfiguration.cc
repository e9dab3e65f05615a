// SPDX-License-Identifier: Apache-2.0

// Changes of membership by joint consensus (thesis 4.3), and changes of the cluster version. Both
// are entries of the log. A membership is in effect from the time that it is in a member's log,
// committed or not, until the entry is truncated (thesis 4.1).
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/seeded_bug.h"
#include "consensus/core/describe.h"
#include "consensus/core/raft.h"

namespace quorate::consensus {

// --- At the leader -------------------------------------------------------------------------------

Progress Raft::MakeProgress(MemberId member) const {
  // A follower feeds what is committed.
  const Index last = role() == Role::kFollower ? commit_ : last_index();
  return Progress(member, last, options_.inflight_messages_max, options_.inflight_bytes_max);
}

void Raft::SyncFollowers(LeaderRole* leader) {
  // Removed members are kept for a while, so that they receive the entry that removes them.
  for (Progress& progress : leader->followers) {
    progress.SetLeaving(!membership().Contains(progress.member()));
  }
  auto before = [](const Progress& progress, MemberId member) {
    return progress.member() < member;
  };
  for (MemberId member : membership().Members()) {
    if (member == options_.self) continue;
    const auto place =
        std::lower_bound(leader->followers.begin(), leader->followers.end(), member, before);
    if (place != leader->followers.end() && place->member() == member) continue;
    leader->followers.insert(place, MakeProgress(member));
  }
  const bool lost_target = leader->transfer && !membership().IsVoter(leader->transfer->target);
  if (lost_target) leader->transfer.reset();
}

void Raft::AppendControl(EntryKind kind, std::string payload) {
  ASSERT(role() == Role::kLeader);
  AppendEntry({last_index() + 1, term_, kind, Slice(std::move(payload))});
  SyncFollowers(&std::get<LeaderRole>(role_));
}

std::string Raft::MembersBelowVersion(const LeaderRole& leader, uint32_t version) const {
  std::string members;
  auto check = [&](MemberId member, uint32_t understood) {
    if (understood < version) members += (members.empty() ? "" : ", ") + Describe(member);
  };
  if (membership().Contains(options_.self)) check(options_.self, options_.version);
  // A leader that has just bootstrapped the cluster has heard from all its voters. Their versions
  // count at once, so that the cluster version is raised before the first command.
  const bool bootstraps = leader.first_index == Index{1};
  for (const Progress& progress : leader.followers) {
    if (progress.leaving()) continue;
    const uint32_t heard = bootstraps ? version_of(progress.member()) : 0;
    check(progress.member(), std::max(progress.version(), heard));
  }
  return members;
}

absl::Status Raft::CheckNewMembers(const Membership& target) const {
  for (MemberId member : target.Members()) {
    const Peers::Peer* peer = peers_.Find(member);
    const bool is_new = !membership().Contains(member);
    if (is_new && peer != nullptr && peer->version < cluster_version()) {
      return absl::FailedPreconditionError(
          "member " + Describe(member) + " understands version " + std::to_string(peer->version) +
          " only; version " + std::to_string(cluster_version()) + " is in force: upgrade it first");
    }
  }
  for (MemberId voter : target.voters) {
    if (membership().IsVoter(voter)) continue;
    if (SeededBug("a voter counts before it has caught up")) continue;
    const Progress* progress = FindProgress(voter);
    auto unavailable = [&](const std::string& why) {
      return absl::UnavailableError("member " + Describe(voter) +
                                    " cannot become a voter yet: " + why);
    };
    if (progress == nullptr || progress->leaving()) {
      return unavailable("it is not a learner; add it as a learner first");
    }
    if (progress->version() == 0 || progress->ticks_since_heard() >= options_.election_ticks) {
      return unavailable("nothing was received from it recently");
    }
    if (!progress->voting()) return unavailable("it is recovering");
    // The disk of the member may have lost entries that it acknowledged before.
    if (progress->state() != Progress::State::kReplicate) {
      return unavailable("it has not answered since its connection broke");
    }
    if (!progress->catch_up().IsCaughtUp(options_.election_ticks)) {
      return unavailable(
          progress->catch_up().Describe(progress->match(), last_index(), options_.election_ticks));
    }
  }
  const bool has_quorum = Quorum(target).Has([&](MemberId member) {
    if (member == options_.self) return true;
    const Progress* progress = FindProgress(member);
    return CountsForQuorum(progress) && progress->version() > 0 &&
           progress->state() == Progress::State::kReplicate &&
           progress->ticks_since_heard() < options_.election_ticks;
  });
  if (!has_quorum) {
    return absl::UnavailableError(
        "too many of the voters of the new membership are recovering or have sent nothing "
        "recently");
  }
  return absl::OkStatus();
}

absl::Status Raft::CheckVersionOf(const LeaderRole& leader, const Membership& target) const {
  const uint32_t needed = target.addresses.empty() ? kVersionMembership : kVersionAddresses;
  if (cluster_version() >= needed) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "version " + std::to_string(needed) +
      " is not in force yet; held back by the members: " + MembersBelowVersion(leader, needed));
}

absl::Status Raft::ChangeMembership(Membership target, std::optional<Index> based_on) {
  const auto* leader = std::get_if<LeaderRole>(&role_);
  if (leader == nullptr) {
    return absl::FailedPreconditionError("member " + Describe(options_.self) +
                                         " does not lead; leader: " + Describe(leader_));
  }
  if (absl::Status status = ValidateMembership(target); !status.ok()) return status;
  if (target.joint()) return absl::InvalidArgumentError("membership.outgoing must be empty");
  if (!IsEstablished(*leader)) {
    return absl::FailedPreconditionError("member " + Describe(options_.self) +
                                         " has not committed an entry of its term yet; try again");
  }
  if (leader->transfer) {
    return absl::FailedPreconditionError("member " + Describe(options_.self) +
                                         " is handing leadership over to member " +
                                         Describe(leader->transfer->target));
  }
  if (membership().joint() || !MembershipIsCommitted()) {
    return absl::FailedPreconditionError("another change of membership is under way: " +
                                         consensus::ToString(membership()));
  }
  if (based_on && *based_on != membership_index()) {
    return absl::AbortedError("the membership has changed meanwhile: " +
                              consensus::ToString(membership()));
  }
  if (absl::Status status = CheckVersionOf(*leader, target); !status.ok()) return status;
  if (absl::Status status = FeedNewVoters(target); !status.ok()) return status;
  if (absl::Status status = CheckNewMembers(target); !status.ok()) return status;
  if (target == membership()) return absl::OkStatus();
  const bool voters_change = target.voters != membership().voters;
  AppendControl(EntryKind::kMembership,
                EncodeMembership(voters_change ? JoinMemberships(membership(), target) : target));
  return absl::OkStatus();
}

void Raft::AdvanceMembership(LeaderRole* leader) {
  if (!IsEstablished(*leader) || !MembershipIsCommitted()) return;
  if (membership().joint()) {
    // Completes the change, even if an earlier leader began it.
    AppendControl(EntryKind::kMembership, EncodeMembership(LeaveJoint(membership())));
    // If this member is the only remaining voter, no acknowledgement would commit the entry.
    CommitByCounting();
    return;
  }
  // A removed leader leads, without counting itself, until its removal is committed (thesis 4.2.2).
  if (!IsVoter()) LeaveLeadership(leader);
}

bool Raft::TakeBackChange() {
  // While a joint membership is in effect, nobody can be elected or commit without the new voters: if
  // most of them are lost, this leader is the only way back. It may set the old membership instead of
  // the new one, because each quorum of the joint membership includes one of the old voters. That
  // nobody has set the new membership is certain only if the joint one is from the term of this
  // leader, and not committed.
  if (!membership().joint() || MembershipIsCommitted()) return false;
  if (terms_.TermAt(membership_index()) != term_) return false;
  const Membership before = MembershipBefore();
  if (!HasQuorum(before)) return false;
  AppendControl(EntryKind::kMembership, EncodeMembership(before));
  return true;
}

void Raft::AdvanceVersion(LeaderRole* leader) {
  if (settings_.version() >= options_.version || !IsEstablished(*leader)) return;
  uint32_t version = options_.version;
  while (version > settings_.version() && !MembersBelowVersion(*leader, version).empty()) --version;
  if (version >= kVersionMembershipInLog && settings_.version() < kVersionMembershipInLog) {
    // From this version on, every log, or the checkpoint before it, has the membership. Until then
    // perhaps only the configuration has it.
    if (membership().joint() || !MembershipIsCommitted()) return;
    AppendControl(EntryKind::kMembership, EncodeMembership(membership()));
  }
  if (version == settings_.version()) return;
  AppendControl(EntryKind::kVersion, EncodeVersion(version));
}

}  // namespace quorate::consensus
