// SPDX-License-Identifier: Apache-2.0

// The part of a replica that changes the members of the cluster, and follows their addresses.
#include <spdlog/spdlog.h>

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/member/replica.h"
#include "rpc/membership/members.h"

namespace quorate::rpc {

using consensus::MemberId;
using consensus::Membership;

void Replica::ChangeMembers(const ServerLines& members, consensus::Index based_on,
                            std::function<void(absl::Status)> done) {
  absl::StatusOr<Membership> target = MembershipOf(members);
  if (target.ok() && options_.standalone) {
    target = absl::FailedPreconditionError(
        "this server runs alone, without server.N lines, and no other server can reach it; give it "
        "and the new members server.N lines first");
  }
  if (!target.ok()) {
    node_->Post([status = target.status(), done = std::move(done)] { done(status); });
    return;
  }
  node_->Post(
      [this, members, target = *std::move(target), based_on, done = std::move(done)]() mutable {
        if (reconfig_.has_value()) {
          return done(absl::FailedPreconditionError(
              "a client's reconfig of the members is in progress; try again later"));
        }
        const ServerLines now = MembersOf(node_->raft().membership(), options_.servers);
        absl::Status begun = BeginChange(target, based_on);
        // What never began is not the last change: its caller knows, and may ask again every moment.
        if (!begun.ok()) return done(std::move(begun));
        RecordChange(now, members);
        SetChange(std::move(target), [this, done = std::move(done)](absl::Status outcome) {
          RecordOutcome(outcome);
          done(std::move(outcome));
        });
      });
}

void Replica::SetChange(Membership target, std::function<void(absl::Status)> done) {
  const consensus::Raft& raft = node_->raft();
  change_ = PendingChange{std::move(target), raft.MembershipBefore(), raft.term(), std::move(done)};
  FinishChange();
}

void Replica::RecordChange(const ServerLines& now, const ServerLines& next) {
  asked_change_ = {ClusterView::Change::State::kRunning, ChangeText(now, next)};
}

void Replica::RecordOutcome(const absl::Status& outcome) {
  using State = ClusterView::Change::State;
  asked_change_.state = outcome.ok() ? State::kDone : State::kFailed;
  asked_change_.detail = std::string(outcome.message());
}

ClusterView::Change Replica::CurrentChange() {
  using State = ClusterView::Change::State;
  const consensus::Raft& raft = node_->raft();
  const Membership& membership = raft.membership();
  const bool is_in_log = membership.joint() || !raft.MembershipIsCommitted();
  if (!raft_status_.leader_established) {
    if (!change_.has_value() && !reconfig_.has_value()) asked_change_ = {};
    // A leader that cannot establish itself, because it waits for new voters, is the one that knows.
    if (raft.role() != consensus::Role::kLeader || !is_in_log) return {};
  }
  ClusterView::Change change = asked_change_;
  if (change.state != State::kRunning) {
    if (!is_in_log) return change;
    change = {State::kRunning, "a change that an earlier leader has begun"};
  }
  if (!is_in_log) {
    change.detail = reconfig_.has_value() ? reconfig_->problem : "";
    return change;
  }
  change.detail =
      membership.joint()
          ? "a majority of the old voters and one of the new ones have to acknowledge it"
          : "a majority of the voters has to acknowledge it";
  std::set<MemberId> voters(membership.voters.begin(), membership.voters.end());
  voters.insert(membership.outgoing.begin(), membership.outgoing.end());
  for (const MemberId voter : voters) {
    if (voter == options_.node.raft.self || links_->DownForMs(voter) == 0) continue;
    absl::StrAppend(&change.detail, "; not reached: server ", voter.value(), " ",
                    links_->ProblemOf(voter));
  }
  return change;
}

absl::Status Replica::BeginChange(const Membership& target, consensus::Index based_on) {
  if (change_.has_value()) {
    return absl::FailedPreconditionError("another change of members is under way; try again later");
  }
  if (absl::Status s = CheckStillReached(target); !s.ok()) return s;
  absl::Status begun = node_->raft().ChangeMembership(target, based_on);
  if (begun.ok()) spdlog::info("members shall be: {}", consensus::ToString(target));
  return begun;
}

absl::Status Replica::CheckStillReached(const Membership& target) const {
  const ServerLines now = MembersOf(node_->raft().membership(), options_.servers);
  const ServerLines then = MembersOf(target, {});
  size_t reached = 0;
  for (const MemberId voter : target.voters) {
    if (voter == options_.node.raft.self) {
      ++reached;
      continue;
    }
    const auto before = now.find(voter.value());
    const ServerLine& line = then.at(voter.value());
    const bool stays =
        before == now.end() || before->second.host.empty() ||
        (before->second.host == line.host && before->second.peer_port == line.peer_port);
    if (stays && links_->DownForMs(voter) == 0) ++reached;
  }
  if (reached > target.voters.size() / 2) return absl::OkStatus();
  return absl::UnavailableError(
      "too many of the voters of the new membership are at new addresses, where it is not known "
      "whether they can be reached, or are not reached now; bring one back or add one first");
}

void Replica::FinishChange() {
  if (!change_.has_value()) return;
  const consensus::Raft& raft = node_->raft();
  const Membership& membership = raft.membership();
  const bool is_committed = !membership.joint() && raft.MembershipIsCommitted();
  const bool leads_still = raft.role() == consensus::Role::kLeader && raft.term() == change_->term;
  const bool is_undone = membership != change_->target && membership == change_->before;
  // Committed and not applied here yet, or not committed and still in the hands of this leader.
  const bool is_under_way = is_committed ? !is_undone && applied_ < raft.membership_index()
                                         : raft.role() == consensus::Role::kLeader;
  absl::Status outcome;
  if (is_committed && is_undone && leads_still) {
    outcome = absl::UnavailableError(
        "the change was taken back, because no majority of the new voters answered; see that they "
        "run and reach the leader");
    spdlog::warn("the members stay: {}; {}", consensus::ToString(membership),
                 std::string(outcome.message()));
  } else if (is_committed && membership != change_->target && !is_undone) {
    outcome = absl::AbortedError(absl::StrCat("the members were changed otherwise meanwhile: ",
                                              consensus::ToString(membership)));
  } else if (is_under_way) {
    return;
  } else if (!is_committed || is_undone) {
    outcome = UnknownOutcome(
        "this member stopped leading before the change was committed, so it may or may not take "
        "place: look at the members, and ask again if it did not");
  }
  const PendingChange finished = *std::exchange(change_, std::nullopt);
  finished.done(std::move(outcome));
}

bool Replica::IsObserver(const Membership& membership) const {
  const MemberId self = options_.node.raft.self;
  if (membership.Contains(self)) return !membership.IsVoter(self);
  const auto own = options_.servers.find(self.value());
  return own != options_.servers.end() && own->second.observer;
}

void Replica::LinkMembers(const Membership& membership) {
  if (options_.standalone) return;
  PeerAddresses others;
  for (const auto& [id, line] : MembersOf(membership, options_.servers)) {
    if (MemberId(id) != options_.node.raft.self) others[MemberId(id)] = {line.host, line.peer_port};
  }
  for (const MemberId id : membership.Members()) {
    if (id == options_.node.raft.self || others.contains(id)) continue;
    spdlog::error(
        "no address of server {} is known: neither the log nor the configuration of this server "
        "has one; add its server.N line",
        id.value());
  }
  // A server that is not in the membership waits to be admitted by those that its configuration
  // names. One that was away while the members changed may not know the leader yet, or where it is:
  // its configuration can.
  const bool is_waiting = !membership.Contains(options_.node.raft.self) || !caught_up_;
  for (const auto& [id, line] : options_.servers) {
    const MemberId member(id);
    if (member == options_.node.raft.self) continue;
    const PeerAddress configured{line.host, line.peer_port};
    const auto known = others.find(member);
    if (known != others.end() && at_configured_.contains(member)) known->second = configured;
    if (known == others.end() && is_waiting) others.emplace(member, configured);
  }
  links_->SetMembers(others);
}

void Replica::TryOtherAddresses() {
  // A member that was away may have missed that another one moved, and the log may never have learned it.
  // If that one leads, nothing tells this member so, unless it can be reached.
  constexpr int64_t kTryMs = 2000;
  const auto now = clock_->Now();
  // Each address is tried for as long, so that there is time to connect.
  if (options_.standalone || now - addresses_tried_ < std::chrono::milliseconds(kTryMs)) return;
  const Membership& membership = node_->raft().membership();
  const ServerLines known = MembersOf(membership, options_.servers);
  bool is_changed = false;
  for (const auto& [id, configured] : options_.servers) {
    const MemberId member(id);
    const auto line = known.find(id);
    if (member == options_.node.raft.self || line == known.end()) continue;
    if (line->second.host == configured.host && line->second.peer_port == configured.peer_port) {
      continue;
    }
    if (links_->DownForMs(member) < kTryMs) continue;
    if (at_configured_.erase(member) == 0) at_configured_.insert(member);
    is_changed = true;
  }
  if (!is_changed) return;
  addresses_tried_ = now;
  LinkMembers(membership);
}

}  // namespace quorate::rpc
