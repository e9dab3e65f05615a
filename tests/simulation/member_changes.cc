// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/member_changes.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/assert.h"
#include "rpc/config/server_line.h"
#include "rpc/membership/members.h"
#include "tests/simulation/membership_rules.h"
#include "tests/simulation/process.h"

namespace quorate::simulation {
namespace {

using consensus::MemberId;
using consensus::Membership;

// How many requests are made for a goal: some are refused until a new member has caught up.
constexpr int kRequestsMax = 8;
constexpr size_t kVotersMax = 7;
constexpr double kMoveChance = 0.25;
// How long a server may be away before it is started again with the new lines.
constexpr int64_t kStaleUs = 3'000'000;

MemberId Id(size_t member) { return MemberId(static_cast<uint32_t>(member + 1)); }
size_t Number(MemberId member) { return member.value() - 1; }

void Put(MemberId member, std::vector<MemberId>* to) {
  to->insert(std::lower_bound(to->begin(), to->end(), member), member);
}

}  // namespace

MemberChanges::MemberChanges(Simulation* simulation,
                             std::vector<std::unique_ptr<Machine>>* machines, Faults faults)
    : simulation_(*simulation),
      machines_(*machines),
      faults_(std::move(faults)),
      random_(simulation->random("member changes")) {}

// --- Goals ---------------------------------------------------------------------------------------

MemberId MemberChanges::Take(std::vector<MemberId>* from) {
  const auto place = from->begin() + static_cast<ptrdiff_t>(random_.Below(from->size()));
  const MemberId taken = *place;
  from->erase(place);
  return taken;
}

std::vector<MemberId> MemberChanges::Others() const {
  std::vector<MemberId> others;
  for (size_t member = 0; member < machines_.size(); ++member) {
    if (!goal_->Contains(Id(member))) others.push_back(Id(member));
  }
  return others;
}

void MemberChanges::ChooseGoal(const Membership& current, size_t leader) {
  goal_ = current;
  goal_->addresses.clear();
  requests_ = 0;
  auto& voters = goal_->voters;
  auto& learners = goal_->learners;
  std::vector<MemberId> others = Others();
  switch (static_cast<Kind>(random_.Below(kKinds))) {
    case Kind::kAnything:
      return ChooseAnything();
    case Kind::kGrow:
      for (int i = 0; i < 2 && !others.empty() && voters.size() < kVotersMax; ++i) {
        Put(Take(&others), &voters);
      }
      return;
    case Kind::kShrink:
      for (int i = 0; i < 2 && voters.size() > 1; ++i) Take(&voters);
      return;
    case Kind::kReplace:
      return ReplaceOne();
    case Kind::kRemoveLeader:
      if (voters.size() > 1) std::erase(voters, Id(leader));
      return;
    case Kind::kObserve:
      if (others.empty() && voters.size() > 1) others.push_back(Take(&voters));
      if (!others.empty()) Put(Take(&others), &learners);
      return;
    case Kind::kPromote:
      for (MemberId learner : std::exchange(learners, {})) Put(learner, &voters);
      return;
    case Kind::kReturn:
      *goal_ = {};
      const ClusterOptions& cluster = simulation_.options().cluster;
      for (size_t member = 0; member < cluster.voters + cluster.learners; ++member) {
        (member < cluster.voters ? voters : learners).push_back(Id(member));
      }
  }
}

// One to three single steps at once.
void MemberChanges::ChooseAnything() {
  auto& voters = goal_->voters;
  auto& learners = goal_->learners;
  for (int64_t steps = random_.Between(1, 3); steps > 0; --steps) {
    const MemberId any = Id(random_.Below(machines_.size()));
    switch (random_.Below(4)) {
      case 0:
        if (!goal_->Contains(any)) Put(any, &learners);
        break;
      case 1:
        if (!learners.empty()) Put(Take(&learners), &voters);
        break;
      case 2:
        if (voters.size() > 1) Put(Take(&voters), &learners);
        break;
      default:
        if (random_.Chance(0.5) && voters.size() > 1) {
          Take(&voters);
        } else if (!learners.empty()) {
          Take(&learners);
        }
    }
  }
}

// Replaces a voter, whose machine fails, by another machine. Mostly the disk of the voter is lost.
void MemberChanges::ReplaceOne() {
  std::vector<MemberId> others = Others();
  auto& from = others.empty() ? goal_->learners : others;
  if (from.empty()) return;
  const size_t failing = Number(Take(&goal_->voters));
  Put(Take(&from), &goal_->voters);
  if (!faults_.may_lose_power(failing)) return;
  simulation_.trace().Count("cluster: a voter is replaced");
  machines_[failing]->PowerOff();
  if (random_.Chance(0.7) && faults_.may_harm_disk(failing)) {
    simulation_.trace().Count("cluster: a voter whose disk is lost is replaced");
    machines_[failing]->LoseDisk();
  }
  faults_.bring_back_later(failing);
}

Membership MemberChanges::NextStep(const Membership& current) const {
  Membership next = current;
  next.addresses.clear();
  for (MemberId voter : goal_->voters) {
    if (!current.Contains(voter)) Put(voter, &next.learners);
  }
  return next.learners == current.learners ? *goal_ : next;
}

// --- Requests ------------------------------------------------------------------------------------

Membership MemberChanges::WithAddresses(Membership target, const Membership& current) {
  rpc::ServerLines lines;
  const size_t moves = random_.Chance(kMoveChance) ? random_.Below(machines_.size()) : ~size_t{0};
  for (MemberId member : target.Members()) {
    SimPeerNetwork::Host& host = peers().host(Number(member));
    if (Number(member) == moves && host.oldest_address == host.newest_address) {
      simulation_.trace().Count("cluster: a member shall move");
      peers().AddAddress(moves);
    }
    rpc::ServerLine& line = lines[member.value()];
    line = peers().LineAt(Number(member), host.newest_address);
    const auto now = current.addresses.find(member);
    if (now != current.addresses.end() && Number(member) != moves) {
      line = rpc::ParseServerLine(now->second).value();
    }
    line.observer = !target.IsVoter(member);
  }
  absl::StatusOr<Membership> with_addresses = rpc::MembershipOf(lines);
  ASSERT(with_addresses.ok(), "the simulator's addresses are valid");
  return *std::move(with_addresses);
}

void MemberChanges::Request() {
  Machine* leader = faults_.leader();
  if (leader == nullptr) return;
  const consensus::Raft& raft = leader->process()->raft();
  const Membership current = raft.membership();
  if (current.joint()) return;
  const bool is_reached = goal_.has_value() && current.HasSameMembers(*goal_);
  if (is_reached) simulation_.trace().Count("cluster: a goal of membership changes is reached");
  if (!goal_.has_value() || is_reached || requests_ >= kRequestsMax) {
    ChooseGoal(current, leader->number());
    if (leader->process() == nullptr) return;  // it is the one to be replaced
  }
  ++requests_;
  Membership target = NextStep(current);
  if (raft.cluster_version() >= consensus::kVersionAddresses && machines_.size() > 1) {
    target = WithAddresses(std::move(target), current);
  }
  Send(leader, target);
}

void MemberChanges::Send(Machine* leader, const Membership& target) {
  Process* process = leader->process();
  process->Post([this, process, target] {
    // A process may run on a disk with undetected damage. The voters after the change must have a
    // majority without that disk.
    const bool is_safe =
        Decides(target, [this](MemberId voter) { return machines_[Number(voter)]->counts(); });
    if (!is_safe) {
      return simulation_.trace().Count("cluster: membership change left out: disks are damaged");
    }
    const auto on_done = [this, target](const absl::Status& status) {
      simulation_.trace().Count(status.ok() ? "cluster: membership change done"
                                            : "cluster: membership change refused or given up");
      simulation_.Line("", "members shall be {}: {}", ToString(target),
                       status.ok() ? "done" : std::string(status.message()));
    };
    const bool versions_differ = std::any_of(
        machines_.begin(), machines_.end(),
        [](const auto& machine) { return machine->version() != consensus::kVersionNewest; });
    if (versions_differ) simulation_.trace().Count("cluster: membership change between versions");
    if (target.addresses.empty()) {
      simulation_.trace().Count("cluster: membership change without addresses");
      return on_done(process->raft().ChangeMembership(target));
    }
    requested_ = target;
    process->replica().ChangeMembers(rpc::MembersOf(target, {}), process->raft().membership_index(),
                                     on_done);
  });
}

// --- Faults within a change ----------------------------------------------------------------------

void MemberChanges::OnAppended(size_t leader) {
  const Options& options = simulation_.options();
  const consensus::Raft& raft = machines_[leader]->process()->raft();
  simulation_.trace().Count(raft.membership().joint() ? "cluster: a change is joint"
                                                      : "cluster: a membership was appended");
  if (stopped_ || !random_.Chance(options.cluster.crash_in_change_chance)) return;
  const int64_t soon_us = 2 * (2 * options.network.delay_us + options.disk.write_us);
  simulation_.After(random_.Between(0, soon_us), [this, leader] {
    if (!stopped_) Strike(leader);
  });
}

void MemberChanges::Strike(size_t leader) {
  const Process* process = machines_[leader]->process();
  if (process == nullptr || machines_[leader]->paused()) return;
  const consensus::Raft& raft = machines_[leader]->process()->raft();
  simulation_.trace().Count(raft.membership().joint()      ? "fault: in a joint membership"
                            : raft.MembershipIsCommitted() ? "fault: just after a change"
                                                           : "fault: before a change is committed");
  if (random_.Chance(0.3)) return faults_.isolate(leader);
  const size_t struck = random_.Chance(0.7) ? leader : random_.Below(machines_.size());
  if (!machines_[struck]->on() || !faults_.may_lose_power(struck)) return;
  machines_[struck]->PowerOff();
  faults_.bring_back_later(struck);
}

// --- Outside the log -----------------------------------------------------------------------------

void MemberChanges::LookAfterServers() {
  DropOldAddresses();
  RestartStale();
}

bool MemberChanges::EveryServerKnowsNewest(size_t member) const {
  const rpc::ServerLine line = peers().LineAt(member, peers().host(member).newest_address);
  const rpc::PeerAddress newest{line.host, line.peer_port};
  return std::all_of(machines_.begin(), machines_.end(), [&](const auto& machine) {
    if (machine->number() == member) return true;
    Process* process = machine->process();
    if (process == nullptr || !process->IsConfiguredWithNewest(member)) return false;
    const auto& address = process->links().AddressOf(member);
    if (address.has_value() && *address != newest) return false;
    return process->raft().MembershipIsCommitted();
  });
}

void MemberChanges::DropOldAddresses() {
  for (size_t member = 0; member < machines_.size(); ++member) {
    const SimPeerNetwork::Host& host = peers().host(member);
    if (host.oldest_address == host.newest_address || !EveryServerKnowsNewest(member)) continue;
    simulation_.Line(fmt::format("{}", member + 1), "has only the address {} from now on",
                     peers().LineAt(member, host.newest_address).host);
    simulation_.trace().Count("cluster: a member has moved");
    peers().DropOldAddresses(member);
  }
}

// Whether a server does not know the newest membership, which it is in, and cannot be reached by, or
// cannot reach, a member of it.
bool MemberChanges::IsStale(const Machine& machine) const {
  const Process* process = machine.process();
  if (process == nullptr || machine.paused()) return false;
  const auto& [index, membership] = checker().newest_membership();
  Machine& changing = *machines_[machine.number()];
  if (!membership.Contains(Id(machine.number()))) return false;
  if (changing.process()->raft().membership_index() >= index) return false;
  const std::vector<MemberId> members = membership.Members();
  return std::any_of(members.begin(), members.end(), [&](MemberId member) {
    if (Number(member) == machine.number()) return false;
    const auto& address = changing.process()->links().AddressOf(Number(member));
    return !address.has_value() || !peers().Has(Number(member), *address);
  });
}

void MemberChanges::RestartStale() {
  for (const auto& machine : machines_) {
    const size_t member = machine->number();
    if (!IsStale(*machine)) {
      stale_since_us_.erase(member);
      continue;
    }
    const int64_t since_us =
        stale_since_us_.try_emplace(member, simulation_.now_us()).first->second;
    if (simulation_.now_us() < since_us + kStaleUs) continue;
    stale_since_us_.erase(member);
    simulation_.trace().Count("cluster: a server that was away is started with the new lines");
    machine->Kill();
    machine->Start();
  }
}

}  // namespace quorate::simulation
