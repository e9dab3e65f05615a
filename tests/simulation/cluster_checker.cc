#include "tests/simulation/cluster_checker.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "base/assert.h"
#include "base/planted_fault.h"
#include "tests/simulation/machine.h"
#include "tests/simulation/process.h"

namespace quorate::simulation {
namespace {

using consensus::Index;
using consensus::MemberId;
using consensus::Term;

// Opening a disk once more costs as much as many events: only some promises are checked so.
constexpr uint64_t kPromisesForOneCheck = 50;
constexpr uint64_t kCommitsForOneCheck = 200;
// Of this one the servers have to take care themselves.
constexpr char kOnlyServersLook[] = "a tree differs unseen";

}  // namespace

uint64_t ClusterChecker::HashOf(const consensus::Entry& entry) {
  Trace hash(Trace::Lines::kNone);
  hash.Mix(static_cast<uint64_t>(entry.kind));
  hash.Mix(entry.payload.view());
  return hash.hash();
}

// --- Elections -----------------------------------------------------------------------------------

void ClusterChecker::OnMessage(size_t member, const consensus::Message& message) {
  simulation_.trace().Mix(member << 32 | message.body.index());
  if (simulation_.tracing()) {
    simulation_.Line(fmt::format("{}", member + 1), "{}", ToString(message));
  }
  if (std::holds_alternative<consensus::AppendRequest>(message.body) ||
      std::holds_alternative<consensus::Heartbeat>(message.body)) {
    OnLeader(message.from, message.term);
  } else if (const auto* request = std::get_if<consensus::VoteRequest>(&message.body)) {
    if (!request->pre_vote) {
      OnVote(message.from, message.term, message.from);
      CheckPromise(member, message);
    }
  } else if (const auto* vote = std::get_if<consensus::VoteResponse>(&message.body)) {
    if (vote->granted && !vote->pre_vote) {
      OnVote(message.from, message.term, message.to);
      CheckPromise(member, message);
    }
  } else if (const auto* append = std::get_if<consensus::AppendResponse>(&message.body)) {
    if (append->success && append->match_index > Index{0}) {
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
  const Index last = machines_[leader.value() - 1]->process()->raft().last_index();
  const Index required = CommittedBefore(term);
  if (last < required) {
    simulation_.Fail("leaders are complete",
                     fmt::format("server {} leads in term {} with a log up to {}, but {} was "
                                 "committed in an earlier term",
                                 leader.value(), term.value(), last.value(), required.value()));
  }
  for (ServerObserver* observer : observers_) observer->OnLeads(leader.value() - 1, term);
  if (on_election_) on_election_(leader.value() - 1);
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
        "nobody is sent what it does not know",
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
  const DiskWitness& witness = machines_[member]->process()->witness();
  if (report.disk_low && !witness.is_short()) {
    simulation_.Fail("a disk is reported as low only while it is",
                     fmt::format("server {} tells server {}", member + 1, to + 1));
  }
  if (report.data_refused && !witness.may_tell_to_refuse()) {
    simulation_.Fail("writes are refused only while disks are full",
                     fmt::format("server {} tells server {} to refuse", member + 1, to + 1));
  }
}

// --- Logs ----------------------------------------------------------------------------------------

void ClusterChecker::OnStart(size_t member, consensus::DataDir& data_dir) {
  CheckLog(member, data_dir, std::min(data_dir.hard_state().commit, committed()));
}

void ClusterChecker::OnStateLoaded(size_t member, Index applied, uint64_t digest) {
  simulation_.Line(fmt::format("{}", member + 1), "holds everything up to {}", applied.value());
  if (applied > committed()) {
    simulation_.Fail("nothing is skipped",
                     fmt::format("server {} holds a state of {}, and nobody has applied more than "
                                 "{}",
                                 member + 1, applied.value(), committed().value()));
  }
  if (applied > Index{0}) {
    simulation_.trace().Count("server: began from a checkpoint or snapshot");
    const uint64_t expected = entries_[applied.value() - 1].digest;
    if (expected != digest && !PlantedFault(kOnlyServersLook)) {
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
  for (Index next = log.first_index(); next <= last;) {
    auto entries = log.Read(next, last, 1u << 20);
    if (!entries.ok()) {
      simulation_.Fail("committed entries can be read",
                       fmt::format("server {} at {}: {}", member + 1, next.value(),
                                   std::string(entries.status().message())));
    }
    for (const consensus::Entry& entry : *entries) {
      const Committed& committed = entries_[entry.index.value() - 1];
      if (committed.term != entry.term || committed.hash != HashOf(entry)) {
        simulation_.Fail("equal logs",
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
    if (before.digest != digest && !PlantedFault(kOnlyServersLook)) {
      simulation_.Fail("equal trees",
                       fmt::format("after {} the tree of server {} has digest {:x}, not {:x}",
                                   ToString(entry), member + 1, digest, before.digest));
    }
    for (ServerObserver* observer : observers_) observer->OnApplied(member, entry);
    return;
  }
  if (entry.index != committed() + 1) {
    simulation_.Fail("nothing is skipped",
                     fmt::format("server {} applies {}, and nobody has applied more than {}",
                                 member + 1, ToString(entry), committed().value()));
  }
  entries_.push_back({entry.term, hash, digest});
  if (random_.Below(kCommitsForOneCheck) == 0) CheckCommitIsDurable(entry);
  for (ServerObserver* observer : observers_) observer->OnCommitted(entry);
  for (ServerObserver* observer : observers_) observer->OnApplied(member, entry);
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
  }
  if (now.leads) OnLeader(MemberId(static_cast<uint32_t>(member + 1)), now.term);
}

// --- Durability ----------------------------------------------------------------------------------

std::unique_ptr<consensus::DataDir> ClusterChecker::OpenDurable(
    size_t member, std::unique_ptr<consensus::FaultEnv>* env) {
  *env = machines_[member]->env().CloneDurable();
  simulation_.trace().Count("checker: disk opened");
  auto data_dir = Process::OpenDataDir(machines_[member], env->get());
  if (!data_dir.ok()) {
    // A directory may be half made, or damaged on purpose.
    if (!machines_[member]->disk_is_whole()) return nullptr;
    simulation_.Fail("promises are durable",
                     fmt::format("after a power failure server {} could not open its disk: {}",
                                 member + 1, std::string(data_dir.status().message())));
  }
  return *std::move(data_dir);
}

void ClusterChecker::CheckPromise(size_t member, const consensus::Message& message) {
  if (random_.Below(kPromisesForOneCheck) != 0) return;
  std::unique_ptr<consensus::FaultEnv> env;
  const std::unique_ptr<consensus::DataDir> data_dir = OpenDurable(member, &env);
  if (data_dir == nullptr) return;
  const consensus::HardState& state = data_dir->hard_state();
  bool kept = false;
  if (const auto* append = std::get_if<consensus::AppendResponse>(&message.body)) {
    Index last = data_dir->log().last_index();
    // A snapshot may be durable, and the log behind it not yet.
    if (auto store = Process::OpenStore(env.get()); store.ok()) {
      if (const auto newest = (*store)->newest(); newest.has_value()) {
        last = std::max(last, Index{static_cast<uint64_t>(newest->zxid.value())});
      }
    }
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

void ClusterChecker::CheckCommitIsDurable(const consensus::Entry& entry) {
  const size_t voters = simulation_.options().cluster.voters;
  if (simulation_.options().cluster.membership_rate > 0) return;  // who are the voters?
  size_t holders = 0;
  for (size_t member = 0; member < voters; ++member) {
    if (!machines_[member]->disk_is_whole()) return;  // it may have held it before
    std::unique_ptr<consensus::FaultEnv> env;
    const std::unique_ptr<consensus::DataDir> data_dir = OpenDurable(member, &env);
    if (data_dir == nullptr) continue;
    const consensus::SegmentLog& log = data_dir->log();
    if (log.last_index() < entry.index) continue;
    if (log.first_index() > entry.index) {
      ++holders;
      continue;
    }
    auto found = log.Read(entry.index, entry.index, 1);
    if (found.ok() && found->front().term == entry.term) ++holders;
  }
  if (holders * 2 > voters) return;
  simulation_.Fail("commits are durable",
                   fmt::format("{} was applied, and only {} of {} disks have it", ToString(entry),
                               holders, voters));
}

}  // namespace quorate::simulation
