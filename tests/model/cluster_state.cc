// SPDX-License-Identifier: Apache-2.0

#include "tests/model/cluster_state.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/assert.h"

namespace quorate::model {
namespace {

using consensus::kNoMember;
using consensus::MemberState;
using consensus::RaftOptions;
using consensus::Role;
using consensus::TestMember;

constexpr int kElectionTicks = 3;

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

uint64_t HashOf(std::string_view bytes) {
  uint64_t hash = 14695981039346656037u;
  for (char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return Mix(hash, bytes.size());
}

// The random source of a member: no number repeats, and all are 0 modulo any small number, so that
// election timeouts are known. `count` points into the current ClusterState.
class Draws final : public consensus::RandomSource {
 public:
  uint64_t Next() override {
    constexpr uint64_t kMultipleOfSmall = 27720;
    return ++*count * kMultipleOfSmall;
  }
  uint64_t* count = nullptr;
};

constexpr size_t kMembersMax = 8;
Draws draws[kMembersMax];

// Kinds of inputs, for histories.
enum Input : uint64_t {
  kTimedOut = 1,
  kTicked,
  kProposed,
  kPersisted,
  kLostDisk,
  kForgot,
  kChanged
};

bool IsResponse(const Message& message) {
  return std::holds_alternative<consensus::VoteResponse>(message.body) ||
         std::holds_alternative<consensus::AppendAccepted>(message.body) ||
         std::holds_alternative<consensus::AppendRejected>(message.body);
}

bool IsRealVoteRequest(const Message& message) {
  const auto* request = std::get_if<consensus::VoteRequest>(&message.body);
  return request != nullptr && !request->pre_vote;
}

}  // namespace

ClusterState::ClusterState(const Scenario* scenario)
    : scenario_(scenario),
      draws_(scenario->logs.size()),
      histories_(scenario->logs.size()),
      left_(scenario->budget) {
  ASSERT(scenario->logs.size() <= kMembersMax);
  ASSERT(scenario->hard_states.size() == scenario->logs.size());
  members_.resize(scenario->logs.size());
  for (uint32_t i = 0; i < members_.size(); ++i) draws[i].count = &draws_[i];
  for (uint32_t i = 0; i < members_.size(); ++i) {
    TestMember::Disk disk;
    disk.hard_state = scenario->hard_states[i];
    disk.log = scenario->logs[i];
    members_[i].emplace(OptionsOf(MemberId{i + 1}), std::move(disk), &draws[i]);
  }
  for (uint32_t i = 1; i <= members_.size(); ++i) Follow(MemberId{i}, Action::Crash::kNone);
  // Every later leader must have the initial committed entries.
  for (Committed& committed : committed_) committed.term = Term{0};
  if (scenario->first_leader != kNoMember) {
    RunTimeout(scenario->first_leader);
    Follow(scenario->first_leader, Action::Crash::kNone);
    Settle();
    ASSERT(member(scenario->first_leader).raft().role() == Role::kLeader);
  }
  network_.clear();
  std::fill(histories_.begin(), histories_.end(), 0);
}

RaftOptions ClusterState::OptionsOf(MemberId id) const {
  RaftOptions options;
  options.self = id;
  options.membership = scenario_->membership;
  options.election_ticks = kElectionTicks;
  options.heartbeat_ticks = 1;
  options.cluster_id_if_new = "cluster";
  return options;
}

// --- What may happen -----------------------------------------------------------------------------

std::vector<Action> ClusterState::Enabled() const {
  std::vector<Action> actions;
  AddDeliveries(&actions);
  for (uint32_t i = 1; i <= members_.size(); ++i) AddOthers(MemberId{i}, &actions);
  return actions;
}

void ClusterState::AddDeliveries(std::vector<Action>* actions) const {
  for (size_t i = 0; i < network_.size(); ++i) {
    if (i > 0 && network_[i - 1].key == network_[i].key) continue;  // an equal message
    const Message& message = network_[i].message;
    if (IsPointless(message)) continue;
    if (IsRealVoteRequest(message) && !MayBeVotedFor()) continue;
    const Action action{.kind = Action::Kind::kDeliver, .member = message.to, .which = i};
    AddWithCrashes(action, actions);
    if (left_.duplicates > 0) {
      Action duplicate = action;
      duplicate.stays = true;
      actions->push_back(duplicate);
    }
  }
}

void ClusterState::AddWithCrashes(Action action, std::vector<Action>* actions) const {
  actions->push_back(action);
  if (left_.crashes == 0) return;
  // After a crash the member would no longer know that entries are missing.
  if (forgotten_ && forgotten_->member == action.member) return;
  for (Action::Crash crash : {Action::Crash::kNothingWritten, Action::Crash::kHardStateWritten}) {
    action.crash = crash;
    actions->push_back(action);
  }
}

void ClusterState::AddOthers(MemberId id, std::vector<Action>* actions) const {
  using Kind = Action::Kind;
  const TestMember& one = member(id);
  const bool leads = one.raft().role() == Role::kLeader;
  const bool recovers = one.raft().member_state() != MemberState::kNormal;
  if (left_.timeouts > 0 && !leads && MayBeVotedFor() && one.raft().membership().IsVoter(id)) {
    AddWithCrashes({.kind = Kind::kTimeout, .member = id}, actions);
  }
  if (left_.ticks > 0 && (leads || recovers))
    actions->push_back({.kind = Kind::kTick, .member = id});
  if (left_.proposals > 0 && leads) AddWithCrashes({.kind = Kind::kPropose, .member = id}, actions);
  if (one.unpersisted() > 0) actions->push_back({.kind = Kind::kPersist, .member = id});
  if (left_.changes > 0 && leads) {
    for (size_t i = 0; i < scenario_->targets.size(); ++i) {
      if (scenario_->targets[i] == one.raft().membership()) continue;
      AddWithCrashes({.kind = Kind::kChange, .member = id, .which = i}, actions);
    }
  }
  const bool others_are_full =
      std::all_of(members_.begin(), members_.end(), [id](const auto& other) {
        return other->id == id || other->raft().member_state() == MemberState::kNormal;
      });
  if (left_.lost_disks > 0 && others_are_full && !forgotten_ && !one.disk().log.empty()) {
    actions->push_back({.kind = Kind::kLoseDisk, .member = id});
  }
  if (left_.forgotten > 0 && others_are_full && !leads && LeaderOf(one) != nullptr) {
    for (size_t entries = 1; entries <= one.disk().log.size(); ++entries) {
      actions->push_back({.kind = Kind::kForget, .member = id, .which = entries});
    }
  }
}

bool ClusterState::MayBeVotedFor() const { return !forgotten_ || forgotten_->told; }

const TestMember* ClusterState::LeaderOf(const TestMember& follower) const {
  for (const auto& other : members_) {
    const consensus::Raft& raft = other->raft();
    if (raft.role() == Role::kLeader && raft.term() == follower.raft().term() &&
        raft.match_index(follower.id).value() >= follower.disk().log.size()) {
      return &*other;
    }
  }
  return nullptr;
}

bool ClusterState::IsPointless(const Message& message) const {
  const consensus::Raft& raft = member(message.to).raft();
  if (!IsResponse(message)) return false;
  if (message.term < raft.term()) return true;
  if (message.term > raft.term()) return false;
  const bool is_vote = std::holds_alternative<consensus::VoteResponse>(message.body);
  return is_vote ? raft.role() == Role::kFollower || raft.role() == Role::kLeader
                 : raft.role() != Role::kLeader;
}

bool ClusterState::IsInstant(const Message& message) const {
  const auto* request = std::get_if<consensus::VoteRequest>(&message.body);
  const auto* response = std::get_if<consensus::VoteResponse>(&message.body);
  const bool is_prevote =
      (request != nullptr && request->pre_vote) || (response != nullptr && response->pre_vote);
  const bool is_acknowledgement =
      std::holds_alternative<consensus::DirectoryEpochRequest>(message.body) ||
      std::holds_alternative<consensus::DirectoryEpochResponse>(message.body);
  // Responses to heartbeats only confirm reads; they promise nothing.
  return std::holds_alternative<consensus::HeartbeatResponse>(message.body) ||
         (is_prevote && scenario_->prevotes_are_instant) ||
         (is_acknowledgement && scenario_->acknowledgements_are_instant);
}

// --- What happens --------------------------------------------------------------------------------

void ClusterState::Do(const Action& action) {
  for (size_t i = 0; i < draws_.size(); ++i) draws[i].count = &draws_[i];
  const MemberId id = action.member;
  if (action.crash != Action::Crash::kNone) --left_.crashes;
  switch (action.kind) {
    case Action::Kind::kDeliver: {
      const Flight flight = network_[action.which];
      if (action.stays) {
        --left_.duplicates;
      } else {
        network_.erase(network_.begin() + static_cast<std::ptrdiff_t>(action.which));
      }
      Record(id, flight.key);
      const bool is_notice = std::holds_alternative<consensus::LossNotice>(flight.message.body);
      if (is_notice && forgotten_ && forgotten_->member == id) forgotten_->told = true;
      member(id).raft().Step(flight.message);
      break;
    }
    case Action::Kind::kTimeout:
      --left_.timeouts;
      RunTimeout(id);
      break;
    case Action::Kind::kTick:
      --left_.ticks;
      Record(id, kTicked);
      member(id).raft().Tick();
      break;
    case Action::Kind::kPropose: {
      --left_.proposals;
      Record(id, Mix(kProposed, next_value_));
      std::vector<Slice> payloads{Slice("v" + std::to_string(next_value_++))};
      // A leader that transfers leadership refuses it, for instance.
      member(id).raft().Propose(std::move(payloads)).IgnoreError();
      break;
    }
    case Action::Kind::kPersist:
      Record(id, kPersisted);
      member(id).Persist(member(id).unpersisted());
      break;
    case Action::Kind::kLoseDisk:
      LoseDisk(id);
      break;
    case Action::Kind::kForget:
      Forget(id, action.which);
      break;
    case Action::Kind::kChange:
      --left_.changes;
      Record(id, Mix(kChanged, action.which));
      member(id).raft().ChangeMembership(scenario_->targets[action.which]).IgnoreError();
      break;
  }
  Follow(id, action.crash);
}

void ClusterState::Settle() {
  while (!network_.empty()) {
    Do({.kind = Action::Kind::kDeliver, .member = network_.front().message.to});
    for (const auto& one : members_) {
      if (one->unpersisted() > 0) Do({.kind = Action::Kind::kPersist, .member = one->id});
    }
  }
}

void ClusterState::Record(MemberId id, uint64_t input) {
  uint64_t& history = histories_[id.value() - 1];
  history = Mix(history, input);
}

void ClusterState::RunTimeout(MemberId id) {
  Record(id, kTimedOut);
  for (int i = 0; i < 2 * kElectionTicks; ++i) {
    member(id).raft().Tick();
    member(id).Collect();
    const auto& sent = member(id).outbox;
    const bool asks = std::any_of(sent.begin(), sent.end(), [](const Message& message) {
      return std::holds_alternative<consensus::VoteRequest>(message.body);
    });
    if (asks) return;
  }
}

void ClusterState::LoseDisk(MemberId id) {
  --left_.lost_disks;
  Record(id, kLostDisk);
  member(id).Crash({});
  member(id).RestartNew();
}

void ClusterState::Forget(MemberId id, size_t entries) {
  --left_.forgotten;
  Record(id, Mix(kForgot, entries));
  TestMember::Disk disk = member(id).disk();
  forgotten_ = Forgotten{id, Index{disk.log.size()}, disk.log.back().term};
  disk.log.resize(disk.log.size() - entries);
  const auto& before = scenario_->forgotten_suffix;
  if (disk.log.size() < before.size() &&
      std::equal(disk.log.begin(), disk.log.end(), before.begin())) {
    disk.log.insert(disk.log.end(), before.begin() + static_cast<std::ptrdiff_t>(disk.log.size()),
                    before.end());
  }
  disk.hard_state.commit = std::min(disk.hard_state.commit, Index{disk.log.size()});
  // Messages of the crashed process are lost with its connections.
  std::erase_if(network_, [id](const Flight& flight) { return flight.message.from == id; });
  members_[id.value() - 1].emplace(OptionsOf(id), std::move(disk), &draws[id.value() - 1]);
}

void ClusterState::Follow(MemberId id, Action::Crash crash) {
  member(id).Collect();
  if (crash == Action::Crash::kNone) {
    Drive(id);
  } else {
    CrashAndRestart(id, crash);
  }
  Check(id);
  TakeMessages(id);
}

void ClusterState::CrashAndRestart(MemberId id, Action::Crash crash) {
  const bool writes = member(id).unpersisted() > 0;
  // A member without pending writes loses nothing in either case.
  Record(id, Mix(static_cast<uint64_t>(crash), writes));
  std::vector<Message> sent = std::exchange(member(id).outbox, {});
  TestMember::Torn torn;
  if (crash == Action::Crash::kHardStateWritten) torn.hard_states = member(id).unpersisted();
  member(id).Crash(torn);
  member(id).Restart(Index{0});
  Drive(id);
  std::move(sent.begin(), sent.end(), std::back_inserter(member(id).outbox));
}

void ClusterState::Drive(MemberId id) {
  TestMember& one = member(id);
  for (;;) {
    one.Collect();
    const bool waits = scenario_->leader_writes_are_slow && one.raft().role() == Role::kLeader;
    if (one.unpersisted() > 0 && !waits) {
      one.Persist(one.unpersisted());
    } else if (one.can_apply()) {
      one.ApplyOne();
    } else if (one.can_read_log()) {
      one.AnswerLogRead();
    } else {
      return;
    }
  }
}

void ClusterState::TakeMessages(MemberId id) {
  std::vector<Message> instant;
  for (Message& message : std::exchange(member(id).outbox, {})) {
    if (message.to.value() > members_.size()) continue;
    if (IsInstant(message)) {
      instant.push_back(std::move(message));
      continue;
    }
    std::string bytes;
    EncodeMessage(message, &bytes);
    const uint64_t key = Mix(HashOf(bytes), message.to.value());
    const auto at = std::lower_bound(network_.begin(), network_.end(), key,
                                     [](const Flight& f, uint64_t k) { return f.key < k; });
    network_.insert(at, Flight{key, std::move(message)});
  }
  for (Message& message : instant) {
    const MemberId to = message.to;
    std::string bytes;
    EncodeMessage(message, &bytes);
    Record(to, HashOf(bytes));
    member(to).raft().Step(std::move(message));
    Follow(to, Action::Crash::kNone);
  }
}

uint64_t ClusterState::Key() const {
  uint64_t key = 0;
  for (uint64_t history : histories_) key = Mix(key, history);
  return key;
}

// --- What must hold ------------------------------------------------------------------------------

void ClusterState::Fail(std::string what) {
  if (violation_.empty()) violation_ = std::move(what);
}

void ClusterState::Check(MemberId id) {
  const TestMember& one = member(id);
  one.raft().CheckInvariants();
  if (forgotten_ && forgotten_->member == id) {
    const auto& log = one.disk().log;
    const size_t last = forgotten_->last.value();
    // A later leader may have replaced the entries.
    const bool is_there = log.size() >= last && log[last - 1].term >= forgotten_->last_term;
    if (is_there) forgotten_.reset();
  }
  CheckLeader(one);
  CheckCommits(one);
  CheckLogs(one);
}

void ClusterState::CheckLeader(const TestMember& one) {
  if (one.raft().role() != Role::kLeader) return;
  const Term term = one.raft().term();
  const auto [leader, is_new] = leaders_.emplace(term, one.id);
  if (leader->second != one.id) {
    Fail("two leaders in term " + std::to_string(term.value()));
  }
  for (size_t i = 0; i < committed_.size(); ++i) {
    const Committed& committed = committed_[i];
    if (committed.term > term) continue;
    if (one.log().size() <= i || !(one.log()[i] == committed.entry)) {
      Fail("the leader of term " + std::to_string(term.value()) + " lacks the committed entry " +
           ToString(committed.entry));
      return;
    }
  }
}

void ClusterState::CheckCommits(const TestMember& one) {
  const size_t commit = one.raft().commit_index().value();
  for (size_t i = committed_.size(); i < commit; ++i) {
    committed_.push_back({one.log()[i], one.raft().term()});
  }
  for (size_t i = 0; i < commit; ++i) {
    if (!(one.log()[i] == committed_[i].entry)) {
      Fail("two entries are committed at one index: " + ToString(committed_[i].entry) + " and " +
           ToString(one.log()[i]));
      return;
    }
  }
  for (size_t i = 0; i < one.applied().size(); ++i) {
    if (i >= committed_.size() || !(one.applied()[i] == committed_[i].entry)) {
      Fail("an entry is applied that is not committed: " + ToString(one.applied()[i]));
      return;
    }
  }
}

void ClusterState::CheckLogs(const TestMember& one) {
  for (const auto& other : members_) {
    if (other->id == one.id) continue;
    const size_t size = std::min(one.log().size(), other->log().size());
    bool agree_from_here = false;
    for (size_t i = size; i-- > 0;) {
      const Entry& a = one.log()[i];
      const Entry& b = other->log()[i];
      if (a.term == b.term) agree_from_here = true;
      if (agree_from_here && !(a == b)) {
        Fail("logs differ at or before an entry with equal terms: " + ToString(a) + " and " +
             ToString(b));
        return;
      }
    }
  }
}

// --- For people ----------------------------------------------------------------------------------

std::string ClusterState::Describe(const Action& action) const {
  std::string text = std::to_string(action.member.value()) + " ";
  switch (action.kind) {
    case Action::Kind::kDeliver:
      text += "receives " + ToString(network_[action.which].message);
      break;
    case Action::Kind::kTimeout:
      text += "receives nothing for an election timeout";
      break;
    case Action::Kind::kTick:
      text += "has a tick";
      break;
    case Action::Kind::kPropose:
      text += "gets the command v" + std::to_string(next_value_);
      break;
    case Action::Kind::kPersist:
      text += "has its writes on the disk";
      break;
    case Action::Kind::kLoseDisk:
      text += "loses its disk, and starts with an empty one";
      break;
    case Action::Kind::kForget:
      text +=
          "starts again, and its disk has forgotten " + std::to_string(action.which) + " entries";
      break;
    case Action::Kind::kChange:
      text += "is asked to change the membership to " + ToString(scenario_->targets[action.which]);
      break;
  }
  if (action.stays) text += ", which will arrive again";
  if (action.crash == Action::Crash::kNothingWritten) text += ", and crashes before its write";
  if (action.crash == Action::Crash::kHardStateWritten) text += ", and crashes within its write";
  return text;
}

std::string ClusterState::Describe() const {
  std::string text;
  for (const auto& one : members_) {
    text += "    " + one->raft().ToString() + " log:";
    for (const Entry& entry : one->log()) text += " " + std::to_string(entry.term.value());
    text += '\n';
  }
  return text;
}

}  // namespace quorate::model
