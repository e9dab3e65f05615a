// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/nemesis.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/membership_rules.h"
#include "tests/simulation/process.h"

namespace quorate::simulation {
namespace {

// How many membership changes are requested during one leader's turn.
constexpr int kChangesInTurn = 3;
// How long a disk lies on average; how long it takes at most until the cluster is quiet before the
// disk forgets, and until its member has found out; how often the nemesis checks for that.
constexpr int64_t kLieUs = 500'000;
constexpr int64_t kShortLieUs = 20'000;
constexpr int64_t kTruceUs = 3'000'000;
constexpr int64_t kTruceStepUs = 10'000;
// The shortest time between two cuts of a leader at a commit: a new leader is needed in between.
constexpr int64_t kCutAtCommitUs = 1'500'000;
// The time between two forged answers to one member, in election timeouts: longer than the member
// waits for another answer (kAliveElections in consensus/core/data_loss.cc).
constexpr int64_t kForgeryElections = 5;
// How often the administrator of a cluster whose members change looks after the servers.
constexpr int64_t kLookAfterServersUs = 250'000;

}  // namespace

Nemesis::Nemesis(Simulation* simulation, Network* network, ClientNetwork* clients,
                 std::vector<std::unique_ptr<Machine>>* machines)
    : simulation_(*simulation),
      network_(*network),
      clients_(*clients),
      machines_(*machines),
      options_(simulation->options()),
      random_(simulation->random("nemesis")),
      member_changes_(simulation, machines,
                      {.leader = [this] { return Leader(); },
                       .may_lose_power = [this](size_t member) { return MayLosePower(member); },
                       .may_harm_disk = [this](size_t member) { return MayHarmDisk(member); },
                       .isolate = [this](size_t member) { Isolate(member); },
                       .bring_back_later = [this](size_t member) { BringBackLater(member); }}) {}

void Nemesis::Start() {
  for (const auto& machine : machines_) {
    const size_t member = machine->number();
    machine->OnDeath([this, member] { BringBackLater(member); });
    simulation_.After(random_.Between(0, 200'000), [this, member] { BringBack(member); });
    StartMemberFaults(member);
    StartDiskFaults(member);
  }
  StartLeaderFaults();
  StartNetworkFaults();
  StartClusterChanges();
}

void Nemesis::Stop() {
  stopped_ = true;
  member_changes_.Stop();
  repaired_.assign(machines_.size(), false);
}

// Calls `fault` `rate` times a second, on average, until Stop.
void Nemesis::Repeat(double rate, std::function<void()> fault) {
  if (rate <= 0) return;
  const auto period_us = static_cast<int64_t>(1e6 / rate);
  simulation_.After(random_.Between(0, 2 * period_us), [this, rate, fault = std::move(fault)] {
    if (stopped_) return;
    if (!truce_) fault();
    Repeat(rate, fault);
  });
}

// --- Members -------------------------------------------------------------------------------------

void Nemesis::StartMemberFaults(size_t member) {
  Machine& machine = *machines_[member];
  Repeat(options_.member.crash_rate, [this, &machine, member] {
    if (!machine.on() || !MayLosePower(member)) return;
    machine.PowerOff();
    BringBackLater(member);
  });
  Repeat(options_.member.crash_in_step_rate, [this, &machine, member] {
    if (MayLosePower(member)) machine.PowerOffWithin(random_.Below(20));
  });
  Repeat(options_.member.kill_in_step_rate,
         [this, &machine] { machine.KillWithin(random_.Below(20)); });
  Repeat(options_.member.kill_rate, [this, &machine, member] {
    if (machine.process() == nullptr) return;
    machine.Kill();
    BringBackLater(member);
  });
  Repeat(options_.member.pause_rate, [this, &machine] { PauseForAWhile(&machine); });
  Repeat(options_.member.clock_jump_rate, [this, &machine, member] {
    const int64_t by_ms =
        random_.Between(-options_.member.clock_jump_ms, options_.member.clock_jump_ms);
    simulation_.Line(fmt::format("{}", member + 1), "the wall clock jumps by {} ms", by_ms);
    simulation_.trace().Count("fault: wall clock jumps");
    machine.clock().Jump(by_ms);
  });
}

// Faults that hit the leader, to cause elections.
void Nemesis::StartLeaderFaults() {
  Repeat(options_.member.crash_rate, [this] {
    if (Machine* leader = Leader(); leader != nullptr && MayLosePower(leader->number())) {
      leader->PowerOff();
      BringBackLater(leader->number());
    }
  });
  for (double rate : {options_.network.partition_rate, options_.network.isolation_rate}) {
    Repeat(rate, [this] {
      if (Machine* leader = Leader(); leader != nullptr) Isolate(leader->number());
    });
  }
  Repeat(options_.member.pause_rate * 2, [this] {
    if (Machine* leader = Leader(); leader != nullptr) PauseForAWhile(leader);
  });
}

void Nemesis::OnElection(size_t member) {
  // While the leader replicates its first entries.
  const int64_t soon_us = 4 * (2 * options_.network.delay_us + options_.disk.write_us);
  if (options_.member.take_turns) {
    BeginTurn(member, soon_us);
  } else if (!stopped_ && random_.Chance(options_.member.strike_chance)) {
    simulation_.After(random_.Between(0, soon_us), [this, member] {
      if (!stopped_ && !truce_ && machines_[member]->process() != nullptr) Strike(member);
    });
  }
}

void Nemesis::OnFirstApplied(size_t member) {
  const double chance = options_.network.cut_at_commit_chance;
  const int64_t now_us = simulation_.now_us();
  if (chance <= 0 || stopped_ || truce_ || now_us < cut_at_commit_us_ + kCutAtCommitUs) return;
  if (Machine* leader = Leader(); leader == nullptr || leader->number() != member) return;
  if (!random_.Chance(chance)) return;
  cut_at_commit_us_ = now_us;
  // In an event of its own, since the leader's process is in the middle of a call.
  simulation_.After(0, [this, member] {
    if (stopped_) return;
    simulation_.trace().Count("fault: a leader is cut off when it has committed");
    Isolate(member);
  });
}

void Nemesis::BeginTurn(size_t member, int64_t soon_us) {
  const bool changes_members = options_.cluster.membership_rate > 0;
  if (changes_members) {
    for (int i = 0; i < kChangesInTurn; ++i) {
      simulation_.After(random_.Between(0, 2 * soon_us), [this] {
        if (!stopped_) member_changes_.Request();
      });
    }
  }
  const int64_t length_us = random_.Between(0, changes_members ? 2 * soon_us : soon_us);
  simulation_.After(length_us, [this, member, changes_members] {
    if (stopped_ || machines_[member]->process() == nullptr) return;
    simulation_.trace().Count("fault: leaders take turns");
    machines_[member]->PowerOff();
    if (struck_.has_value() && *struck_ != member) BringBack(*struck_);
    struck_ = member;
    // The others may not be able to elect a leader without it.
    if (changes_members) BringBackLater(member);
  });
}

void Nemesis::Strike(size_t member) {
  simulation_.trace().Count("fault: a new leader is struck");
  Machine& machine = *machines_[member];
  switch (random_.Below(4)) {
    case 0:
      PauseForAWhile(&machine);
      break;
    case 1:
      Isolate(member);
      break;
    default:
      if (!MayLosePower(member)) return;
      machine.PowerOff();
      BringBackLater(member);
  }
}

void Nemesis::Isolate(size_t member) {
  simulation_.trace().Count("fault: a leader is cut off");
  simulation_.Line("net", "{} is cut off from the other members", member + 1);
  for (const auto& machine : machines_) {
    const size_t other = machine->number();
    if (other == member) continue;
    network_.Cut(member, other);
    network_.Cut(other, member);
    if (machine->process() != nullptr && !machine->paused()) {
      machine->process()->links().BreakStream(member);
    }
  }
  simulation_.After(random_.LongTail(1'000'000), [this] {
    if (!stopped_) network_.HealAll();
  });
}

void Nemesis::PauseForAWhile(Machine* machine) {
  machine->Pause();
  simulation_.After(random_.LongTail(options_.member.down_us), [this, machine] {
    if (!stopped_) machine->Resume();
  });
}

void Nemesis::BringBackLater(size_t member) {
  simulation_.After(random_.LongTail(options_.member.down_us), [this, member] {
    if (!stopped_ || repaired_[member]) BringBack(member);
  });
}

void Nemesis::BringBack(size_t member) {
  Machine& machine = *machines_[member];
  if (machine.process() != nullptr) return;
  if (!stopped_ && !truce_) MaybeHarmDisk(member);
  // No member returns to an older version.
  if (machine.starts() == 0 && random_.Chance(options_.cluster.old_version_chance)) {
    simulation_.trace().Count("cluster: begins as the previous version");
    machine.SetVersion(random_.Chance(0.5) ? consensus::kVersionBase
                                           : consensus::kVersionNewest - 1);
  } else if (stopped_ || random_.Chance(0.5)) {
    machine.SetVersion(consensus::kVersionNewest);
  }
  MaybeEditServerLines(member);
  machine.Start();
}

void Nemesis::MaybeEditServerLines(size_t member) {
  Machine& machine = *machines_[member];
  machine.RestoreServerLines();
  // A server with an empty directory has only the configuration, so its lines stay correct.
  const double chance = options_.cluster.edit_chance;
  if (stopped_ || chance <= 0 || !machine.counts() || !random_.Chance(chance)) return;
  consensus::Membership lines = ChooseServerLines(member);
  simulation_.trace().Count("config: the server lines are edited");
  simulation_.Line(fmt::format("{}", member + 1), "is configured with {}", ToString(lines));
  machine.EditServerLines(std::move(lines));
}

consensus::Membership Nemesis::ChooseServerLines(size_t member) {
  const consensus::MemberId self(static_cast<uint32_t>(member + 1));
  if (distributed_lines_.has_value() && distributed_lines_->Contains(self) && random_.Chance(0.7)) {
    return *distributed_lines_;
  }
  consensus::Membership lines;
  for (uint32_t id = 1; id <= machines_.size(); ++id) {
    const bool is_voter = id <= options_.cluster.voters ? random_.Chance(0.6) : random_.Chance(0.2);
    if (is_voter || consensus::MemberId(id) == self) {
      lines.voters.emplace_back(id);
    } else if (random_.Chance(0.2)) {
      lines.learners.emplace_back(id);
    }
  }
  distributed_lines_ = lines;
  return lines;
}

// --- Disks ---------------------------------------------------------------------------------------

void Nemesis::StartDiskFaults(size_t member) {
  Machine& machine = *machines_[member];
  Repeat(options_.disk.stall_rate, [this, &machine, member] {
    const int64_t length_us = random_.LongTail(options_.disk.stall_us);
    simulation_.Line(fmt::format("{}", member + 1), "the disk stalls for {} us", length_us);
    machine.StallDisk(simulation_.now_us() + length_us);
  });
  Repeat(options_.disk.full_rate, [this, &machine] {
    if (machine.process() != nullptr && !machine.disk_is_full()) {
      machine.FillDisk(random_.Below(10'000));
      simulation_.After(random_.LongTail(options_.member.down_us),
                        [&machine] { machine.FreeSpace(); });
    }
  });
  Repeat(options_.disk.sync_error_rate, [&machine] {
    if (machine.process() != nullptr) machine.FailSync();
  });
  Repeat(options_.disk.operation_error_rate, [this, &machine] {
    if (machine.process() != nullptr) machine.FailOperationWithin(random_.Below(20));
  });
  Repeat(options_.disk.read_error_rate, [&machine] {
    if (machine.process() != nullptr) machine.FailRead();
  });
  Repeat(options_.disk.running_flip_rate, [this, &machine, member] {
    if (machine.process() == nullptr || !MayHarmDisk(member)) return;
    if (machine.FlipBit(&random_, options_.disk.flips_everywhere)) {
      simulation_.trace().Count("fault: bit flipped while the process runs");
    }
  });
  Repeat(options_.disk.lie_rate, [this, member] { LetDiskLie(member); });
}

bool Nemesis::MayHarmDisk(size_t member) const {
  if (machines_[member]->starts() == 0) return false;
  // A server whose lines name no other member bootstraps a cluster when its directory is empty.
  if (options_.cluster.voters == 1 && member == 0) return false;
  const auto is_whole = [&](consensus::MemberId voter) {
    return voter.value() - 1 != member && machines_[voter.value() - 1]->counts();
  };
  std::vector<consensus::Membership> memberships =
      machines_[member]->site().checker->MembershipsInForce();
  if (const auto& requested = member_changes_.requested(); requested.has_value()) {
    memberships.push_back(*requested);
  }
  return std::all_of(memberships.begin(), memberships.end(),
                     [&](const auto& membership) { return Decides(membership, is_whole); });
}

void Nemesis::MaybeHarmDisk(size_t member) {
  if (random_.Chance(options_.disk.disk_loss_chance) && MayHarmDisk(member)) {
    machines_[member]->LoseDisk();
  } else if (random_.Chance(options_.disk.bit_flip_chance) && MayHarmDisk(member)) {
    machines_[member]->FlipBit(&random_, options_.disk.flips_everywhere);
  }
}

bool Nemesis::MayLosePower(size_t member) const { return !truce_ && !machines_[member]->lies(); }

bool Nemesis::MayLie(size_t member) const {
  const bool one_lies = std::any_of(machines_.begin(), machines_.end(),
                                    [](const auto& other) { return other->has_hidden_fault(); });
  return !truce_ && !one_lies && machines_[member]->process() != nullptr &&
         machines_[member]->counts() && MayHarmDisk(member);
}

void Nemesis::LetDiskLie(size_t member) {
  Machine& machine = *machines_[member];
  if (!MayLie(member)) return;
  if (Leader() == &machine && random_.Chance(0.7)) {
    // The isolated leader writes entries durably that are never committed, and the disk then loses
    // the entries that replace them: its log is then that of an older term.
    Isolate(member);
    const int64_t until_deposed_us =
        2 * int64_t{options_.limits.election_ticks} * options_.limits.tick_ms * 1000;
    simulation_.After(until_deposed_us, [this, member] {
      if (stopped_ || !MayLie(member)) return;
      BeginToLie(member);
      network_.HealAll();
    });
  } else {
    BeginToLie(member);
  }
}

void Nemesis::BeginToLie(size_t member) {
  machines_[member]->Lie();
  simulation_.After(random_.LongTail(random_.Chance(0.5) ? kLieUs : kShortLieUs), [this, member] {
    if (!stopped_) BeginTruce(member);
  });
}

void Nemesis::BeginTruce(size_t member) {
  truce_ = true;
  network_.HealAll();
  for (const auto& machine : machines_) {
    if (machine->number() != member) machine->CancelDiskFaults();
    BringBack(machine->number());
    machine->Resume();
  }
  AwaitQuiet(member, simulation_.now_us() + kTruceUs);
}

void Nemesis::AwaitQuiet(size_t member, int64_t deadline_us) {
  simulation_.After(kTruceStepUs, [this, member, deadline_us] {
    if (stopped_) return;
    // The leader knows what the others have acknowledged: it must not be the member whose disk
    // forgets, and must have heard from all others.
    Machine* leader = Leader();
    const bool is_quiet =
        leader != nullptr && leader->number() != member &&
        std::all_of(machines_.begin(), machines_.end(), [&](const auto& machine) {
          return machine->process() != nullptr &&
                 machine->process()->raft().leader().value() == leader->number() + 1;
        });
    if (is_quiet) {
      machines_[member]->PowerOff();
      BringBack(member);
      AwaitEndOfTruce(member, simulation_.now_us() + kTruceUs);
    } else if (simulation_.now_us() >= deadline_us) {
      machines_[member]->BeHonest();
      truce_ = false;
    } else {
      AwaitQuiet(member, deadline_us);
    }
  });
}

void Nemesis::AwaitEndOfTruce(size_t member, int64_t deadline_us) {
  simulation_.After(kTruceStepUs, [this, member, deadline_us] {
    if (stopped_) return;
    if (machines_[member]->counts() || simulation_.now_us() >= deadline_us) {
      truce_ = false;
    } else {
      AwaitEndOfTruce(member, deadline_us);
    }
  });
}

// --- The network ---------------------------------------------------------------------------------

void Nemesis::StartNetworkFaults() {
  const size_t members = machines_.size();
  for (size_t from = 0; from < members; ++from) {
    for (size_t to = 0; to <= members; ++to) {
      if (from == to) continue;
      Repeat(options_.network.clog_rate / static_cast<double>(members), [this, from, to] {
        simulation_.trace().Count("fault: link clogged");
        const int64_t until = simulation_.now_us() + random_.LongTail(options_.network.clog_us);
        network_.Clog(from, to, until);
        if (to == network_.client_host()) network_.Clog(to, from, until);
      });
    }
    Repeat(options_.network.break_rate, [this, from] {
      Process* process = machines_[from]->process();
      if (process == nullptr || machines_[from]->paused()) return;
      simulation_.trace().Count("fault: link broken");
      const size_t to = random_.Below(machines_.size());
      if (to != from) process->links().BreakStream(to);
    });
  }
  Repeat(options_.network.break_rate * 4, [this] { clients_.BreakOne(); });
  Repeat(options_.network.partition_rate, [this] {
    Partition();
    simulation_.After(random_.LongTail(options_.network.partition_us), [this] {
      if (stopped_) return;
      simulation_.Line("net", "healed");
      network_.HealAll();
    });
  });
}

void Nemesis::CutBetween(size_t a, size_t b) {
  const bool one_way = options_.network.asymmetric_partitions && random_.Chance(0.5);
  const bool forth = !one_way || random_.Chance(0.5);
  if (forth) network_.Cut(a, b);
  if (!one_way || !forth) network_.Cut(b, a);
}

void Nemesis::Partition() {
  const size_t members = machines_.size();
  std::string description;
  std::vector<uint64_t> side(members);
  switch (random_.Below(5)) {
    case 0: {  // one is alone
      Machine* leader = Leader();
      const size_t alone =
          leader != nullptr && random_.Chance(0.5) ? leader->number() : random_.Below(members);
      side[alone] = 1;
      // The clients may stay connected to it.
      if (random_.Chance(0.5)) CutBetween(alone, network_.client_host());
      description = fmt::format("{} is cut off", alone + 1);
      break;
    }
    case 1:  // a ring: each member reaches only its neighbours
      for (size_t i = 0; i < members; ++i) {
        for (size_t j = i + 2; j < members; ++j) {
          if (i != 0 || j != members - 1) CutBetween(i, j);
        }
      }
      description = "a ring";
      break;
    case 2: {  // one link
      if (members < 2) return;
      const size_t a = random_.Below(members);
      const size_t b = (a + 1 + random_.Below(members - 1)) % members;
      CutBetween(a, b);
      description = fmt::format("between {} and {}", a + 1, b + 1);
      break;
    }
    case 3: {  // one from all clients
      const size_t alone = random_.Below(members);
      CutBetween(alone, network_.client_host());
      description = fmt::format("{} from its clients", alone + 1);
      break;
    }
    default:  // two halves
      for (uint64_t& s : side) s = random_.Below(2);
      description = "two sides:";
      for (size_t i = 0; i < members; ++i) {
        if (side[i] == 1) description += fmt::format(" {}", i + 1);
      }
  }
  for (size_t i = 0; i < members; ++i) {
    for (size_t j = i + 1; j < members; ++j) {
      if (side[i] != side[j]) CutBetween(i, j);
    }
  }
  simulation_.trace().Count("fault: partition");
  simulation_.Line("net", "partition: {}", description);
}

// --- Changes that are no faults ------------------------------------------------------------------

void Nemesis::StartClusterChanges() {
  Repeat(options_.cluster.stray_rate, [this] { SendStray(); });
  if (options_.cluster.membership_rate > 0) {
    Repeat(options_.cluster.membership_rate, [this] { member_changes_.Request(); });
    LookAfterServers();
  }
  Repeat(options_.cluster.transfer_rate, [this] {
    Machine* leader = Leader();
    if (leader == nullptr) return;
    const consensus::MemberId target(static_cast<uint32_t>(random_.Below(machines_.size() + 1)));
    Process* process = leader->process();
    process->Post([this, process, target] {
      const bool begun = process->raft().TransferLeadership(target).ok();
      simulation_.trace().Count(begun ? "cluster: transfer begun" : "cluster: transfer refused");
    });
  });
}

void Nemesis::OnMembershipAppended(size_t member) {
  if (options_.cluster.membership_rate > 0 && !truce_) member_changes_.OnAppended(member);
}

void Nemesis::LookAfterServers() {
  simulation_.After(kLookAfterServersUs, [this] {
    member_changes_.LookAfterServers();
    LookAfterServers();
  });
}

void Nemesis::SendStray() {
  if (machines_.size() < 2) return;
  const size_t member = random_.Below(machines_.size());
  const size_t other = (member + 1 + random_.Below(machines_.size() - 1)) % machines_.size();
  for (size_t number : {member, other}) {
    if (machines_[number]->process() == nullptr || machines_[number]->paused()) return;
    if (!machines_[number]->process()->lifetime().alive() || !machines_[number]->counts()) return;
  }
  Process& of = *machines_[member]->process();
  Process& at = *machines_[other]->process();
  const uint64_t later = of.data_dir().directory_epoch() + 1 + random_.Below(100);
  consensus::Message message;
  Process* receiver = nullptr;
  if (random_.Chance(0.5)) {
    // A forged answer tells a member that a later data directory of it exists. Forged answers do
    // not follow each other closely: without authentication, a member cannot tell a voter from one
    // that answers in its place each time while the voter's own answers are lost.
    int64_t& next_us = next_forgery_us_[member];
    if (simulation_.now_us() < next_us) return;
    next_us = simulation_.now_us() +
              kForgeryElections * options_.limits.election_ticks * options_.limits.tick_ms * 1000;
    receiver = &of;
    message.from = consensus::MemberId(static_cast<uint32_t>(other + 1));
    message.to = consensus::MemberId(static_cast<uint32_t>(member + 1));
    message.directory_epoch = at.data_dir().directory_epoch();
    message.version = machines_[other]->version();
    message.body = consensus::DirectoryEpochResponse{of.data_dir().directory_epoch(), later};
  } else {
    // A second server with the number of the leader that the receiver follows.
    const int recent_ticks = options_.limits.election_ticks;
    if (at.raft().leader().value() != member + 1) return;
    if (at.raft().ticks_since_leader() >= recent_ticks) return;
    receiver = &at;
    message.from = consensus::MemberId(static_cast<uint32_t>(member + 1));
    message.to = consensus::MemberId(static_cast<uint32_t>(other + 1));
    message.directory_epoch = random_.Chance(0.5) ? later : consensus::kNoDirectoryEpoch;
    message.voting = false;
    message.body = consensus::DirectoryEpochRequest{};
  }
  message.term = receiver->raft().term();
  simulation_.trace().Count("fault: a stray message of another directory");
  simulation_.Line("net", "stray: {}", ToString(message));
  receiver->Post([receiver, message] { receiver->raft().Step(message); });
}

Machine* Nemesis::Leader() {
  Machine* newest = nullptr;
  for (const auto& machine : machines_) {
    Process* process = machine->process();
    if (process == nullptr || machine->paused()) continue;
    if (process->raft().role() != consensus::Role::kLeader) continue;
    if (newest == nullptr || newest->process()->raft().term() < process->raft().term()) {
      newest = machine.get();
    }
  }
  return newest;
}

consensus::Membership Nemesis::CurrentMembership() {
  Machine* leader = Leader();
  return leader == nullptr ? consensus::Membership{} : leader->process()->raft().membership();
}

// --- Repair --------------------------------------------------------------------------------------

std::vector<size_t> Nemesis::RepairCore() {
  const size_t voters = options_.cluster.voters;
  if (options_.cluster.membership_rate > 0) {
    // It is not known which members are a majority: several memberships may be on their disks.
    network_.BecomeSteady();
    RepairAll();
    std::vector<size_t> all(machines_.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    return all;
  }
  // A majority of the voters that have their disks, and some of the others.
  std::vector<size_t> candidates(voters);
  for (size_t i = 0; i < voters; ++i) candidates[i] = i;
  for (size_t i = voters; i > 1; --i) std::swap(candidates[i - 1], candidates[random_.Below(i)]);
  std::stable_partition(candidates.begin(), candidates.end(),
                        [&](size_t i) { return machines_[i]->counts(); });
  // A member that does not count yet has to hear from every voter first.
  if (machines_[candidates[voters / 2]]->counts()) {
    candidates.resize(voters / 2 + 1 + random_.Below(voters - voters / 2));
  }
  for (size_t i = voters; i < machines_.size(); ++i) {
    if (random_.Chance(0.5)) candidates.push_back(i);
  }
  std::sort(candidates.begin(), candidates.end());
  network_.BecomeSteady();
  std::string names;
  for (size_t member : candidates) {
    for (size_t other : candidates) network_.Heal(member, other);
    network_.Heal(member, network_.client_host());
    network_.Heal(network_.client_host(), member);
    names += fmt::format(" {}", member + 1);
  }
  simulation_.Line("", "the core is repaired:{}", names);
  SettleOthers(candidates);
  for (size_t member : candidates) RepairMember(member);
  return candidates;
}

// Connects each member outside the core to all of the core, to none of it, or in one direction
// only. A member that reaches only a part of the core can keep the rest from agreeing forever: it
// may lead.
void Nemesis::SettleOthers(const std::vector<size_t>& core) {
  for (size_t i = 0; i < machines_.size(); ++i) {
    if (std::binary_search(core.begin(), core.end(), i)) continue;
    bool forth = true;
    bool back = true;
    for (size_t member : core) {
      forth &= network_.IsOpen(i, member);
      back &= network_.IsOpen(member, i);
    }
    for (size_t member : core) {
      if (!forth) network_.Cut(i, member);
      if (!back) network_.Cut(member, i);
    }
  }
}

void Nemesis::RepairMember(size_t member) {
  Machine& machine = *machines_[member];
  repaired_[member] = true;
  machine.CancelDiskFaults();
  // A restart finds damage that the process has not encountered.
  if (machine.has_hidden_fault()) machine.Kill();
  if (machine.version() != consensus::kVersionNewest) {
    // The upgrade is completed: a member of the old version cannot be sent a snapshot.
    machine.Kill();
    machine.SetVersion(consensus::kVersionNewest);
  }
  if (machine.process() == nullptr) {
    machine.RestoreServerLines();
    machine.Start();
  }
  machine.Resume();
}

void Nemesis::RepairAll() {
  simulation_.Line("", "everything is repaired");
  network_.HealAll();
  for (const auto& machine : machines_) RepairMember(machine->number());
}

size_t Nemesis::RepairAllButOne() {
  network_.BecomeSteady();
  std::vector<size_t> voters;
  for (const auto& machine : machines_) {
    const size_t member = machine->number();
    const consensus::MemberId id(static_cast<uint32_t>(member + 1));
    const auto memberships = machine->site().checker->MembershipsInForce();
    if (memberships.front().IsVoter(id)) voters.push_back(member);
  }
  const size_t chosen = voters[random_.Below(voters.size())];
  machines_[chosen]->PowerOff();
  if (MayHarmDisk(chosen)) machines_[chosen]->LoseDisk();
  for (const auto& machine : machines_) {
    if (machine->number() != chosen) RepairMember(machine->number());
  }
  network_.HealAll();
  return chosen;
}

bool Nemesis::LoseMajority() {
  std::vector<size_t> whole;
  const size_t voters = options_.cluster.voters;
  for (size_t member = 0; member < voters; ++member) {
    if (machines_[member]->counts() && machines_[member]->has_log()) whole.push_back(member);
  }
  const size_t losses = voters / 2 + 1;
  // At least one member has to know by its log that there was a cluster.
  const size_t kept_max = voters - losses;
  if (whole.empty() || kept_max == 0) return false;
  for (size_t i = whole.size(); i > 1; --i) std::swap(whole[i - 1], whole[random_.Below(i)]);
  whole.resize(std::min<size_t>(whole.size(), 1 + random_.Below(kept_max)));
  network_.BecomeSteady();
  network_.HealAll();
  for (const auto& machine : machines_) machine->PowerOff();
  for (size_t member = 0; member < machines_.size(); ++member) {
    if (std::find(whole.begin(), whole.end(), member) != whole.end()) continue;
    machines_[member]->LoseDisk();
    if (random_.Chance(0.9)) RepairMember(member);
  }
  return true;
}

void Nemesis::BringBackAll() {
  for (const auto& machine : machines_) RepairMember(machine->number());
}

}  // namespace quorate::simulation
