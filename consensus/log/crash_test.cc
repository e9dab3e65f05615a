// Crashes at each operation of the disk, and what must hold afterwards.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <optional>

#include "absl/strings/str_cat.h"
#include "consensus/log/data_dir.h"
#include "consensus/log/fault_env.h"
#include "consensus/log/log_test_util.h"

namespace quorate::consensus {
namespace {

constexpr MemberId kMember{2};
constexpr SegmentLogOptions kSmall{4096 + 1400};
const std::string kPath = "/srv/quorate";
const std::string kClusterId = "0123456789abcdef";

using Entries = std::vector<Entry>;

// Drives a data directory as a member does, and knows what its disk may and must hold.
class Member {
 public:
  explicit Member(FaultEnv* env) : env_(*env) {}

  bool Open() {
    absl::StatusOr<std::unique_ptr<DataDir>> dir = DataDir::Open(&env_, kPath, kMember, kSmall);
    error_ = dir.status();
    if (!dir.ok()) return false;
    dir_ = *std::move(dir);
    return true;
  }
  void Close() { dir_.reset(); }

  bool Append(const Entries& entries) {
    Entries longer = versions_.back();
    longer.insert(longer.end(), entries.begin(), entries.end());
    versions_.push_back(longer);
    return Note(dir_->log().Append(entries));
  }
  bool Sync() {
    if (!Note(dir_->log().Sync())) return false;
    versions_ = {versions_.back()};
    floor_ = versions_.back().size();
    return true;
  }
  // The durable mark goes back first, as it must.
  bool Truncate(size_t keep) {
    if (mark_ > keep && !WriteHardState(hard_states_.back(), keep)) return false;
    versions_.push_back(
        Entries(versions_.back().begin(), versions_.back().begin() + static_cast<ptrdiff_t>(keep)));
    floor_ = std::min(floor_, keep);
    return Note(dir_->log().TruncateAfter(Index{keep}));
  }
  bool WriteHardState(const HardState& state, size_t mark) {
    hard_states_.push_back(state);
    mark_ = std::max(mark_, mark);
    if (!Note(dir_->WriteHardState(state, Index{mark}))) return false;
    hard_states_ = {state};
    mark_ = mark;
    return true;
  }
  bool SetClusterId() {
    cluster_id_tried_ = true;
    if (!Note(dir_->SetClusterId(kClusterId))) return false;
    cluster_id_set_ = true;
    return true;
  }

  // Opens what a crash left, and compares. From then on, what was found is what must stay.
  void Reopen() {
    INFO(absl::StrCat("operation ", env_.operations(), ", last version has ",
                      versions_.back().size(), " entries, ", floor_, " must be there"));
    Open();
    Require(error_);
    const Entries found = ReadAll(dir_->log());
    CAPTURE(found.size());
    REQUIRE(found.size() >= floor_);
    REQUIRE(std::any_of(versions_.begin(), versions_.end(), [&](const Entries& version) {
      return version.size() >= found.size() &&
             std::equal(found.begin(), found.end(), version.begin());
    }));
    CheckInitialState(found);
    REQUIRE(std::count(hard_states_.begin(), hard_states_.end(), dir_->hard_state()) > 0);
    if (cluster_id_set_) REQUIRE(dir_->cluster_id() == kClusterId);
    if (!cluster_id_tried_) REQUIRE(dir_->cluster_id().empty());
    versions_ = {found};
    floor_ = found.size();
    hard_states_ = {dir_->hard_state()};
    cluster_id_set_ = !dir_->cluster_id().empty();
  }

  const Entries& entries() const { return versions_.back(); }
  const HardState& hard_state() const { return hard_states_.back(); }

 private:
  bool Note(const absl::Status& status) {
    error_ = status;
    return status.ok();
  }

  void CheckInitialState(const Entries& found) {
    const InitialState initial = dir_->initial_state();
    REQUIRE(initial.last_index == Index{found.size()});
    REQUIRE(initial.hard_state.commit <= initial.last_index);
    size_t run = 0;
    Term term{0};
    for (const Entry& entry : found) {
      if (entry.term == term) continue;
      term = entry.term;
      REQUIRE(run < initial.term_runs.size());
      REQUIRE(initial.term_runs[run].first == entry.index);
      REQUIRE(initial.term_runs[run].term == term);
      ++run;
    }
    REQUIRE(run == initial.term_runs.size());
  }

  FaultEnv& env_;
  absl::Status error_;
  std::unique_ptr<DataDir> dir_;
  std::vector<Entries> versions_{{}};  // the log since the last sync; any prefix of one is right
  size_t floor_ = 0;                   // at least so many entries must be there
  size_t mark_ = 0;                    // the highest durable mark that may be on the disk
  std::vector<HardState> hard_states_{{}};  // one of them must be there
  bool cluster_id_tried_ = false;
  bool cluster_id_set_ = false;
};

// What a member does in a few terms, with rollovers, overlapping truncations and large entries.
// Ends early when the disk fails.
void RunWorkload(Member* member) {
  HardState hard_state;
  auto append = [&](size_t count, size_t payload_bytes) {
    const uint64_t next = member->entries().size() + 1;
    return member->Append(
        TestEntries(next, next + count - 1, hard_state.term.value(), payload_bytes));
  };
  auto begin_term = [&] {
    ++hard_state.term;
    hard_state.vote = MemberId{static_cast<uint32_t>(hard_state.term.value() % 3 + 1)};
    hard_state.commit = Index{member->entries().size() / 2};
    // The mark may be taken only of what is durable, so after a sync.
    return member->WriteHardState(hard_state, member->entries().size());
  };
  const bool done =
      member->Open() && begin_term() && append(1, 0) && member->Sync() && member->SetClusterId() &&
      append(3, 100) && append(2, 30) && member->Sync() && append(4, 200) && member->Sync() &&
      begin_term() && append(1, 0) && append(12, 100) && member->Sync() &&  // rolls over
      append(3, 100) && member->Truncate(18) && append(2, 100) && member->Sync() && begin_term() &&
      member->Truncate(15) && member->Truncate(7) && append(5, 100) && member->Truncate(9) &&
      append(3, 100) && member->Sync() && append(1, 6000) && append(1, 100) && member->Sync() &&
      append(30, 100) && member->Truncate(20) && append(2, 100) && member->Sync() && begin_term() &&
      member->Truncate(0) && append(2, 100) && member->Sync() && append(1, 50);
  static_cast<void>(done);
}

// Appends in a new term and makes it durable.
void GoOn(Member* member) {
  HardState hard_state = member->hard_state();
  ++hard_state.term;
  hard_state.vote = kNoMember;
  REQUIRE(member->WriteHardState(hard_state, member->entries().size()));
  const uint64_t next = member->entries().size() + 1;
  REQUIRE(member->Append(TestEntries(next, next + 1, hard_state.term.value(), 100)));
  REQUIRE(member->Sync());
}

// Calls `round` with each number of operations after which the workload can be stopped.
void AtEachOperation(const std::function<bool(uint64_t)>& round) {
  uint64_t operations = 0;
  while (round(operations)) ++operations;
  REQUIRE(operations > 100);
}

TEST_CASE("power failures at each operation lose nothing that was synced, and mix nothing") {
  AtEachOperation([](uint64_t operations) {
    bool stopped = true;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      CAPTURE(operations, seed);
      FaultEnv env;
      Member member(&env);
      env.PowerOffAfter(operations);
      RunWorkload(&member);
      stopped = env.powered_off();
      member.Close();
      env.Crash(operations * 100 + seed);
      member.Reopen();
      // All that was found is durable, so that a second crash changes nothing.
      member.Close();
      env.Crash(operations * 100 + seed + 50);
      member.Reopen();
      GoOn(&member);
      member.Close();
      env.Crash(operations * 100 + seed + 70);
      member.Reopen();
    }
    return stopped;
  });
}

TEST_CASE("power failures at each operation of a recovery do no harm") {
  AtEachOperation([](uint64_t operations) {
    bool stopped = true;
    bool recovery_stopped = true;
    for (uint64_t n = 0; recovery_stopped; ++n) {
      CAPTURE(operations, n);
      FaultEnv env;
      Member member(&env);
      env.PowerOffAfter(operations);
      RunWorkload(&member);
      stopped = env.powered_off();
      member.Close();
      env.Crash(operations);
      env.PowerOffAfter(n);
      member.Open();
      recovery_stopped = env.powered_off();
      member.Close();
      env.Crash(operations * 100 + n);
      member.Reopen();
      GoOn(&member);
      member.Close();
      env.Crash(operations * 100 + n + 50);
      member.Reopen();
    }
    return stopped;
  });
}

TEST_CASE("a process that dies at an error at each operation loses nothing to a later crash") {
  AtEachOperation([](uint64_t operations) {
    CAPTURE(operations);
    FaultEnv env;
    Member member(&env);
    env.FailAfter(operations, absl::InternalError("bad sector"));
    RunWorkload(&member);
    if (env.operations() <= operations) return false;  // the workload was shorter
    member.Close();
    env.Kill();
    member.Reopen();
    member.Close();
    env.Crash(operations);
    member.Reopen();
    GoOn(&member);
    return true;
  });
}

TEST_CASE("syncs that fail, each in turn, let nothing count that is not on the disk") {
  for (uint64_t syncs = 0;; ++syncs) {
    CAPTURE(syncs);
    FaultEnv env;
    Member member(&env);
    env.FailSyncAfter(syncs, absl::InternalError("bad sync"));
    RunWorkload(&member);
    if (env.syncs() <= syncs) {
      REQUIRE(syncs > 30);
      break;
    }
    member.Close();
    env.Kill();
    member.Reopen();
    member.Close();
    env.Crash(syncs);
    member.Reopen();
    GoOn(&member);
  }
}

TEST_CASE("a member lives through many crashes") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    uint64_t state = seed;
    auto below = [&](uint64_t bound) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return (state >> 33) % bound;
    };
    FaultEnv env;
    Member member(&env);
    for (int life = 0; life < 12; ++life) {
      CAPTURE(life);
      member.Reopen();
      env.PowerOffAfter(below(60));
      HardState hard_state = member.hard_state();
      ++hard_state.term;
      hard_state.vote = kNoMember;
      bool alive = member.WriteHardState(hard_state, member.entries().size());
      while (alive) {
        const uint64_t next = member.entries().size() + 1;
        const uint64_t dice = below(10);
        if (dice < 5) {
          alive = member.Append(TestEntries(next, next + below(6), hard_state.term.value(),
                                            below(2) == 0 ? 100 : below(1500)));
        } else if (dice < 8) {
          alive = member.Sync();
        } else if (dice == 8) {
          alive = member.Sync() && member.WriteHardState(hard_state, member.entries().size());
        } else {
          alive = member.Truncate(next - 1 - std::min<uint64_t>(next - 1, below(12)));
        }
      }
      member.Close();
      env.Crash(state);
    }
  }
}

}  // namespace
}  // namespace quorate::consensus
