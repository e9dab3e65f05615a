// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/cluster.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/assert.h"
#include "tests/simulation/process.h"

namespace quorate::simulation {
namespace {

// The interval at which Await checks its condition.
constexpr int64_t kLookUs = 20'000;
// How long recovery may take: long enough for sessions to time out, dead links to be detected and a
// log to be copied in small steps. What takes longer never ends.
constexpr int64_t kRecoveryUs = 120'000'000;
// For how many election timeouts the run checks that a leader stays, and how often it may change in
// that time, because a member may have returned shortly before.
constexpr int kLeaderStaysElections = 20;
constexpr uint64_t kElectionsWhenSteadyMax = 3;
// How long the run checks that nothing is bootstrapped, without and then with the members that kept
// their disks.
constexpr int64_t kLostMajorityUs = 5'000'000;
// How long the member to be repaired is away, and how far it may be behind to count as caught up.
constexpr int64_t kAwayUs = 2'000'000;
constexpr int64_t kKeepsUpUs = 1'000'000;

}  // namespace

Cluster::Cluster(Simulation* simulation)
    : simulation_(*simulation),
      network_(simulation, simulation->options().machines()),
      peers_(&network_, simulation->options().machines()),
      clients_(&network_, simulation->options().machines()),
      checker_(simulation, &observers_),
      nemesis_(simulation, &network_, &clients_, &machines_) {
  const Site site{simulation, &network_, &peers_, &clients_, &checker_};
  for (size_t i = 0; i < simulation_.options().machines(); ++i) {
    machines_.push_back(std::make_unique<Machine>(site, i));
    checker_.AddMachine(machines_.back().get());
  }
  simulation_.SetDescribe([this] { return Describe(); });
  workload_ = MakeWorkload(this, &clients_, simulation_.options(), &clients_.native());
}

Cluster::~Cluster() { simulation_.SetDescribe(nullptr); }

void Cluster::ReadTree(size_t member, const std::function<void(const tree::Tree&)>& read) const {
  Process* process = machines_[member]->process();
  if (process == nullptr) return;
  const rpc::GuardedTree::ReadGuard tree = process->replica().ReadTree();
  read(*tree);
}

bool Cluster::MightRefuseData(size_t member, int64_t from_us, int64_t until_us) const {
  return machines_[member]->refusal_times().Overlap(from_us, until_us);
}

void Cluster::Run() {
  checker_.OnElection([this](size_t member) {
    ++elections_;
    nemesis_.OnElection(member);
  });
  checker_.OnFirstApplied([this](size_t member) { nemesis_.OnFirstApplied(member); });
  checker_.OnMembershipAppended([this](size_t member) { nemesis_.OnMembershipAppended(member); });
  nemesis_.Start();
  workload_->Start();
  simulation_.RunUntil(simulation_.options().chaos_us, [] { return false; });
  if (simulation_.options().only_load) CheckNobodyWasDeposed();

  nemesis_.Stop();
  simulation_.SetSteady();
  if (simulation_.options().disk.majority_is_lost && nemesis_.LoseMajority()) {
    CheckNothingIsBootstrapped();
    return;
  }
  if (simulation_.options().cluster.writes_during_repair) AwaitRepairUnderLoad();
  workload_->BeginQuiet();
  const std::vector<size_t> core = nemesis_.RepairCore();
  Await(
      "a repaired majority serves all clients", [this] { return workload_->Idle(); },
      [this] { return workload_->Describe(); });
  Await(
      "a repaired majority agrees", [&] { return Agree(core); }, [this] { return Describe(); });
  CheckLeaderStays(core);

  nemesis_.RepairAll();
  std::vector<size_t> all;
  for (const auto& machine : machines_) all.push_back(machine->number());
  Await(
      "all members agree when everything is repaired", [&] { return Agree(all); },
      [this] { return Describe(); });
  const auto last = static_cast<int64_t>(checker_.committed().value());
  Await(
      "the trees are compared when everything is repaired", [&] { return Compared(all, last); },
      [this] { return Describe(); });
  CheckAtTheEnd();
  workload_->CheckFinal();
}

void Cluster::Await(std::string_view what, const std::function<bool()>& done,
                    const std::function<std::string()>& describe) {
  const int64_t deadline_us = now_us() + kRecoveryUs;
  while (!done()) {
    if (now_us() >= deadline_us) simulation_.Fail(what, describe());
    simulation_.RunUntil(now_us() + kLookUs, [] { return false; });
  }
}

bool Cluster::Agree(const std::vector<size_t>& members) {
  const consensus::Index last = checker_.committed();
  const consensus::Membership current = nemesis_.CurrentMembership();
  if (current.voters.empty()) return false;
  const bool fixed = simulation_.options().cluster.membership_rate == 0;
  for (size_t member : members) {
    // A member that was removed, or never added, need not know anything.
    if (!fixed && !current.Contains(consensus::MemberId(static_cast<uint32_t>(member + 1)))) {
      continue;
    }
    Process* process = machines_[member]->process();
    if (process == nullptr || process->applied() != last) return false;
    const consensus::Raft& raft = process->raft();
    if (raft.last_index() != last || raft.leader() == consensus::kNoMember) return false;
    // An applied entry may still be on its way to a slow disk.
    if (raft.durable_index() != last) return false;
  }
  return true;
}

bool Cluster::Compared(const std::vector<size_t>& members, int64_t zxid) {
  const consensus::Membership current = nemesis_.CurrentMembership();
  if (current.Members().size() < 2) return true;
  for (size_t member : members) {
    if (!current.Contains(consensus::MemberId(static_cast<uint32_t>(member + 1)))) continue;
    Process* process = machines_[member]->process();
    if (process == nullptr) return false;
    if (process->replica().metrics().digest_compared_zxid < zxid) return false;
  }
  return true;
}

void Cluster::CheckNobodyWasDeposed() {
  simulation_.trace().Count("checker: a leader under load was watched");
  if (elections_ == 1) return;
  Fail("load deposes no leader", fmt::format("{} elections\n{}", elections_, Describe()));
}

void Cluster::CheckLeaderStays(const std::vector<size_t>& core) {
  const Options& options = simulation_.options();
  const LimitOptions& limits = options.limits;
  // A leader whose clock is slow looks dead to followers whose clocks are fast.
  const double drift = options.member.clock_drift_max;
  const double heartbeat_ticks = limits.heartbeat_ticks * (1 + drift) / (1 - drift);
  if (heartbeat_ticks * 2 > limits.election_ticks) return;
  const auto term = [&] {
    consensus::Term newest;
    for (size_t member : core) {
      Process* process = machines_[member]->process();
      if (process != nullptr) newest = std::max(newest, process->raft().term());
    }
    return newest;
  };
  const consensus::Term first = term();
  const int64_t watch_us =
      int64_t{kLeaderStaysElections} * limits.election_ticks * limits.tick_ms * 1000;
  simulation_.RunUntil(now_us() + watch_us, [] { return false; });
  simulation_.trace().Count("checker: the leader of a repaired majority was watched");
  const uint64_t elections = term().value() - first.value();
  if (elections <= kElectionsWhenSteadyMax) return;
  Fail("a repaired majority keeps its leader",
       fmt::format("the term went from {} to {} within {} us\n{}", first.value(), term().value(),
                   watch_us, Describe()));
}

void Cluster::CheckNothingIsBootstrapped() {
  simulation_.trace().Count("cluster: most disks are lost");
  const size_t leaders = checker_.leaders();
  // First without the members that kept their disks, then with them.
  for (int part = 0; part < 2; ++part) {
    simulation_.RunUntil(now_us() + kLostMajorityUs, [] { return false; });
    nemesis_.BringBackAll();
  }
  simulation_.RunUntil(now_us() + kLostMajorityUs, [] { return false; });
  if (checker_.leaders() == leaders) return;
  Fail("nothing is bootstrapped without a majority of the disks",
       fmt::format("{} leaders more\n{}", checker_.leaders() - leaders, Describe()));
}

void Cluster::AwaitRepairUnderLoad() {
  const size_t repaired = nemesis_.RepairAllButOne();
  simulation_.RunUntil(now_us() + kAwayUs, [] { return false; });
  nemesis_.BringBackAll();
  simulation_.trace().Count("cluster: a member is repaired while clients write");
  struct Look {
    int64_t at_us;
    consensus::Index committed;
  };
  std::deque<Look> looks;
  const consensus::Index first = checker_.committed();
  Await(
      "a repaired member catches up while clients write",
      [&] {
        // A member that has all that was committed kKeepsUpUs ago has caught up.
        looks.push_back({now_us(), checker_.committed()});
        while (looks.size() > 1 && looks[1].at_us <= now_us() - kKeepsUpUs) looks.pop_front();
        const consensus::Membership current = nemesis_.CurrentMembership();
        if (current.voters.empty()) return false;
        return std::all_of(machines_.begin(), machines_.end(), [&](const auto& machine) {
          const consensus::MemberId id(static_cast<uint32_t>(machine->number() + 1));
          if (!current.Contains(id)) return true;
          Process* process = machine->process();
          return process != nullptr && process->applied() >= looks.front().committed &&
                 (machine->counts() || !current.IsVoter(id));
        });
      },
      [&] {
        return fmt::format("server {} was repaired; {} entries were committed since\n{}",
                           repaired + 1, checker_.committed() - first, Describe());
      });
}

void Cluster::CheckAtTheEnd() {
  for (const auto& machine : machines_) {
    if (machine->process() == nullptr) continue;
    Process& process = *machine->process();
    // A removed member may have entries that were never committed; a committed entry may still be
    // on its way to the disk; and what a client has just written may not be applied yet.
    checker_.CheckLog(machine->number(), process.data_dir(),
                      std::min({process.raft().commit_index(), process.raft().durable_index(),
                                checker_.committed()}));
    const rpc::GuardedTree::ReadGuard tree = process.replica().ReadTree();
    if (tree->digest() != tree->ComputeDigest()) {
      Fail("the digest is that of the tree",
           fmt::format("server {} at {}", machine->number() + 1, tree->last_zxid().value()));
    }
  }
}

std::string Cluster::Describe() {
  std::string text = fmt::format("committed: {}\n", checker_.committed().value());
  for (const auto& machine : machines_) {
    text += fmt::format("{}: ", machine->number() + 1);
    if (Process* process = machine->process(); process != nullptr) {
      text += fmt::format("{}applied={} {}\n", machine->paused() ? "(stands still) " : "",
                          process->applied().value(), process->Describe());
    } else {
      text += machine->on() ? "no process\n" : "off\n";
    }
  }
  return text;
}

}  // namespace quorate::simulation
