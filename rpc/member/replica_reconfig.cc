// SPDX-License-Identifier: Apache-2.0

// The part of a replica that changes the members as a client asks by ZooKeeper's reconfig: brings the
// request to the leader, and takes the steps there (rpc/membership/reconfiguration.h).
#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "rpc/member/replica.h"
#include "rpc/membership/members.h"
#include "tree/acl.h"

namespace quorate::rpc {
namespace {

using consensus::MemberId;
using consensus::Membership;
using tree::ErrorCode;

constexpr std::string_view kConfigPath = "/zookeeper/config";
constexpr ReconfigurationOutcome kUnknown{.is_known = false};
// How long the leader tries to take learners out again, in election timeouts.
constexpr int kUndoElections = 10;
// How long the answer of a leader that has stepped down is awaited, in election timeouts.
constexpr int kAnswerElections = 10;
// How long the leader tries to send an answer, in election timeouts, and how many it keeps for that.
constexpr int kUnsentElections = 100;
constexpr size_t kUnsentAnswersMax = 1000;

ReconfigurationOutcome Failed(ErrorCode error) { return {.is_known = true, .error = error}; }

bool MayReconfigure(const tree::Tree& tree, const std::vector<tree::Identity>& identities) {
  const tree::Identity super{"super", ""};
  std::vector<tree::Acl> acl;
  tree::Stat stat;
  // Without the znode, the empty list lets only the super user pass.
  tree.GetAcl(kConfigPath, {&super, 1}, &acl, &stat);
  return tree::IsAllowed(acl, identities, tree::permission::kWrite);
}

// Returns the text of /zookeeper/config; "" before the first change of the members.
std::string ShownMembers(const tree::Tree& tree) {
  const tree::Identity super{"super", ""};
  std::string_view text;
  bool has_text = false;
  tree::Stat stat;
  const ErrorCode error = tree.GetData(kConfigPath, {&super, 1}, &text, &has_text, &stat);
  return error == ErrorCode::kOk && has_text ? std::string(text) : "";
}

int64_t ShownVersion(const tree::Tree& tree) { return VersionOf(ShownMembers(tree)); }

}  // namespace

std::string Replica::DurableMembersText() const {
  if (!status().caught_up) return "";
  std::string text;
  {
    const GuardedTree::ReadGuard tree = ReadTree();
    text = ShownMembers(*tree);
  }
  // A change is applied when a majority has it, which may be before this server's disk has it.
  const int64_t version = VersionOf(text);
  const auto durable = static_cast<int64_t>(durable_index_.load(std::memory_order_relaxed));
  return version > 0 && version <= durable ? text : "";
}

void Replica::Reconfigure(Reconfiguration request,
                          std::function<void(ReconfigurationOutcome)> done) {
  node_->Post([this, request = std::move(request), done = std::move(done)] {
    const MemberId leader = raft_status_.leader;
    if (leader == options_.node.raft.self) return LeadReconfig(request, done);
    if (leader == consensus::kNoMember) return done(kUnknown);
    const uint64_t id = next_reconfig_++;
    switch (links_->SendReconfig(leader, {.is_answer = false, .id = id, .body = Encode(request)})) {
      case PeerLinks::SendResult::kSent:
        reconfigs_sent_[id] = {leader, raft_status_.term, done};
        return;
      case PeerLinks::SendResult::kNotSent:
        return done(kUnknown);
      case PeerLinks::SendResult::kNotUnderstood:
        // A leader of an earlier release answers reconfig in no other way.
        return done(Failed(ErrorCode::kReconfigDisabled));
    }
  });
}

absl::Status Replica::OnReconfigNotes(MemberId from, std::vector<ReconfigNote> notes) {
  for (const ReconfigNote& note : notes) {
    if (note.is_answer) {
      const auto outcome = DecodeReconfigurationOutcome(note.body);
      if (!outcome.ok()) return outcome.status();
      node_->Post(
          [this, from, id = note.id, outcome = *outcome] { OnReconfigAnswer(from, id, outcome); });
      continue;
    }
    auto request = DecodeReconfiguration(note.body);
    if (!request.ok()) return request.status();
    node_->Post([this, from, id = note.id, request = *std::move(request)] {
      LeadReconfig(request, [this, from, id](ReconfigurationOutcome outcome) {
        // If this is lost with the link, the member that asked has the same news from the link. What
        // finds no link is sent later.
        unsent_answers_.push_back({from, clock_->Now(), {true, id, Encode(outcome)}});
        if (unsent_answers_.size() > kUnsentAnswersMax) unsent_answers_.pop_front();
        SendAnswers();
      });
    });
  }
  return absl::OkStatus();
}

void Replica::SendAnswers() {
  const auto now = clock_->Now();
  const std::chrono::milliseconds patience(kUnsentElections * options_.election_timeout_ms);
  std::erase_if(unsent_answers_, [&](const UnsentAnswer& answer) {
    return links_->SendReconfig(answer.to, answer.note) == PeerLinks::SendResult::kSent ||
           now - answer.since >= patience;
  });
}

void Replica::OnReconfigAnswer(MemberId from, uint64_t id, const ReconfigurationOutcome& outcome) {
  const auto sent = reconfigs_sent_.find(id);
  if (sent == reconfigs_sent_.end() || sent->second.leader != from) return;
  const auto done = std::move(sent->second.done);
  reconfigs_sent_.erase(sent);
  const consensus::Index needed(static_cast<uint64_t>(outcome.zxid.value()));
  if (needed <= applied_) return done(outcome);
  reconfigs_unapplied_.emplace(needed, [done, outcome] { done(outcome); });
}

void Replica::ForgetReconfigs(MemberId lost_link) {
  if (reconfigs_sent_.empty()) return;
  const auto now = clock_->Now();
  const std::chrono::milliseconds patience(kAnswerElections * options_.election_timeout_ms);
  std::vector<std::function<void(ReconfigurationOutcome)>> lost;
  for (auto it = reconfigs_sent_.begin(); it != reconfigs_sent_.end();) {
    SentReconfig& one = it->second;
    const bool leads = one.leader == raft_status_.leader && one.term == raft_status_.term;
    if (!leads && !one.stale_since.has_value()) one.stale_since = now;
    const bool is_awaited = !one.stale_since.has_value() || now - *one.stale_since < patience;
    if (is_awaited && one.leader != lost_link) {
      ++it;
      continue;
    }
    lost.push_back(std::move(one.done));
    it = reconfigs_sent_.erase(it);
  }
  for (const auto& done : lost) done(kUnknown);
}

void Replica::FinishAppliedReconfigs() {
  while (!reconfigs_unapplied_.empty() && reconfigs_unapplied_.begin()->first <= applied_) {
    const auto done = std::move(reconfigs_unapplied_.begin()->second);
    reconfigs_unapplied_.erase(reconfigs_unapplied_.begin());
    done();
  }
}

// --- At the leader -------------------------------------------------------------------------------

bool Replica::IsChangingMembers() const {
  const consensus::Raft& raft = node_->raft();
  return change_.has_value() || reconfig_.has_value() || raft.membership().joint() ||
         !raft.MembershipIsCommitted() || applied_ < raft.membership_index();
}

void Replica::LeadReconfig(const Reconfiguration& request,
                           std::function<void(ReconfigurationOutcome)> done) {
  // The tree decides who may do it and what the version is, so it has to have what is committed.
  const consensus::Index committed = node_->raft().commit_index();
  if (committed <= applied_) return BeginReconfig(request, done);
  reconfigs_unapplied_.emplace(committed, [this, request, done] { BeginReconfig(request, done); });
}

void Replica::BeginReconfig(const Reconfiguration& request,
                            std::function<void(ReconfigurationOutcome)> done) {
  const bool leads = raft_status_.leader_established && applied_term_ == raft_status_.term;
  if (!leads) return done(kUnknown);
  if (!options_.reconfig_enabled) return done(Failed(ErrorCode::kReconfigDisabled));
  int64_t version = 0;
  {
    const GuardedTree::ReadGuard tree = ReadTree();
    if (!MayReconfigure(*tree, request.identities)) return done(Failed(ErrorCode::kNoAuth));
    version = ShownVersion(*tree);
  }
  if (options_.standalone) return done(Failed(ErrorCode::kUnimplemented));
  if (IsChangingMembers()) return done(Failed(ErrorCode::kReconfigInProgress));
  if (request.based_on != -1 && request.based_on != version) {
    return done(Failed(ErrorCode::kBadVersion));
  }
  const ServerLines now = MembersOf(node_->raft().membership(), options_.servers);
  auto goal = GoalOf(request, now, options_.standalone_enabled ? 2 : 1);
  absl::Status problem = goal.status();
  // Also refuses what only the addresses of members in the log may not be.
  if (problem.ok()) problem = MembershipOf(*goal).status();
  if (!problem.ok()) {
    spdlog::warn("a reconfig is refused: {}", std::string(problem.message()));
    return done(Failed(ErrorCode::kBadArguments));
  }
  spdlog::info("a client reconfigures the members to: {}", FormatMembers(*goal, "next"));
  RecordChange(now, *goal);
  reconfig_.emplace(
      Reconfig{.before = now,
               .goal = *std::move(goal),
               .deadline = clock_->Now() + std::chrono::milliseconds(options_.reconfig_timeout_ms),
               .done = std::move(done)});
  AdvanceReconfig();
}

void Replica::FinishReconfig(const ReconfigurationOutcome& outcome) {
  const Reconfig finished = *std::exchange(reconfig_, std::nullopt);
  if (outcome.is_known && outcome.error == ErrorCode::kOk) {
    RecordOutcome(absl::OkStatus());
  } else {
    RecordOutcome(absl::UnavailableError(outcome.is_known ? finished.problem
                                                          : "this server does not lead any more"));
  }
  finished.done(outcome);
}

void Replica::AdvanceReconfig() {
  if (!reconfig_.has_value() || change_.has_value()) return;
  if (!raft_status_.leader_established) return FinishReconfig(kUnknown);
  const consensus::Raft& raft = node_->raft();
  if (raft.membership().joint() || !raft.MembershipIsCommitted()) return;
  const ServerLines now = MembersOf(raft.membership(), options_.servers);
  if (clock_->Now() >= reconfig_->deadline) {
    if (reconfig_->undoes) {
      spdlog::error("the members that did not catch up stay observers; remove them");
      return FinishReconfig(Failed(ErrorCode::kNewConfigNoQuorum));
    }
    spdlog::warn("a reconfig is given up: {}", reconfig_->problem);
    reconfig_->undoes = true;
    reconfig_->deadline =
        clock_->Now() + std::chrono::milliseconds(kUndoElections * options_.election_timeout_ms);
  }
  const auto is_caught_up = [&](uint32_t id) {
    const MemberId member(id);
    return links_->DownForMs(member) == 0 && raft.HasCaughtUp(member);
  };
  MembershipStep step;
  if (!reconfig_->undoes) {
    step = NextStep(now, reconfig_->goal, is_caught_up);
  } else if (!AreSame(now, reconfig_->before)) {
    step = {MembershipStep::Kind::kPropose, reconfig_->before};
  }
  TakeReconfigStep(step);
}

void Replica::TakeReconfigStep(const MembershipStep& step) {
  using Kind = MembershipStep::Kind;
  const consensus::Raft& raft = node_->raft();
  switch (step.kind) {
    case Kind::kDone:
      if (reconfig_->undoes) return FinishReconfig(Failed(ErrorCode::kNewConfigNoQuorum));
      return FinishReconfig(
          {.is_known = true, .zxid = tree::Zxid(static_cast<int64_t>(applied_.value()))});
    case Kind::kWait:
      reconfig_->problem = "member " + std::to_string(step.waits_for) +
                           " cannot be reached, or has not caught up within initLimit";
      return;
    case Kind::kPropose:
      break;
  }
  absl::StatusOr<Membership> target = MembershipOf(step.members);
  absl::Status begun = target.status();
  if (begun.ok()) begun = BeginChange(*target, raft.membership_index());
  if (!begun.ok()) {
    reconfig_->problem = std::string(begun.message());  // tried again until the deadline
    return;
  }
  const bool is_last = reconfig_->undoes || AreSame(step.members, reconfig_->goal);
  SetChange(*std::move(target),
            [this, is_last](const absl::Status& outcome) { OnReconfigStep(outcome, is_last); });
}

void Replica::OnReconfigStep(const absl::Status& outcome, bool is_last) {
  if (absl::IsUnavailable(outcome) && raft_status_.leader_established) {
    // It was taken back, and is tried again until the deadline.
    reconfig_->problem = std::string(outcome.message());
    return;
  }
  if (!outcome.ok()) return FinishReconfig(kUnknown);
  if (!is_last) return AdvanceReconfig();
  if (reconfig_->undoes) return FinishReconfig(Failed(ErrorCode::kNewConfigNoQuorum));
  const auto index = static_cast<int64_t>(node_->raft().membership_index().value());
  FinishReconfig({.is_known = true, .zxid = tree::Zxid(index)});
}

}  // namespace quorate::rpc
