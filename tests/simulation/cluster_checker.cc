// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/cluster_checker.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "base/assert.h"
#include "base/seeded_bug.h"
#include "consensus/core/membership.h"
#include "tests/simulation/machine.h"
#include "tests/simulation/membership_rules.h"
#include "tests/simulation/process.h"
#include "tree/command.h"

namespace quorate::simulation {
namespace {

using consensus::Index;
using consensus::MemberId;
using consensus::Membership;
using consensus::Term;

// Reopening a disk costs as much as many events: only one of so many promises is checked this way.
constexpr uint64_t kPromisesForOneCheck = 50;
constexpr uint64_t kCommitsForOneCheck = 200;
// How many of the last committed entries are compared byte by byte with a new leader's log; older
// ones are compared by their terms.
constexpr uint64_t kEntriesCompared = 64;
// After how many election timeouts what was in a leader's log must be acknowledged by a new voter.
constexpr int kCatchUpElections = 3;
// The seeded bug that the servers have to find themselves.
constexpr char kOnlyServersLook[] = "a tree differs unseen";

}  // namespace

uint64_t ClusterChecker::HashOf(const consensus::Entry& entry) {
  Trace hash(Trace::Lines::kNone);
  hash.Mix(static_cast<uint64_t>(entry.kind));
  hash.Mix(entry.payload.view());
  return hash.hash();
}

void ClusterChecker::AddMachine(Machine* machine) {
  if (machines_.empty()) {
    const ClusterOptions& cluster = simulation_.options().cluster;
    Membership bootstrap;
    for (uint32_t i = 1; i <= cluster.voters + cluster.learners; ++i) {
      (i <= cluster.voters ? bootstrap.voters : bootstrap.learners).emplace_back(i);
    }
    RecordMembership(bootstrap);
    memberships_.emplace(Index{0}, std::move(bootstrap));
  }
  machines_.push_back(machine);
}

// --- Elections -----------------------------------------------------------------------------------

void ClusterChecker::OnMessage(size_t member, const consensus::Message& message) {
  simulation_.trace().Mix(member << 32 | message.body.index());
  if (simulation_.tracing()) {
    simulation_.Line(fmt::format("{}", member + 1), "{}", ToString(message));
  }
  if (std::holds_alternative<consensus::AppendRequest>(message.body) ||
      std::holds_alternative<consensus::Heartbeat>(message.body)) {
    // A follower that feeds an observer names its leader.
    const bool feeds = message.on_behalf_of != consensus::kNoMember;
    OnLeader(feeds ? message.on_behalf_of : message.from, message.term);
  } else if (const auto* request = std::get_if<consensus::VoteRequest>(&message.body)) {
    if (!request->pre_vote) {
      OnVote(message.from, message.term, message.from);
      CheckMayCampaign(member, message.term);
      CheckPromise(member, message);
    }
  } else if (const auto* vote = std::get_if<consensus::VoteResponse>(&message.body)) {
    if (vote->granted && !vote->pre_vote) {
      OnVote(message.from, message.term, message.to);
      CheckPromise(member, message);
    }
  } else if (const auto* append = std::get_if<consensus::AppendAccepted>(&message.body)) {
    if (append->match_index > Index{0}) {
      Index& acknowledged = acknowledged_[member];
      acknowledged = std::max(acknowledged, append->match_index);
      CheckPromise(member, message);
    }
  }
}

void ClusterChecker::OnLeader(MemberId leader, Term term) {
  const auto [found, inserted] = leaders_.emplace(term, leader);
  if (found->second != leader) {
    simulation_.Fail("one leader a term",
                     fmt::format("servers {} and {} both lead in term {}", found->second.value(),
                                 leader.value(), term.value()));
  }
  if (!inserted) return;
  simulation_.trace().Count("election: won");
  CheckComplete(leader, term);
  for (ServerObserver* observer : observers_) observer->OnLeads(leader.value() - 1, term);
  if (on_election_) on_election_(leader.value() - 1);
}

void ClusterChecker::CheckComplete(MemberId leader, Term term) {
  const size_t member = leader.value() - 1;
  Process& process = *machines_[member]->process();
  const Index required = CommittedBefore(term);
  if (process.raft().last_index() < required) {
    simulation_.Fail("leaders are complete",
                     fmt::format("server {} leads in term {} with a log up to {}, but {} was "
                                 "committed in an earlier term",
                                 leader.value(), term.value(), process.raft().last_index().value(),
                                 required.value()));
  }
  // What the leader had before its election is on its disk, as its own vote is, unless the disk is
  // full.
  const consensus::SegmentLog& log = process.data_dir().log();
  if (required <= log.base_index() || machines_[member]->env().powered_off()) return;
  Awaited awaited{leader, term, std::min(required, log.last_index()), log.term_runs()};
  const Index known = std::min(awaited.required, committed());
  for (Index index = log.first_index(); index <= known; ++index) CheckTerm(awaited, index);
  if (known >= log.first_index()) {
    const bool all = simulation_.options().checks_everything;
    const uint64_t count =
        std::min(known - log.base_index(), all ? ~uint64_t{0} : kEntriesCompared);
    CompareLog("leaders are complete", member, log, known - (count - 1), known);
  }
  if (known < awaited.required) awaited_.push_back(std::move(awaited));
}

void ClusterChecker::CheckTerm(const Awaited& leader, Index index) {
  const Term term = entries_[index.value() - 1].term;
  Term found;
  for (const consensus::TermRun& run : leader.runs) {
    if (run.first <= index) found = run.term;
  }
  if (found == term) return;
  simulation_.Fail("leaders are complete",
                   fmt::format("server {} leads in term {} with an entry of term {} at {}, where "
                               "one of term {} was committed in an earlier term",
                               leader.leader.value(), leader.term.value(), found.value(),
                               index.value(), term.value()));
}

Index ClusterChecker::CommittedBefore(Term term) const {
  Index committed;
  for (const auto& [committed_in, index] : commits_) {
    if (committed_in >= term) break;
    committed = std::max(committed, index);
  }
  return committed;
}

Index ClusterChecker::Needed(size_t member) const {
  const auto found = acknowledged_.find(member);
  return found == acknowledged_.end() ? committed() : std::max(committed(), found->second);
}

void ClusterChecker::OnVote(MemberId voter, Term term, MemberId candidate) {
  const auto [found, inserted] = votes_.emplace(std::pair(voter, term), candidate);
  if (found->second != candidate) {
    simulation_.Fail(
        "one vote a term",
        fmt::format("server {} votes for server {} in term {}, and has voted for {} before",
                    voter.value(), candidate.value(), term.value(), found->second.value()));
  }
}

void ClusterChecker::OnDigestNote(size_t member, size_t to, const rpc::DigestNote& note) {
  simulation_.trace().Mix(member << 32 | static_cast<uint64_t>(note.kind));
  if (simulation_.tracing()) {
    simulation_.Line(fmt::format("{}", member + 1), "{}->{} digest note {}: zxid {}", member + 1,
                     to + 1, static_cast<int>(note.kind), note.zxid);
  }
  if (note.kind == rpc::DigestNote::Kind::kVerdict) {
    simulation_.trace().Count("digests: a majority agrees");
  }
  CheckKnows(member, to, "a note about digests");
}

void ClusterChecker::CheckKnows(size_t member, size_t to, std::string_view what) {
  for (size_t machine : {member, to}) {
    if (machines_[machine]->version() >= rpc::kVersionDigests) continue;
    simulation_.Fail(
        "no member is sent a message that its version does not know",
        fmt::format("server {} sends {} to server {}, and server {} is of version {}", member + 1,
                    what, to + 1, machine + 1, machines_[machine]->version()));
  }
}

void ClusterChecker::OnDiskReport(size_t member, size_t to, const rpc::DiskReport& report) {
  simulation_.Line(fmt::format("{}", member + 1), "{}->{} disk report:{}{}", member + 1, to + 1,
                   report.disk_low ? " low" : "", report.data_refused ? " data is refused" : "");
  simulation_.trace().Count(report.data_refused ? "disk: all are told to refuse data"
                                                : "disk: a leader is told of it");
  CheckKnows(member, to, "a report about disks");
  const DiskPressureOracle& oracle = machines_[member]->process()->oracle();
  if (report.disk_low && !oracle.is_short()) {
    simulation_.Fail("a disk is reported as low only while it is",
                     fmt::format("server {} tells server {}", member + 1, to + 1));
  }
  if (report.data_refused && !oracle.may_tell_to_refuse()) {
    simulation_.Fail("writes are refused only while disks are full",
                     fmt::format("server {} tells server {} to refuse", member + 1, to + 1));
  }
}

// --- Logs ----------------------------------------------------------------------------------------

void ClusterChecker::OnStart(size_t member, consensus::DataDir& data_dir) {
  in_force_.erase(member);
  log_ends_.erase(member);
  removed_in_.erase(member);
  CheckLog(member, data_dir, std::min(data_dir.hard_state().commit, committed()));
}

void ClusterChecker::OnStateLoaded(size_t member, Index applied, uint64_t digest) {
  simulation_.Line(fmt::format("{}", member + 1), "holds everything up to {}", applied.value());
  if (applied > committed()) {
    simulation_.Fail(
        "nothing is skipped",
        fmt::format("server {} holds a state of {}, but no member has applied more than "
                    "{}",
                    member + 1, applied.value(), committed().value()));
  }
  if (applied > Index{0}) {
    simulation_.trace().Count("server: began from a checkpoint or snapshot");
    const uint64_t expected = entries_[applied.value() - 1].digest;
    if (expected != digest && !SeededBug(kOnlyServersLook)) {
      simulation_.Fail("equal trees",
                       fmt::format("the state of {} that server {} has loaded has digest {:x}, "
                                   "not {:x}",
                                   applied.value(), member + 1, digest, expected));
    }
  }
  for (ServerObserver* observer : observers_) observer->OnStateLoaded(member, applied);
}

void ClusterChecker::CheckLog(size_t member, consensus::DataDir& data_dir, Index last) {
  ASSERT(last <= committed());
  const consensus::SegmentLog& log = data_dir.log();
  last = std::min(last, log.last_index());
  if (log.first_index() <= last) CompareLog("equal logs", member, log, log.first_index(), last);
}

void ClusterChecker::CompareLog(std::string_view invariant, size_t member,
                                const consensus::SegmentLog& log, Index first, Index last) {
  for (Index next = first; next <= last;) {
    auto entries = log.Read(next, last, 1u << 20);
    if (!entries.ok()) {
      if (machines_[member]->disk_fails() || !machines_[member]->disk_is_whole()) return;
      simulation_.Fail("committed entries can be read",
                       fmt::format("server {} at {}: {}", member + 1, next.value(),
                                   std::string(entries.status().message())));
    }
    for (const consensus::Entry& entry : *entries) {
      const Committed& committed = entries_[entry.index.value() - 1];
      if (committed.term != entry.term || committed.hash != HashOf(entry)) {
        simulation_.Fail(invariant,
                         fmt::format("server {} has {} in its log, and an entry of "
                                     "term {} was committed there",
                                     member + 1, ToString(entry), committed.term.value()));
      }
    }
    next = entries->back().index + 1;
  }
}

void ClusterChecker::OnApplied(size_t member, const consensus::Entry& entry, uint64_t digest) {
  if (simulation_.tracing()) {
    simulation_.Line(fmt::format("{}", member + 1), "applies {}", ToString(entry));
  }
  const uint64_t hash = HashOf(entry);
  simulation_.trace().Mix(hash ^ digest);
  if (entry.index <= committed()) {
    const Committed& before = entries_[entry.index.value() - 1];
    if (before.term != entry.term || before.hash != hash) {
      simulation_.Fail("equal logs",
                       fmt::format("server {} applies {}; another, or itself before, applied an "
                                   "entry of term {} there",
                                   member + 1, ToString(entry), before.term.value()));
    }
    if (before.digest != digest && !SeededBug(kOnlyServersLook)) {
      simulation_.Fail("equal trees",
                       fmt::format("after {} the tree of server {} has digest {:x}, not {:x}",
                                   ToString(entry), member + 1, digest, before.digest));
    }
    for (ServerObserver* observer : observers_) observer->OnApplied(member, entry);
    return;
  }
  if (entry.index != committed() + 1) {
    simulation_.Fail("nothing is skipped",
                     fmt::format("server {} applies {}, but no member has applied more than {}",
                                 member + 1, ToString(entry), committed().value()));
  }
  entries_.push_back({entry.term, hash, digest});
  RecordCommitted(entry);
  if (simulation_.options().checks_everything || random_.Below(kCommitsForOneCheck) == 0) {
    CheckCommitIsDurable(member, entry.index, entry.term, "applied");
  }
  if (on_first_applied_) on_first_applied_(member);
  for (ServerObserver* observer : observers_) observer->OnCommitted(entry);
  for (ServerObserver* observer : observers_) observer->OnApplied(member, entry);
}

void ClusterChecker::RecordCommitted(const consensus::Entry& entry) {
  for (const Awaited& leader : awaited_) {
    if (entry.index <= leader.required) CheckTerm(leader, entry.index);
  }
  std::erase_if(awaited_, [&](const Awaited& leader) { return leader.required <= entry.index; });
  CheckVersion(entry);
  if (entry.kind != consensus::EntryKind::kMembership) return;
  auto membership = consensus::DecodeMembership(entry.payload.view());
  ASSERT(membership.ok(), "it was applied");
  CheckIntersection(memberships_.rbegin()->second, *membership,
                    fmt::format("committed at {}", entry.index.value()));
  memberships_.emplace(entry.index, *std::move(membership));
}

void ClusterChecker::CheckVersion(const consensus::Entry& entry) {
  if (entry.kind == consensus::EntryKind::kVersion) {
    version_ = std::max(version_, consensus::DecodeVersion(entry.payload.view()).value());
  }
  if (entry.kind != consensus::EntryKind::kCommand) return;
  const std::string_view command = entry.payload.view();
  const tree::CommandHeader header = tree::DecodeHeader(command).value();
  uint32_t needed = tree::VersionNeeded(header.kind);
  if (header.kind == tree::CommandKind::kRequest) {
    needed = tree::VersionNeeded(header, tree::DecodeRequest(command).value());
  } else if (header.kind == tree::CommandKind::kSequencedRequest) {
    needed = tree::VersionNeeded(header, tree::DecodeSequencedRequest(command).value().request);
  }
  if (header.bounds_time) needed = std::max(needed, tree::kVersionBoundedTime);
  if (needed <= version_) return;
  simulation_.Fail("no command enters the log before every member knows it",
                   fmt::format("{} needs version {}; the version of the cluster is {}",
                               ToString(entry), needed, version_));
}

std::vector<Membership> ClusterChecker::MembershipsInForce() const {
  std::vector<Membership> memberships = {memberships_.rbegin()->second};
  for (const auto& [member, membership] : in_force_) {
    if (std::find(memberships.begin(), memberships.end(), membership) == memberships.end()) {
      memberships.push_back(membership);
    }
  }
  return memberships;
}

void ClusterChecker::RecordMembership(Membership membership) {
  membership.addresses.clear();
  if (std::find(known_.begin(), known_.end(), membership) == known_.end()) {
    known_.push_back(std::move(membership));
  }
}

void ClusterChecker::OnMembershipLoaded(size_t member, const Membership& membership) {
  Membership loaded = membership;
  loaded.addresses.clear();
  if (std::find(known_.begin(), known_.end(), loaded) != known_.end()) return;
  simulation_.Fail(
      "editing the configuration does not change the membership",
      fmt::format("server {} starts as a member of {}, which was never bootstrapped and "
                  "no leader ever asked for",
                  member + 1, ToString(loaded)));
}

void ClusterChecker::OnConfigNode(size_t member, Index applied, std::string_view content) {
  std::string expected;
  for (auto next = memberships_.rbegin(); next != memberships_.rend(); ++next) {
    const auto& [index, membership] = *next;
    if (index > applied || membership.joint() || membership.addresses.empty()) continue;
    for (const auto& [id, line] : membership.addresses) {
      expected += fmt::format("server.{}={}\n", id.value(), line);
    }
    expected += fmt::format("version={:x}", index.value());
    break;
  }
  if (!expected.empty()) simulation_.trace().Count("checker: /zookeeper/config was compared");
  if (content == expected) return;
  simulation_.Fail("/zookeeper/config shows the members",
                   fmt::format("server {} shows at {}:\n{}\n  instead of:\n{}", member + 1,
                               applied.value(), content, expected));
}

const Membership& ClusterChecker::MembershipAt(Index index) const {
  return std::prev(memberships_.upper_bound(index))->second;
}

void ClusterChecker::CheckIntersection(const Membership& before, const Membership& after,
                                       std::string_view where) {
  simulation_.trace().Count("checker: two memberships were compared");
  if (Intersect(before, after)) return;
  simulation_.Fail("memberships intersect", fmt::format("{} is followed by {}, {}",
                                                        ToString(before), ToString(after), where));
}

void ClusterChecker::OnSessionAttached(size_t member, const tree::SessionInfo& session) {
  for (ServerObserver* observer : observers_) observer->OnSessionAttached(member, session);
}

void ClusterChecker::OnSessionClosed(size_t member, tree::SessionId session, tree::Zxid zxid,
                                     bool expired) {
  for (ServerObserver* observer : observers_) {
    observer->OnSessionClosed(member, session, zxid, expired);
  }
}

void ClusterChecker::OnResult(size_t member, const tree::ApplyResult& result) {
  for (ServerObserver* observer : observers_) observer->OnResult(member, result);
}

void ClusterChecker::OnStoodStill(size_t member, int64_t from_us) {
  for (ServerObserver* observer : observers_) observer->OnStoodStill(member, from_us);
}

void ClusterChecker::OnProgress(size_t member, const Progress& previous, const Progress& now) {
  if (now.term < previous.term || now.commit < previous.commit) {
    simulation_.Fail(
        "nothing goes back",
        fmt::format("server {}: term {} -> {}, commit {} -> {}", member + 1, previous.term.value(),
                    now.term.value(), previous.commit.value(), now.commit.value()));
  }
  if (now.commit > previous.commit) {
    Index& highest = commits_[now.term];
    highest = std::max(highest, now.commit);
    if (now.leads) {
      decided_under_.insert_or_assign(now.commit,
                                      machines_[member]->process()->raft().membership());
    }
    const bool all = simulation_.options().checks_everything;
    if (now.leads && (all || random_.Below(kCommitsForOneCheck) == 0)) {
      CheckCommitIsDurable(member, now.commit, std::nullopt, "committed");
    }
  }
  const Membership& membership = machines_[member]->process()->raft().membership();
  const auto [in_force, is_first] = in_force_.try_emplace(member, membership);
  if (is_first || in_force->second != membership) RecordMembership(membership);
  if (!is_first && in_force->second != membership) {
    if (previous.leads && now.leads && previous.term == now.term) {
      CheckIntersection(in_force->second, membership, fmt::format("at server {}", member + 1));
      CheckNewVoters(member, in_force->second, membership);
      if (on_membership_appended_) on_membership_appended_(member);
    }
    in_force->second = membership;
  }
  const MemberId id(static_cast<uint32_t>(member + 1));
  const consensus::Raft& raft = machines_[member]->process()->raft();
  if (raft.membership_index() > Index{0} && raft.MembershipIsCommitted() &&
      !membership.Contains(id)) {
    removed_in_.try_emplace(member, now.term);
  } else {
    removed_in_.erase(member);
  }
  if (now.leads) OnLeader(id, now.term);
}

void ClusterChecker::OnTick(size_t member, const consensus::Raft& raft) {
  if (raft.role() != consensus::Role::kLeader) {
    log_ends_.erase(member);
    return;
  }
  LogEnds& log = log_ends_[member];
  if (log.term != raft.term()) log = {raft.term(), {}};
  log.ends.push_back(raft.last_index());
  // A voter has completed a round of catching up that took less than an election timeout, and the
  // round after it has not taken longer (consensus/core/catch_up.h).
  const auto ticks_max = static_cast<size_t>(kCatchUpElections) *
                         static_cast<size_t>(simulation_.options().limits.election_ticks);
  if (log.ends.size() > ticks_max) log.ends.pop_front();
  log.is_whole = log.ends.size() == ticks_max;
}

void ClusterChecker::CheckNewVoters(size_t leader, const Membership& before,
                                    const Membership& appended) {
  const auto log = log_ends_.find(leader);
  if (log == log_ends_.end() || !log->second.is_whole) return;
  const Index required = log->second.ends.front();
  for (MemberId voter : appended.voters) {
    if (before.IsVoter(voter)) continue;
    simulation_.trace().Count("checker: a new voter has caught up");
    const Index has = acknowledged_[voter.value() - 1];
    if (has >= required) continue;
    simulation_.Fail(
        "a voter has caught up when it is added",
        fmt::format("server {} makes server {} a voter, which has acknowledged {}; the "
                    "log reached {} {} election timeouts before",
                    leader + 1, voter.value(), has.value(), required.value(), kCatchUpElections));
  }
}

void ClusterChecker::CheckMayCampaign(size_t member, Term term) {
  // A request of an earlier term may have waited for the disk since before the removal was known.
  const auto removed = removed_in_.find(member);
  if (removed == removed_in_.end() || term <= removed->second) return;
  simulation_.Fail("a removed member does not campaign",
                   fmt::format("server {} asks for votes in term {}, and knows since term {} that "
                               "its removal is committed",
                               member + 1, term.value(), removed->second.value()));
}

// --- Durability ----------------------------------------------------------------------------------

ClusterChecker::DurableDisk* ClusterChecker::OpenDurable(size_t member) {
  const consensus::FaultEnv& current = machines_[member]->env();
  DurableDisk& disk = durable_disks_[member];
  const bool is_known = disk.of == &current && disk.operations == current.operations() &&
                        disk.other_changes == machines_[member]->disk_changes();
  if (is_known) return &disk;
  // The directory holds a lock on its disk, so it is closed first.
  disk.data_dir.reset();
  disk = {};
  std::unique_ptr<consensus::FaultEnv> env = current.CloneDurable();
  simulation_.trace().Count("checker: disk opened");
  auto data_dir = Process::OpenDataDir(machines_[member], env.get());
  if (!data_dir.ok()) {
    // A directory may be half made, or damaged on purpose.
    if (!machines_[member]->disk_is_whole()) return nullptr;
    simulation_.Fail("promises are durable",
                     fmt::format("after a power failure server {} could not open its disk: {}",
                                 member + 1, std::string(data_dir.status().message())));
  }
  disk.of = &current;
  disk.operations = current.operations();
  disk.other_changes = machines_[member]->disk_changes();
  disk.env = std::move(env);
  disk.data_dir = *std::move(data_dir);
  return &disk;
}

Index ClusterChecker::DurableCheckpoint(size_t member, consensus::FaultEnv* env) {
  std::optional<tree::RecordStore::Metadata> newest;
  if (machines_[member]->store_disk() != nullptr) {
    // The store reports a checkpoint as committed only when it is durable.
    newest = machines_[member]->process()->store().newest();
  } else if (auto store = Process::OpenStore(machines_[member], env); store.ok()) {
    newest = (*store)->newest();
  }
  return newest.has_value() ? Index{static_cast<uint64_t>(newest->zxid.value())} : Index{0};
}

void ClusterChecker::CheckPromise(size_t member, const consensus::Message& message) {
  if (machines_[member]->has_hidden_fault()) return;
  if (!simulation_.options().checks_everything && random_.Below(kPromisesForOneCheck) != 0) return;
  DurableDisk* const disk = OpenDurable(member);
  if (disk == nullptr) return;
  consensus::DataDir* const data_dir = disk->data_dir.get();
  const consensus::HardState& state = data_dir->hard_state();
  bool kept = false;
  if (const auto* append = std::get_if<consensus::AppendAccepted>(&message.body)) {
    Index last = data_dir->log().last_index();
    // A snapshot may be durable while the log behind it is not yet.
    last = std::max(last, DurableCheckpoint(member, disk->env.get()));
    kept = last >= append->match_index && state.term >= message.term;
  } else {
    const bool own = std::holds_alternative<consensus::VoteRequest>(message.body);
    kept = state.term > message.term ||
           (state.term == message.term && state.vote == (own ? message.from : message.to));
  }
  if (kept) return;
  simulation_.Fail("promises are durable",
                   fmt::format("server {} says: {}\n  a power failure now would leave it with {} "
                               "and a log up to {}",
                               member + 1, ToString(message), ToString(state),
                               data_dir->log().last_index().value()));
}

void ClusterChecker::CheckCommitIsDurable(size_t member, Index index, std::optional<Term> term,
                                          std::string_view what) {
  // The membership in force at a member may be newer than that of the index, because of a later
  // entry of its log; and its last step may have committed under one membership and then appended
  // the next.
  const Membership& current = machines_[member]->process()->raft().membership();
  const auto before = in_force_.find(member);
  std::vector<const Membership*> in_force = {&MembershipAt(index), &current};
  if (before != in_force_.end()) in_force.push_back(&before->second);
  // The member that applies an entry may not know yet of the membership under which the leader
  // committed that entry.
  const auto decided = decided_under_.lower_bound(index);
  if (decided != decided_under_.end()) in_force.push_back(&decided->second);
  std::set<MemberId> voters;
  for (const Membership* membership : in_force) {
    for (MemberId voter : membership->Members()) {
      if (membership->IsVoter(voter)) voters.insert(voter);
    }
  }
  std::map<Term, std::set<MemberId>> holders;
  std::set<MemberId> unknown;  // voters that may have had it, or have it in a checkpoint
  for (MemberId voter : voters) {
    const size_t machine = voter.value() - 1;
    DurableDisk* const disk = machines_[machine]->disk_is_whole() ? OpenDurable(machine) : nullptr;
    consensus::DataDir* const data_dir = disk == nullptr ? nullptr : disk->data_dir.get();
    if (data_dir == nullptr || data_dir->log().base_index() >= index) {
      if (data_dir != nullptr || !machines_[machine]->disk_is_whole()) unknown.insert(voter);
      continue;
    }
    const std::optional<Term> found = data_dir->log().TermAt(index);
    if (found.has_value()) holders[*found].insert(voter);
  }
  if (holders.empty()) holders[term.value_or(Term{0})];
  for (const auto& [held, members] : holders) {
    if (term.has_value() && held != *term) continue;
    for (const Membership* membership : in_force) {
      if (Decides(*membership, [&unknown, &having = members](MemberId voter) {
            return having.contains(voter) || unknown.contains(voter);
          })) {
        simulation_.trace().Count("checker: a commit is on a quorum's disks");
        return;
      }
    }
  }
  std::string found;
  for (const auto& [held, members] : holders) {
    found += fmt::format("\n  of term {}:", held.value());
    for (MemberId voter : members) found += fmt::format(" {}", voter.value());
  }
  simulation_.Fail(
      "commits are durable",
      fmt::format("{} was {} at server {}, and no quorum of {} has it on its disks{}",
                  index.value(), what, member + 1, ToString(MembershipAt(index)), found));
}

}  // namespace quorate::simulation
