// SPDX-License-Identifier: Apache-2.0

#include "tests/model/scenarios.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "consensus/core/membership.h"

namespace quorate::model {
namespace {

using consensus::EntryKind;
using consensus::HardState;
using consensus::kNoMember;
using consensus::MemberState;

// Returns a log whose entries have the given terms: the no-op with the cluster id, the cluster
// version, and then commands.
std::vector<Entry> LogOf(std::initializer_list<uint64_t> terms) {
  std::vector<Entry> log;
  for (uint64_t term : terms) {
    Entry entry{Index{log.size() + 1}, Term{term}, EntryKind::kCommand, Slice()};
    if (log.empty()) {
      entry.kind = EntryKind::kNoOp;
      entry.payload = Slice(std::string("cluster"));
    } else if (log.size() == 1) {
      entry.kind = EntryKind::kVersion;
      entry.payload = Slice(consensus::EncodeVersion(consensus::kVersionNewest));
    } else {
      entry.payload = Slice("e" + std::to_string(log.size() + 1) + "@" + std::to_string(term));
    }
    log.push_back(std::move(entry));
  }
  return log;
}

HardState Full(uint64_t term, uint64_t commit) {
  return {Term{term}, kNoMember, Index{commit}, MemberState::kNormal};
}

std::vector<MemberId> Ids(std::initializer_list<uint32_t> ids) {
  std::vector<MemberId> result;
  for (uint32_t id : ids) result.emplace_back(id);
  return result;
}

Membership Of(std::initializer_list<uint32_t> voters,
              std::initializer_list<uint32_t> learners = {}) {
  return {Ids(voters), Ids(learners), {}, {}};
}

// Returns a scenario of three voters with equal logs.
Scenario Three(std::string name, std::string claim) {
  Scenario scenario;
  scenario.name = std::move(name);
  scenario.claim = std::move(claim);
  scenario.membership = Of({1, 2, 3});
  scenario.logs.assign(3, LogOf({1, 1}));
  scenario.hard_states.assign(3, Full(1, 2));
  return scenario;
}

Scenario Elections() {
  Scenario s = Three("elections", "two elections at any time elect one leader a term");
  s.budget = {.timeouts = 2, .duplicates = 1};
  s.depth = 9;
  s.long_depth = 12;
  return s;
}

Scenario ElectionsWithCrashes() {
  Scenario s = Three("elections with a crash", "a member never votes twice in a term");
  s.budget = {.timeouts = 2, .crashes = 1};
  s.depth = 8;
  s.long_depth = 11;
  return s;
}

Scenario Replication() {
  Scenario s = Three("replication", "committed entries are in the logs of all later leaders");
  s.first_leader = MemberId{1};
  s.budget = {.timeouts = 2, .proposals = 1};
  s.depth = 11;
  s.long_depth = 14;
  return s;
}

Scenario SlowDisk() {
  Scenario s = Three("slow disk", "a leader counts itself only once its entry is durable");
  s.first_leader = MemberId{1};
  s.budget = {.timeouts = 2, .proposals = 1, .crashes = 1};
  s.leader_writes_are_slow = true;
  s.depth = 8;
  s.long_depth = 11;
  return s;
}

Scenario CommitNews() {
  Scenario s = Three("commit-only append", "a follower commits only entries of the leader's log");
  // Member 3 has uncommitted entries of term 2, where the others have an entry of term 3.
  s.logs = {LogOf({1, 1, 3}), LogOf({1, 1, 3}), LogOf({1, 1, 2, 2})};
  s.hard_states = {Full(3, 2), Full(3, 2), Full(2, 2)};
  s.budget = {.timeouts = 1, .ticks = 1, .proposals = 1};
  s.depth = 10;
  s.long_depth = 13;
  return s;
}

// As in figure 8 of the Raft paper, shortly before the leader of term 4 replicates an entry of term
// 2: member 1 has it, member 3 has another one of term 3.
Scenario Figure8() {
  Scenario s = Three("figure 8", "an entry of an earlier term is not committed by counting copies");
  s.logs = {LogOf({1, 1, 2}), LogOf({1, 1}), LogOf({1, 1, 3})};
  s.hard_states = {Full(3, 2), Full(3, 2), Full(3, 2)};
  s.budget = {.timeouts = 3};
  s.depth = 11;
  s.long_depth = 13;
  return s;
}

Scenario LostDisk() {
  Scenario s = Three("lost disk", "a member that lost its disk breaks no promise");
  // Member 2 lacks an entry that members 1 and 3 have committed.
  s.logs = {LogOf({1, 1, 1}), LogOf({1, 1}), LogOf({1, 1, 1})};
  s.hard_states = {Full(1, 3), Full(1, 2), Full(1, 3)};
  s.first_leader = kNoMember;
  s.budget = {.timeouts = 2, .ticks = 1, .lost_disks = 1};
  s.depth = 8;
  s.long_depth = 11;
  return s;
}

Scenario LostDiskComesBack() {
  Scenario s = Three("lost disk comes back",
                     "a member that lost its disk counts again when it has what it promised");
  s.first_leader = MemberId{1};
  s.budget = {.timeouts = 1, .ticks = 2, .proposals = 1, .lost_disks = 1};
  s.acknowledgements_are_instant = true;
  s.depth = 8;
  s.long_depth = 11;
  return s;
}

Scenario Forgetful() {
  Scenario s = Three("forgetful disk",
                     "no committed entry is lost when a disk forgets acknowledged entries");
  s.logs.assign(3, LogOf({1, 1, 1, 1}));
  s.hard_states.assign(3, Full(1, 3));
  s.first_leader = MemberId{1};
  s.budget = {.timeouts = 2, .ticks = 1, .proposals = 1, .forgotten = 1};
  s.depth = 8;
  s.long_depth = 11;
  return s;
}

// Member 2 acknowledged entries 3 and 4 of term 2, but its disk still has others of term 1 there.
Scenario ForgetfulWithOldSuffix() {
  Scenario s = Three("forgetful disk with an old suffix",
                     "a heartbeat commits only entries that were matched");
  s.logs = {LogOf({1, 1, 2, 2}), LogOf({1, 1, 2, 2}), LogOf({1, 1, 2, 2})};
  s.hard_states.assign(3, Full(2, 2));
  s.first_leader = MemberId{1};
  s.forgotten_suffix = LogOf({1, 1, 1, 1, 1});
  s.budget = {.ticks = 2, .forgotten = 1};
  s.depth = 7;
  s.long_depth = 10;
  return s;
}

Scenario Change() {
  Scenario s;
  s.name = "membership change";
  s.claim = "majorities of two consecutive memberships never decide separately";
  s.membership = Of({1, 2, 3}, {4});
  s.logs.assign(4, LogOf({1, 1}));
  s.hard_states.assign(4, Full(1, 2));
  s.first_leader = MemberId{1};
  s.targets = {Of({1, 4}), Of({1, 2, 3, 4})};
  s.budget = {.timeouts = 2, .changes = 1};
  s.depth = 8;
  s.long_depth = 11;
  return s;
}

// The leader of term 2 began a membership change that only it has: {1} is a majority of the new
// set.
Scenario ChangeCutOff() {
  Scenario s;
  s.name = "membership change, cut off";
  s.claim = "a truncated membership entry is no longer in force";
  s.membership = Of({1, 2, 3});
  s.logs.assign(3, LogOf({1, 1}));
  s.hard_states.assign(3, Full(1, 2));
  s.first_leader = MemberId{1};
  s.targets = {Of({1, 2}), Of({1})};
  s.budget = {.timeouts = 3, .changes = 1};
  s.depth = 8;
  s.long_depth = 11;
  return s;
}

Scenario Bootstrap() {
  Scenario s = Three("bootstrap", "members with empty directories bootstrap at most one cluster");
  s.logs.assign(3, {});
  s.hard_states.assign(3, HardState{Term{0}, kNoMember, Index{0}, MemberState::kNew});
  s.prevotes_are_instant = false;
  s.budget = {.timeouts = 2};
  s.depth = 9;
  s.long_depth = 12;
  return s;
}

}  // namespace

std::vector<Scenario> AllScenarios() {
  return {Elections(),   ElectionsWithCrashes(),
          Replication(), SlowDisk(),
          CommitNews(),  Figure8(),
          LostDisk(),    LostDiskComesBack(),
          Forgetful(),   ForgetfulWithOldSuffix(),
          Change(),      ChangeCutOff(),
          Bootstrap()};
}

}  // namespace quorate::model
