// SPDX-License-Identifier: Apache-2.0

// A small cluster of real Raft objects in which the caller chooses every step, and which checks the
// invariants after each step. A copy continues independently, so that a search can try all
// continuations.
//
// Thread-safety: none; all states must belong to one thread, because they share a random source.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "consensus/core/message.h"
#include "consensus/core/testing/test_member.h"
#include "consensus/core/types.h"

namespace quorate::model {

using consensus::Entry;
using consensus::Index;
using consensus::MemberId;
using consensus::Membership;
using consensus::Message;
using consensus::Term;

// How often each kind of step may be taken, except the delivery of a message.
struct Budget {
  int timeouts = 0;    // a member receives nothing until it starts an election
  int ticks = 0;       // a leader sends heartbeats; a recovering member asks again
  int proposals = 0;   // of a command to a leader
  int crashes = 0;     // right after a step, before its writes are durable; then a restart
  int lost_disks = 0;  // a crash, and a start with an empty directory
  int forgotten = 0;   // a crash, and a start without the last durable entries
  int changes = 0;     // of the membership, to one of the scenario's targets
  int duplicates = 0;  // a message is delivered, and stays in flight
};

// The initial state of a search, and the steps that are allowed in it.
struct Scenario {
  std::string name;
  std::string claim;  // the property that the search shows
  Membership membership;
  // The log that each member has on its disk, all of it durable; empty: a new directory. For all
  // members, also those outside the membership, by number from 1 on.
  std::vector<std::vector<Entry>> logs;
  std::vector<consensus::HardState> hard_states;
  // The member that is elected before the search begins, with all messages delivered; kNoMember:
  // none.
  MemberId first_leader = consensus::kNoMember;
  std::vector<Membership> targets;
  // The older entries that a forgetful disk has behind the remaining ones, in place of the
  // forgotten ones.
  std::vector<Entry> forgotten_suffix;
  Budget budget;
  // The maximum number of steps of the short search, and of the long one.
  int depth = 0;
  int long_depth = 0;
  // Whether a leader's write becomes durable in a step of its own. (A follower's promise leaves
  // after its write, so that a slow write of a follower is the same as a slow message.)
  bool leader_writes_are_slow = false;
  // Messages that are delivered at once, because the claim does not depend on their order:
  // pre-votes, and the directory epoch messages of a member with a new directory.
  bool prevotes_are_instant = true;
  bool acknowledgements_are_instant = false;
};

struct Action {
  enum class Kind : uint8_t {
    kDeliver,
    kTimeout,
    kTick,
    kPropose,
    kPersist,
    kLoseDisk,
    kForget,
    kChange,
  };
  // Whether the member crashes within the step, and which of its writes survive.
  enum class Crash : uint8_t {
    kNone,
    kNothingWritten,
    kHardStateWritten,
  };
  Kind kind = Kind::kDeliver;
  MemberId member{};  // the member that takes the step
  size_t which = 0;   // index of a message in flight or of a target; or the number of forgotten
                      // entries
  Crash crash = Crash::kNone;
  bool stays = false;  // the message stays in flight, as a duplicate
};

class ClusterState {
 public:
  explicit ClusterState(const Scenario* scenario);
  ClusterState(const ClusterState&) = default;

  // Returns the possible actions; always the same for equal states, in the same order.
  std::vector<Action> Enabled() const;
  // Takes a step. REQUIRES: the action is enabled.
  void Do(const Action& action);
  // A hash of the state. It is equal only for states in which each member had the same inputs in
  // the same order; such states are the same, in whatever order steps of different members were
  // taken.
  uint64_t Key() const;
  // The first violated invariant; empty: none.
  const std::string& violation() const { return violation_; }

  std::string Describe(const Action& action) const;
  std::string Describe() const;

 private:
  struct Flight {
    uint64_t key;  // of its bytes
    Message message;
  };
  struct Committed {
    Entry entry;
    Term term;  // of the leader that committed it
  };
  // A member whose disk forgot entries that it had acknowledged, until it notices, or has them
  // again.
  struct Forgotten {
    MemberId member;
    Index last;
    Term last_term;
    bool told = false;
  };

  consensus::TestMember& member(MemberId id) { return *members_[id.value() - 1]; }
  const consensus::TestMember& member(MemberId id) const { return *members_[id.value() - 1]; }
  consensus::RaftOptions OptionsOf(MemberId id) const;
  void AddDeliveries(std::vector<Action>* actions) const;
  void AddOthers(MemberId id, std::vector<Action>* actions) const;
  void AddWithCrashes(Action action, std::vector<Action>* actions) const;
  // Delivers all messages in order until none is in flight.
  void Settle();
  // Adds an input to the member's history, which determines the member's state.
  void Record(MemberId id, uint64_t input);
  void RunTimeout(MemberId id);
  void LoseDisk(MemberId id);
  void Forget(MemberId id, size_t entries);
  // Processes the outputs of the member after an input, and their immediate consequences.
  void Follow(MemberId id, Action::Crash crash);
  void CrashAndRestart(MemberId id, Action::Crash crash);
  // Does the member's writes, applies and log reads whose order the search does not choose.
  void Drive(MemberId id);
  void TakeMessages(MemberId id);
  bool IsInstant(const Message& message) const;
  // Returns whether the delivery of the message could only change when something is resent.
  bool IsPointless(const Message& message) const;
  // Returns a leader that knows everything that the member has acknowledged; nullptr if there is
  // none.
  const consensus::TestMember* LeaderOf(const consensus::TestMember& follower) const;
  bool MayBeVotedFor() const;
  void Check(MemberId id);
  void CheckLeader(const consensus::TestMember& member);
  void CheckCommits(const consensus::TestMember& member);
  void CheckLogs(const consensus::TestMember& member);
  void Fail(std::string what);

  const Scenario* scenario_;
  std::vector<std::optional<consensus::TestMember>> members_;
  std::vector<uint64_t> draws_;      // of each member's random source
  std::vector<uint64_t> histories_;  // of each member's inputs
  std::vector<Flight> network_;      // ascending keys
  Budget left_;
  uint64_t next_value_ = 1;
  std::optional<Forgotten> forgotten_;
  std::vector<Committed> committed_;
  std::map<Term, MemberId> leaders_;
  std::string violation_;
};

}  // namespace quorate::model
