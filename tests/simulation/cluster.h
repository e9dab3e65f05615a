// SPDX-License-Identifier: Apache-2.0

// A whole simulated cluster with its clients and its faults: one run of one seed.
//
// A run has three parts. In the first, clients work while the faults occur that the seed has
// chosen. In the second, faults stop, a majority (the core) is repaired, and everything else stays
// as broken as it is: the core must elect a leader, serve every client and agree. In the third,
// everything is repaired, and all members must agree.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/simulation/client_network.h"
#include "tests/simulation/clients/workload.h"
#include "tests/simulation/cluster_checker.h"
#include "tests/simulation/machine.h"
#include "tests/simulation/nemesis.h"
#include "tests/simulation/network.h"
#include "tests/simulation/sim_environment.h"
#include "tests/simulation/sim_peer_network.h"
#include "tests/simulation/simulation.h"

namespace quorate::simulation {

class Cluster : public SimEnvironment {
 public:
  explicit Cluster(Simulation* simulation);
  ~Cluster() override;

  // Executes the whole run. Does not return if a check fails.
  void Run();

  std::vector<std::unique_ptr<Machine>>& machines() { return machines_; }

  // SimEnvironment
  int64_t now_us() const override { return simulation_.now_us(); }
  void After(int64_t delay_us, std::function<void()> task) override {
    simulation_.After(delay_us, std::move(task));
  }
  Random& random(std::string_view name) override { return simulation_.random(name); }
  [[noreturn]] void Fail(std::string_view invariant, std::string_view details) override {
    simulation_.Fail(invariant, details);
  }
  bool tracing() const override { return simulation_.tracing(); }
  void Trace(std::string_view line) override { simulation_.Line("", "{}", line); }
  void Mix(uint64_t number) override { simulation_.trace().Mix(number); }
  void Count(std::string_view probe) override { simulation_.trace().Count(probe); }
  size_t member_count() const override { return machines_.size(); }
  void ReadTree(size_t member, const std::function<void(const tree::Tree&)>& read) const override;
  bool MightRefuseData(size_t member, int64_t from_us, int64_t until_us) const override;
  void AddObserver(ServerObserver* observer) override { observers_.push_back(observer); }

 private:
  // Runs until `done` returns true; asks it every few milliseconds. Fails the run, naming `what`,
  // if that takes too long.
  void Await(std::string_view what, const std::function<bool()>& done,
             const std::function<std::string()>& describe);
  // Whether these members hold the same state and no work is under way among them.
  bool Agree(const std::vector<size_t>& members);
  // Whether these members have compared their trees with those of a majority up to `zxid`.
  bool Compared(const std::vector<size_t>& members, int64_t zxid);
  // Checks that load alone deposes no leader (Options::only_load): the leader that was elected
  // first still leads.
  void CheckNobodyWasDeposed();
  // Checks that, once faults have stopped, the leader keeps leading, whatever the members that are
  // not repaired try. REQUIRES: `core` agrees.
  void CheckLeaderStays(const std::vector<size_t>& core);
  // Loses most disks, and checks that no member leads until the end of the run.
  void CheckNothingIsBootstrapped();
  // Repairs everything while clients write; one member gets a new disk. All members must catch up.
  void AwaitRepairUnderLoad();
  std::string Describe();
  void CheckAtTheEnd();

  Simulation& simulation_;
  std::vector<ServerObserver*> observers_;
  Network network_;
  SimPeerNetwork peers_;
  ClientNetwork clients_;
  ClusterChecker checker_;
  std::vector<std::unique_ptr<Machine>> machines_;
  Nemesis nemesis_;
  std::unique_ptr<Workload> workload_;
  size_t elections_ = 0;  // elections that a member won
};

}  // namespace quorate::simulation
