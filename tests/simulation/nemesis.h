// SPDX-License-Identifier: Apache-2.0

// Injects faults, as often as the seed has chosen, and repairs everything at the end.
//
// What it may do to disks is limited, because no cluster survives everything: at any time more than
// half of the voters have a disk that holds all they ever promised.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tests/simulation/client_network.h"
#include "tests/simulation/machine.h"
#include "tests/simulation/member_changes.h"
#include "tests/simulation/network.h"
#include "tests/simulation/simulation.h"

namespace quorate::simulation {

class Nemesis {
 public:
  Nemesis(Simulation* simulation, Network* network, ClientNetwork* clients,
          std::vector<std::unique_ptr<Machine>>* machines);

  // Switches everything on and begins to inject faults.
  void Start();
  // Injects no new faults. What is broken stays broken.
  void Stop();
  // Called when a member begins to lead.
  void OnElection(size_t member);
  // Called when a member is the first to apply an entry.
  void OnFirstApplied(size_t member);
  // Called when a leader has appended a membership to its log.
  void OnMembershipAppended(size_t member);
  // Chooses a majority, and repairs it and the network within it and to the clients; returns it,
  // ascending.
  std::vector<size_t> RepairCore();
  void RepairAll();
  // Repairs everything, but gives one voter a new disk if the cluster survives that. Returns that
  // voter.
  size_t RepairAllButOne();
  // Gives most voters new disks at once and switches off the others, which BringBackAll switches on
  // again. Returns false if that was not possible.
  bool LoseMajority();
  void BringBackAll();
  // The membership in force at the leader; empty if no member leads.
  consensus::Membership CurrentMembership();

 private:
  void Repeat(double rate, std::function<void()> fault);
  void StartMemberFaults(size_t member);
  void StartLeaderFaults();
  void Strike(size_t member);
  // The leader `member` loses power soon, and the member that lost power before it is brought back.
  void BeginTurn(size_t member, int64_t soon_us);
  // Cuts the member off from all other members, which notice that; its clients do not.
  void Isolate(size_t member);
  void PauseForAWhile(Machine* machine);
  void StartDiskFaults(size_t member);
  void StartNetworkFaults();
  void StartClusterChanges();
  // Sends a stray message about another data directory of a running member: an answer to that
  // member that a later directory of it exists, or a request from such a directory to a follower of
  // the member.
  void SendStray();
  // Before a start: may change the configuration to name other members than those of the cluster.
  void MaybeEditServerLines(size_t member);
  consensus::Membership ChooseServerLines(size_t member);
  // Repeats MemberChanges::LookAfterServers until the end of the run.
  void LookAfterServers();
  // The leader, if one leads and can answer; nullptr otherwise.
  Machine* Leader();
  // Brings the member back after a while, unless the faults have stopped by then.
  void BringBackLater(size_t member);
  void BringBack(size_t member);
  // May damage or replace a disk while no process uses it.
  void MaybeHarmDisk(size_t member);
  bool MayHarmDisk(size_t member) const;
  // Whether the power of this machine may fail now: its disk does not lie, and no truce is on, in
  // which a member finds out what its lying disk has lost.
  bool MayLosePower(size_t member) const;
  // A disk lies for a while, and then its power fails.
  void LetDiskLie(size_t member);
  bool MayLie(size_t member) const;
  void BeginToLie(size_t member);
  // Suspends all other faults while the member finds out what its disk has lost.
  void BeginTruce(size_t member);
  // Power fails at the member as soon as all others follow one leader.
  void AwaitQuiet(size_t member, int64_t deadline_us);
  void AwaitEndOfTruce(size_t member, int64_t deadline_us);
  void Partition();
  void CutBetween(size_t a, size_t b);
  void SettleOthers(const std::vector<size_t>& core);
  void RepairMember(size_t member);

  Simulation& simulation_;
  Network& network_;
  ClientNetwork& clients_;
  std::vector<std::unique_ptr<Machine>>& machines_;
  const Options& options_;
  Random& random_;
  MemberChanges member_changes_;
  bool stopped_ = false;
  bool truce_ = false;
  std::map<size_t, int64_t> next_forgery_us_;               // by member, the earliest time
  int64_t cut_at_commit_us_ = 0;                            // the time of the last such cut
  std::optional<consensus::Membership> distributed_lines_;  // for more than one server
  std::optional<size_t> struck_;                            // the leader that lost power last
  std::vector<bool> repaired_;                              // by member, after Stop
};

}  // namespace quorate::simulation
