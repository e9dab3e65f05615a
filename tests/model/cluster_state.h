// A small cluster of real Raft objects whose every step is chosen from outside, with what must hold
// after each step. A copy of it goes on by itself, so that a search can try all continuations.
//
// Thread-safety: none; states of one thread only, for they share a random source.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "consensus/core/message.h"
#include "consensus/core/test_member.h"
#include "consensus/core/types.h"

namespace quorate::model {

using consensus::Entry;
using consensus::Index;
using consensus::MemberId;
using consensus::Membership;
using consensus::Message;
using consensus::Term;

// How often each kind of step may be taken that is no delivery of a message.
struct Budget {
  int timeouts = 0;    // a member hears nothing until it tries to become leader
  int ticks = 0;       // a leader sends heartbeats; a recovering member asks again
  int proposals = 0;   // to a leader
  int crashes = 0;     // right after a step, before what it writes is durable, and a new start
  int lost_disks = 0;  // a crash, and a start with an empty directory
  int forgotten = 0;   // a crash, and a start without the last entries that were durable
  int changes = 0;     // of the membership, to one of the scenario's targets
  int duplicates = 0;  // a message is delivered, and stays under way
};

// Where a search begins, and what may happen in it.
struct Scenario {
  std::string name;
  std::string claim;  // what the search shows
  Membership membership;
  // The log that each member has on its disk, all of it durable; empty: a new directory. Those of
  // the membership and others, by number from 1 on.
  std::vector<std::vector<Entry>> logs;
  std::vector<consensus::HardState> hard_states;
  // Elected before the search begins, with all messages delivered; kNoMember: nobody is.
  MemberId first_leader = consensus::kNoMember;
  std::vector<Membership> targets;
  // What a disk that forgets has instead behind what it still has: entries that were there before.
  std::vector<Entry> forgotten_suffix;
  Budget budget;
  // Steps in a row of the short search, and of the long one.
  int depth = 0;
  int long_depth = 0;
  // Whether a leader's write becomes durable in a step of its own. (A follower's promise leaves
  // after its write, so that a slow write of a follower is the same as a slow message.)
  bool leader_writes_are_slow = false;
  // These arrive at once, for the claim does not depend on their order: pre-votes, and what a
  // member with a new directory asks.
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
  // What becomes of the member within the step.
  enum class Crash : uint8_t {
    kNone,
    kNothingWritten,
    kHardStateWritten,
  };
  Kind kind = Kind::kDeliver;
  MemberId member{};  // whom it happens to
  size_t which = 0;   // of messages under way, of targets; how many entries are forgotten
  Crash crash = Crash::kNone;
  bool stays = false;  // a duplicate
};

class ClusterState {
 public:
  explicit ClusterState(const Scenario* scenario);
  ClusterState(const ClusterState&) = default;

  // What may happen now; always the same for equal states, in the same order.
  std::vector<Action> Enabled() const;
  // REQUIRES: the action is enabled.
  void Do(const Action& action);
  // Equal only for states in which each member had the same inputs in the same order, which
  // therefore are the same, whatever the order of what happened at different members.
  uint64_t Key() const;
  // What is wrong; empty: nothing.
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
  // A member whose disk forgot what it had acknowledged, until it knows, or has it again.
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
  // Delivers everything in order until nothing is under way.
  void Settle();
  // Notes an input of the member: with those before it, it decides all that the member does.
  void Record(MemberId id, uint64_t input);
  void RunTimeout(MemberId id);
  void LoseDisk(MemberId id);
  void Forget(MemberId id, size_t entries);
  // Outputs of the member after an input, and what follows from them at once.
  void Follow(MemberId id, Action::Crash crash);
  void CrashAndRestart(MemberId id, Action::Crash crash);
  // Work of the driver that has no order to choose from.
  void Drive(MemberId id);
  void TakeMessages(MemberId id);
  bool IsInstant(const Message& message) const;
  // Whether its delivery could change nothing but when something is sent again.
  bool IsPointless(const Message& message) const;
  // A leader that knows everything which the member has acknowledged.
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
