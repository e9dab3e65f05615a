#include "tests/simulation/nemesis.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/process.h"

namespace quorate::simulation {
namespace {

}  // namespace

Nemesis::Nemesis(Simulation* simulation, Network* network, ClientNetwork* clients,
                 std::vector<std::unique_ptr<Machine>>* machines)
    : simulation_(*simulation),
      network_(*network),
      clients_(*clients),
      machines_(*machines),
      options_(simulation->options()),
      random_(simulation->random("nemesis")) {}

void Nemesis::Start() {
  for (const auto& machine : machines_) {
    const size_t member = machine->number();
    machine->OnDeath([this, member] { BringBackLater(member); });
    simulation_.After(random_.Between(0, 200'000), [this, member] { BringBack(member); });
    StartMemberFaults(member);
    StartDiskFaults(member);
  }
  StartNetworkFaults();
}

void Nemesis::Stop() {
  stopped_ = true;
  repaired_.assign(machines_.size(), false);
}

// `rate` times a second, on average, until Stop.
void Nemesis::Repeat(double rate, std::function<void()> fault) {
  if (rate <= 0) return;
  const auto period_us = static_cast<int64_t>(1e6 / rate);
  simulation_.After(random_.Between(0, 2 * period_us), [this, rate, fault = std::move(fault)] {
    if (stopped_) return;
    fault();
    Repeat(rate, fault);
  });
}

// --- Members -------------------------------------------------------------------------------------

void Nemesis::StartMemberFaults(size_t member) {
  Machine& machine = *machines_[member];
  Repeat(options_.member.crash_rate, [this, &machine, member] {
    if (!machine.on()) return;
    machine.PowerOff();
    BringBackLater(member);
  });
  Repeat(options_.member.crash_in_step_rate,
         [this, &machine] { machine.PowerOffWithin(random_.Below(20)); });
  Repeat(options_.member.kill_rate, [this, &machine, member] {
    if (machine.process() == nullptr) return;
    machine.Kill();
    BringBackLater(member);
  });
  Repeat(options_.member.pause_rate, [this, &machine] {
    machine.Pause();
    simulation_.After(random_.LongTail(options_.member.down_us), [this, &machine] {
      if (!stopped_) machine.Resume();
    });
  });
  Repeat(options_.member.clock_jump_rate, [this, &machine, member] {
    const int64_t by_ms =
        random_.Between(-options_.member.clock_jump_ms, options_.member.clock_jump_ms);
    simulation_.Line(fmt::format("{}", member + 1), "the wall clock jumps by {} ms", by_ms);
    simulation_.trace().Count("fault: wall clock jumps");
    machine.clock().Jump(by_ms);
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
  if (!stopped_) MaybeHarmDisk(member);
  machine.Start();
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
    }
  });
  Repeat(options_.disk.sync_error_rate, [&machine] {
    if (machine.process() != nullptr) machine.FailSync();
  });
}

bool Nemesis::MayHarmDisk(size_t member) const {
  if (machines_[member]->starts() == 0) return false;
  const size_t voters = options_.cluster.voters;
  size_t harmed = 0;
  for (size_t i = 0; i < voters; ++i) {
    if (i == member || !machines_[i]->disk_is_whole()) ++harmed;
  }
  return harmed * 2 < voters;
}

void Nemesis::MaybeHarmDisk(size_t member) {
  if (random_.Chance(options_.disk.disk_loss_chance) && MayHarmDisk(member)) {
    machines_[member]->LoseDisk();
  } else if (random_.Chance(options_.disk.bit_flip_chance) && MayHarmDisk(member)) {
    machines_[member]->FlipBit(&random_);
  }
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
      const size_t alone = random_.Below(members);
      side[alone] = 1;
      // Perhaps its clients are with it.
      if (random_.Chance(0.5)) CutBetween(alone, network_.client_host());
      description = fmt::format("{} is cut off", alone + 1);
      break;
    }
    case 1:  // a ring: each sees its neighbours only
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

// --- Repair --------------------------------------------------------------------------------------

std::vector<size_t> Nemesis::RepairCore() {
  const size_t voters = options_.cluster.voters;
  // A majority of the voters that have their disks, and some others.
  std::vector<size_t> candidates(voters);
  for (size_t i = 0; i < voters; ++i) candidates[i] = i;
  for (size_t i = voters; i > 1; --i) std::swap(candidates[i - 1], candidates[random_.Below(i)]);
  std::stable_partition(candidates.begin(), candidates.end(),
                        [&](size_t i) { return machines_[i]->disk_is_whole(); });
  candidates.resize(voters / 2 + 1 + random_.Below(voters - voters / 2));
  for (size_t i = voters; i < machines_.size(); ++i) {
    if (random_.Chance(0.5)) candidates.push_back(i);
  }
  std::sort(candidates.begin(), candidates.end());
  network_.CalmDown();
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

// Who is not in the core is in touch with all of it, or with none, or one way only. Whatever
// reaches only a part of the core can keep the rest from agreeing for good: it may lead.
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
  if (machine.process() == nullptr) machine.Start();
  machine.Resume();
}

void Nemesis::RepairAll() {
  simulation_.Line("", "everything is repaired");
  network_.HealAll();
  for (const auto& machine : machines_) RepairMember(machine->number());
}

}  // namespace quorate::simulation
