// SPDX-License-Identifier: Apache-2.0

// Changes the members of a simulated cluster, as an administrator does: sequences of changes that
// have a goal (growth, a voter that is replaced, the removal of the leader, ...), with the addresses
// of the members once the cluster version allows that; before that version without.
//
// The administrator also looks after what the changes need outside the log. A machine that moves has
// both addresses until every server knows the new one. A server that was away while the members
// changed, and knows none of those that remain, is started again with the new lines.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "consensus/core/types.h"
#include "tests/simulation/cluster_checker.h"
#include "tests/simulation/machine.h"
#include "tests/simulation/sim_peer_network.h"
#include "tests/simulation/simulation.h"

namespace quorate::simulation {

class MemberChanges {
 public:
  // What the nemesis does for changes. All functions must be set.
  struct Faults {
    // The leader, if one leads and can answer; nullptr otherwise.
    std::function<Machine*()> leader;
    // Whether the power of this machine may fail, and whether its disk may be lost, now.
    std::function<bool(size_t)> may_lose_power;
    std::function<bool(size_t)> may_harm_disk;
    // Cuts the member off from all other members for a while.
    std::function<void(size_t)> isolate;
    // Starts the server after a while.
    std::function<void(size_t)> bring_back_later;
  };
  // The arguments must outlive the object; `machines` may still be empty.
  MemberChanges(Simulation* simulation, std::vector<std::unique_ptr<Machine>>* machines,
                Faults faults);

  // Requests the next step towards the goal from the leader. Chooses another goal if this one is
  // reached, or was missed too often.
  void Request();
  // A leader has appended a membership: a fault may hit it or another member soon.
  void OnAppended(size_t leader);
  // Does the administrator's work outside the log. Called now and then, also while nothing else
  // disturbs the cluster.
  void LookAfterServers();
  // No new faults from now on.
  void Stop() { stopped_ = true; }
  // A membership that was requested, and may be in a log soon. Disks are harmed only if this
  // membership survives it, too.
  const std::optional<consensus::Membership>& requested() const { return requested_; }

 private:
  enum class Kind : uint8_t {
    kAnything,
    kGrow,
    kShrink,
    kReplace,
    kRemoveLeader,
    kObserve,
    kPromote,
    kReturn
  };
  static constexpr uint64_t kKinds = 8;

  void ChooseGoal(const consensus::Membership& current, size_t leader);
  void ChooseAnything();
  void ReplaceOne();
  // Returns the machines that are no members of the goal.
  std::vector<consensus::MemberId> Others() const;
  // Returns the membership of the next request: new voters are learners first.
  consensus::Membership NextStep(const consensus::Membership& current) const;
  // Adds the addresses of all members, and lets a member move now and then.
  consensus::Membership WithAddresses(consensus::Membership target,
                                      const consensus::Membership& current);
  void Send(Machine* leader, const consensus::Membership& target);
  void Strike(size_t leader);
  void DropOldAddresses();
  bool EveryServerKnowsNewest(size_t member) const;
  void RestartStale();
  bool IsStale(const Machine& machine) const;
  consensus::MemberId Take(std::vector<consensus::MemberId>* from);
  ClusterChecker& checker() const { return *machines_.front()->site().checker; }
  SimPeerNetwork& peers() const { return *machines_.front()->site().peers; }

  Simulation& simulation_;
  std::vector<std::unique_ptr<Machine>>& machines_;
  const Faults faults_;
  Random& random_;
  bool stopped_ = false;
  std::optional<consensus::Membership> goal_;  // without addresses
  int requests_ = 0;                           // for this goal
  std::optional<consensus::Membership> requested_;
  std::map<size_t, int64_t> stale_since_us_;  // by member
};

}  // namespace quorate::simulation
