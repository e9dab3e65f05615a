// Makes things go wrong, as often as the seed has chosen, and in the end repairs them.
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
#include "tests/simulation/network.h"
#include "tests/simulation/simulation.h"

namespace quorate::simulation {

class Nemesis {
 public:
  Nemesis(Simulation* simulation, Network* network, ClientNetwork* clients,
          std::vector<std::unique_ptr<Machine>>* machines);

  // Everything is switched on, and faults begin.
  void Start();
  // Nothing new goes wrong. What is broken stays so.
  void Stop();
  // A member begins to lead.
  void OnElection(size_t member);
  // A member is the first to apply an entry.
  void OnFirstApplied(size_t member);
  // Chooses a majority, repairs it and the network within it and to the clients; returns it,
  // ascending.
  std::vector<size_t> RepairCore();
  void RepairAll();
  // Repairs everything but one voter, which gets a new disk if a cluster survives that. Returns it.
  size_t RepairAllButOne();
  // Most voters get new disks at once, and the others are away; they are back after BringBackAll.
  // False if it was not possible.
  bool LoseMajority();
  void BringBackAll();
  // The membership that whoever leads goes by; empty if nobody does.
  consensus::Membership CurrentMembership();

 private:
  void Repeat(double rate, std::function<void()> fault);
  void StartMemberFaults(size_t member);
  void StartLeaderFaults();
  void Strike(size_t member);
  // Soon it loses power, and whoever lost it before is back.
  void BeginIteration(size_t member, int64_t soon_us);
  // It reaches no other member any more, and these notice; its clients do not.
  void Isolate(size_t member);
  void PauseForAWhile(Machine* machine);
  void StartDiskFaults(size_t member);
  void StartNetworkFaults();
  void StartClusterChanges();
  // Another directory of a running member speaks for it, or one speaks of it, to somebody who has
  // just heard from that member.
  void SendStray();
  // Before a start: perhaps its configuration names others than those who take part.
  void MaybeEditServerLines(size_t member);
  consensus::Membership ChooseServerLines(size_t member);
  // Asks who leads for another membership.
  void ChangeMembership();
  // Whoever leads, and is able to say so.
  Machine* Leader();
  // It comes back after a while, unless the faults have stopped by then.
  void BringBackLater(size_t member);
  void BringBack(size_t member);
  // What may happen to a disk while no process uses it.
  void MaybeHarmDisk(size_t member);
  bool MayHarmDisk(size_t member) const;
  // The power of this machine may fail now: it is not one whose disk lies, and none that lied is
  // about to learn what it has lost.
  bool MayLosePower(size_t member) const;
  // A disk lies for a while, and then its power fails.
  void LetDiskLie(size_t member);
  bool MayLie(size_t member) const;
  void BeginToLie(size_t member);
  // Nothing else goes wrong while the member finds out.
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
  bool stopped_ = false;
  bool truce_ = false;
  std::map<size_t, int64_t> next_forgery_us_;               // by member, not before
  int64_t cut_at_commit_us_ = 0;                            // when that was done last
  std::optional<consensus::Membership> distributed_lines_;  // that more than one server may get
  std::optional<size_t> struck_;                            // the leader whose turn it was last
  std::vector<bool> repaired_;                              // once it has stopped
};

}  // namespace quorate::simulation
