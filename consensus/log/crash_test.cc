// SPDX-License-Identifier: Apache-2.0

// Tests that crash at each operation of the disk, and then check what must hold.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <optional>

#include "absl/strings/str_cat.h"
#include "consensus/log/data_dir.h"
#include "consensus/log/testing/fault_env.h"
#include "consensus/log/testing/log_test_util.h"

namespace quorate::consensus {
namespace {

constexpr MemberId kMember{2};
constexpr SegmentLogOptions kSmall{4096 + 1400};
const std::string kPath = "/srv/quorate";
constexpr uint64_t kEpoch = 1;
const std::string kClusterId = "0123456789abcdef";

using Entries = std::vector<Entry>;

// A log that the disk may hold: the log at one moment since the last sync. A prefix of it is
// correct, too, if the prefix has all entries that were durable.
struct Image {
  Index origin;  // the history that the test knows begins after this entry
  Term origin_term;
  Entries entries{};
  Index durable;  // everything up to it must be there

  Index last() const { return origin + entries.size(); }
  Term TermAt(Index index) const {
    return index == origin ? origin_term : entries[index - origin - 1].term;
  }
  void Truncate(Index index) { entries.resize(index - origin); }
};

// Uses a data directory as a member does, and tracks what its disk may and must hold.
class Member {
 public:
  explicit Member(FaultEnv* env) : env_(*env) {}

  // Opens the log, and aligns it with the checkpoint.
  bool Open() { return OpenOnly() && Align(); }
  void Close() { dir_.reset(); }

  bool Append(const Entries& entries) {
    images_.push_back(images_.back());
    for (const Entry& entry : entries) images_.back().entries.push_back(entry);
    return Note(dir_->log().Append(entries));
  }
  bool Sync() {
    if (!Note(dir_->log().Sync())) return false;
    images_ = {images_.back()};
    images_.back().durable = last();
    return true;
  }
  // Lowers the durable mark before the truncation, as WriteHardState requires.
  bool Truncate(uint64_t keep) {
    if (!LowerMark(Index{keep})) return false;
    Image image = images_.back();
    image.Truncate(Index{keep});
    image.durable = std::min(image.durable, Index{keep});
    images_.push_back(image);
    return Note(dir_->log().TruncateAfter(Index{keep}));
  }
  // Records that the state machine has everything up to `index` durably. REQUIRES: the entry is in
  // the log.
  void Checkpoint(uint64_t index) {
    checkpoint_ = {Index{index}, images_.back().TermAt(Index{index}), {}, kVersionNewest};
  }
  bool Compact(uint64_t index) {
    REQUIRE(Index{index} <= checkpoint_.index);
    compacted_ = std::max(compacted_, Index{index});
    if (!Note(dir_->log().CompactTo(Index{index}))) return false;
    const Index base = dir_->log().base_index();
    REQUIRE(base >= base_min_);
    // The chores are left to the next odd compaction, to a truncation, or for ever.
    if (index % 2 == 0) return true;
    if (!Note(dir_->log().DoChores())) return false;
    base_min_ = base;  // the compaction is durable at once
    return true;
  }
  // Durably replaces the state machine by a snapshot; the log has to follow.
  bool Install(uint64_t index, uint64_t term, bool align) {
    checkpoint_ = {Index{index}, Term{term}, {}, kVersionNewest};
    if (align) {
      const bool contained = dir_->log().TermAt(Index{index}) == Term{term};
      if (!Align()) return false;
      hard_states_ = {dir_->hard_state()};
      if (contained) return true;
    } else {
      if (!LowerMark(Index{index})) return false;
      images_.push_back({Index{index}, Term{term}, {}, Index{index}});
      if (!Note(dir_->log().Reset(Index{index}, Term{term})) || !Note(dir_->log().Sync())) {
        return false;
      }
    }
    images_ = {images_.back()};
    base_min_ = compacted_ = Index{index};
    mark_ = std::min(mark_, Index{index});
    return true;
  }
  bool WriteHardState(const HardState& state, Index mark) {
    hard_states_.push_back(state);
    mark_ = std::max(mark_, mark);
    if (!Note(dir_->WriteHardState(state, mark))) return false;
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

  // Opens the directory after a crash, and compares its state with the expected one. From then on
  // the state that was found must stay.
  void Reopen() {
    INFO(absl::StrCat("operation ", env_.operations(), ", last image begins behind ",
                      images_.back().origin.value(), " and ends with ", last().value(), ", ",
                      images_.back().durable.value(), " was durable, compaction between ",
                      base_min_.value(), " and ", compacted_.value()));
    OpenOnly();
    Require(error_);
    CheckHardState();
    CheckLog();
    const std::optional<Term> term = dir_->log().TermAt(checkpoint_.index);
    Align();
    Require(error_);
    if (term != checkpoint_.term) {
      REQUIRE(dir_->log().base_index() == checkpoint_.index);
      REQUIRE(dir_->log().base_term() == checkpoint_.term);
      REQUIRE(dir_->log().last_index() == checkpoint_.index);
    }
    CheckInitialState();
    TakeAsFound();
  }

  Index last() const { return images_.back().last(); }
  Index checkpoint() const { return checkpoint_.index; }
  const HardState& hard_state() const { return hard_states_.back(); }

 private:
  bool Note(const absl::Status& status) {
    error_ = status;
    return status.ok();
  }

  bool OpenOnly() {
    absl::StatusOr<std::unique_ptr<DataDir>> dir =
        DataDir::Open(&env_, kPath, kMember, kSmall, kEpoch);
    if (!Note(dir.status())) return false;
    dir_ = *std::move(dir);
    return true;
  }

  bool Align() {
    if (dir_->log().TermAt(checkpoint_.index) != checkpoint_.term) {
      images_.push_back({checkpoint_.index, checkpoint_.term, {}, checkpoint_.index});
    }
    return Note(dir_->AlignLog(checkpoint_.index, checkpoint_.term));
  }

  bool LowerMark(Index index) {
    return mark_ <= index || WriteHardState(hard_states_.back(), index);
  }

  void CheckHardState() {
    // A checkpoint brings its term with it.
    HardState aligned = hard_states_.back();
    aligned.term = std::max(aligned.term, checkpoint_.term);
    if (aligned.term != hard_states_.back().term) aligned.vote = kNoMember;
    const HardState& found = dir_->hard_state();
    CAPTURE(ToString(found));
    REQUIRE((found == aligned ||
             std::count(hard_states_.begin(), hard_states_.end(), dir_->hard_state()) > 0));
    if (cluster_id_set_) REQUIRE(dir_->cluster_id() == kClusterId);
    if (!cluster_id_tried_) REQUIRE(dir_->cluster_id().empty());
    REQUIRE(dir_->directory_epoch() == kEpoch);
  }

  // Checks that the log is one of the images.
  void CheckLog() {
    const SegmentLog& log = dir_->log();
    const Entries found = ReadAll(log);
    CAPTURE(log.base_index().value(), log.base_term().value(), log.last_index().value());
    REQUIRE(found.size() == log.last_index() - log.base_index());
    REQUIRE(std::any_of(images_.begin(), images_.end(), [&](const Image& image) {
      const bool is_reset = image.origin != images_.front().origin;
      const Index base_min = is_reset ? image.origin : std::max(base_min_, image.origin);
      const Index base_max = is_reset ? image.origin : std::max(compacted_, image.origin);
      return log.base_index() >= base_min && log.base_index() <= base_max &&
             log.last_index() >= image.durable && log.last_index() <= image.last() &&
             log.base_term() == image.TermAt(log.base_index()) &&
             std::equal(
                 found.begin(), found.end(),
                 image.entries.begin() + static_cast<ptrdiff_t>(log.base_index() - image.origin));
    }));
  }

  void CheckInitialState() {
    std::optional<SnapshotMeta> checkpoint;
    if (checkpoint_.index > Index{0}) checkpoint = checkpoint_;
    const InitialState initial = dir_->initial_state(checkpoint);
    const Entries found = ReadAll(dir_->log());
    REQUIRE(initial.base_index == dir_->log().base_index());
    REQUIRE(initial.base_term == dir_->log().base_term());
    REQUIRE(initial.last_index == initial.base_index + found.size());
    REQUIRE(initial.checkpoint == checkpoint);
    REQUIRE(initial.applied == checkpoint_.index);
    REQUIRE(initial.applied <= initial.last_index);
    REQUIRE(initial.hard_state.commit >= initial.applied);
    REQUIRE(initial.hard_state.commit <= initial.last_index);
    REQUIRE(initial.hard_state.term >= initial.base_term);
    REQUIRE(initial.hard_state.term >= checkpoint_.term);
    if (!found.empty()) REQUIRE(initial.hard_state.term >= found.back().term);
    Entries control;
    std::vector<TermRun> runs;
    for (const Entry& entry : found) {
      if (IsControl(entry.kind)) control.push_back(entry);
      if (runs.empty() || runs.back().term != entry.term) runs.push_back({entry.index, entry.term});
    }
    REQUIRE(initial.control_entries == control);
    REQUIRE(initial.term_runs.size() == runs.size());
    for (size_t i = 0; i < runs.size(); ++i) {
      REQUIRE(initial.term_runs[i].first == runs[i].first);
      REQUIRE(initial.term_runs[i].term == runs[i].term);
    }
  }

  void TakeAsFound() {
    const SegmentLog& log = dir_->log();
    base_min_ = compacted_ = log.base_index();
    images_ = {{log.base_index(), log.base_term(), ReadAll(log), log.last_index()}};
    hard_states_ = {dir_->hard_state()};
    cluster_id_set_ = !dir_->cluster_id().empty();
  }

  FaultEnv& env_;
  absl::Status error_;
  std::unique_ptr<DataDir> dir_;
  std::vector<Image> images_{Image{}};  // since the last sync
  Index base_min_;                      // the log begins here or
  Index compacted_;                     // later, but not after this
  SnapshotMeta checkpoint_;             // survives every crash
  Index mark_;                          // the highest durable mark that may be on the disk
  std::vector<HardState> hard_states_{{Term{0}, kNoMember, Index{0}, MemberState::kNew}};
  bool cluster_id_tried_ = false;
  bool cluster_id_set_ = false;
};

// The operations of a member in a few terms, with rollovers, overlapping truncations, large
// entries, compactions and snapshots. Ends early when the disk fails.
class Workload {
 public:
  explicit Workload(Member* member) : member_(*member) {}

  bool BeginTerm() {
    ++hard_state_.term;
    hard_state_.vote = MemberId{static_cast<uint32_t>(hard_state_.term.value() % 3 + 1)};
    hard_state_.commit = Index{member_.last().value() / 2};
    // The mark may cover durable entries only, so it is written after a sync.
    return member_.WriteHardState(hard_state_, member_.last());
  }
  bool Append(size_t count, size_t payload_bytes) {
    const uint64_t next = member_.last().value() + 1;
    return member_.Append(
        TestEntries(next, next + count - 1, hard_state_.term.value(), payload_bytes));
  }
  bool Put(size_t count, size_t payload_bytes) {
    return Append(count, payload_bytes) && member_.Sync();
  }
  bool Checkpoint(uint64_t index) {
    member_.Checkpoint(index);
    return true;
  }
  // Installs a snapshot of a leader whose term is later than any known here; the hard state may not
  // know that term yet.
  bool Install(uint64_t index, bool align) {
    const uint64_t term = hard_state_.term.value() + (align ? 1 : 0);
    if (!member_.Install(index, term, align)) return false;
    hard_state_ = member_.hard_state();
    return true;
  }

 protected:
  Member& member_;
  HardState hard_state_;
};

class Replication : public Workload {
 public:
  explicit Replication(Member* member) : Workload(member) {}
  bool Run() {
    Member& m = member_;
    return m.Open() && BeginTerm() && Put(1, 0) && m.SetClusterId() && Append(3, 100) &&
           Put(2, 30) && Put(1, kMembershipBytes) && Put(4, 200) && BeginTerm() && Append(1, 0) &&
           Put(12, 100) &&  // rolls over
           Append(3, 100) && m.Truncate(18) && Put(2, 100) && BeginTerm() && m.Truncate(15) &&
           m.Truncate(7) && Append(5, 100) && m.Truncate(9) && Put(3, 100) && Append(1, 6000) &&
           Put(1, 100) && Append(30, 100) && m.Truncate(20) && Put(2, 100) && BeginTerm() &&
           m.Truncate(0) && Put(2, 100) && Append(1, 50);
  }
};

class Compaction : public Workload {
 public:
  explicit Compaction(Member* member) : Workload(member) {}
  bool Run() {
    Member& m = member_;
    return m.Open() && BeginTerm() && Put(1, 0) && Append(1, kMembershipBytes) && Put(30, 100) &&
           Checkpoint(8) && m.Compact(8) && BeginTerm() && Append(1, kVersionBytes) &&
           Append(20, 100) && Checkpoint(25) && m.Compact(21) && Put(3, 100) && m.Compact(25) &&
           BeginTerm() && m.Truncate(40) && Append(2, 100) && m.Truncate(30) && Put(15, 100) &&
           m.Truncate(25) &&  // perhaps to the base itself
           Put(1, kMembershipBytes) && Put(40, 100) && Checkpoint(66) && m.Compact(66) &&
           Put(2, 100) && Install(100, false) && Put(3, 100) && BeginTerm() && Put(25, 100) &&
           m.Truncate(101) && m.Truncate(100) && Put(30, 100) && Checkpoint(120) &&
           Append(3, 100) && m.Compact(120) && Install(125, true) && Install(140, true) &&
           Append(2, 100) && Append(20, 200) && Install(150, false) && Checkpoint(150) &&
           Put(10, 100) && m.Compact(150) && Append(1, 10);
  }
};

// Returns false if the disk stopped the workload.
bool RunWorkload(bool compacting, Member* member) {
  return compacting ? Compaction(member).Run() : Replication(member).Run();
}

// Appends two entries in a new term, and makes them durable.
void GoOn(Member* member) {
  HardState hard_state = member->hard_state();
  ++hard_state.term;
  hard_state.vote = kNoMember;
  REQUIRE(member->WriteHardState(hard_state, member->last()));
  const uint64_t next = member->last().value() + 1;
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
  const bool compacting = GENERATE(false, true);
  AtEachOperation([&](uint64_t operations) {
    bool stopped = true;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      CAPTURE(compacting, operations, seed);
      FaultEnv env;
      Member member(&env);
      env.PowerOffAfter(operations);
      stopped = !RunWorkload(compacting, &member);
      REQUIRE(stopped == env.powered_off());
      member.Close();
      env.Crash(operations * 100 + seed);
      member.Reopen();
      // Everything that was found is durable, so a second crash changes nothing.
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
  const bool compacting = GENERATE(false, true);
  AtEachOperation([&](uint64_t operations) {
    bool stopped = true;
    bool recovery_stopped = true;
    // The compacting workload is longer, so each of its rounds takes every third operation, and its
    // neighbours the others.
    const uint64_t step = compacting ? 3 : 1;
    for (uint64_t n = operations % step; recovery_stopped; n += step) {
      CAPTURE(compacting, operations, n);
      FaultEnv env;
      Member member(&env);
      env.PowerOffAfter(operations);
      stopped = !RunWorkload(compacting, &member);
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
  const bool compacting = GENERATE(false, true);
  AtEachOperation([&](uint64_t operations) {
    CAPTURE(compacting, operations);
    FaultEnv env;
    Member member(&env);
    env.FailAfter(operations, operations % 2 == 0 ? absl::InternalError("bad sector")
                                                  : absl::ResourceExhaustedError("no space"));
    if (RunWorkload(compacting, &member)) return false;
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
  const bool compacting = GENERATE(false, true);
  for (uint64_t syncs = 0;; ++syncs) {
    CAPTURE(compacting, syncs);
    FaultEnv env;
    Member member(&env);
    env.FailSyncAfter(syncs, absl::InternalError("bad sync"));
    if (RunWorkload(compacting, &member)) {
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

// The ways in which a process stops while the machine, and with it the page cache, goes on.
enum class Stop { kError, kFailedSync };

// Stops the workload as `stop` says after `count` operations (or syncs, for a failed sync). Returns
// false if the workload ended before.
bool StopAfter(Stop stop, uint64_t count, bool compacting, FaultEnv* env, Member* member) {
  if (stop == Stop::kError) {
    env->FailAfter(count, absl::InternalError("bad sector"));
  } else {
    env->FailSyncAfter(count, absl::InternalError("bad sync"));
  }
  const bool finished = RunWorkload(compacting, member);
  member->Close();
  env->Kill();
  env->CancelFaults();
  return !finished;
}

// The next process may read data from the page cache that is not on the disk. It must not use such
// data before the data is durable, nor overwrite the only durable copy.
TEST_CASE(
    "after a stop at each operation, power failures at each operation of the next open do no "
    "harm") {
  const bool compacting = GENERATE(false, true);
  const Stop stop = GENERATE(Stop::kError, Stop::kFailedSync);
  // There are many errors, so each round takes every third one, and its neighbours the others.
  const uint64_t step = stop == Stop::kError ? 3 : 1;
  uint64_t count = 0;
  for (bool stopped = true; stopped; ++count) {
    bool open_stopped = true;
    for (uint64_t n = count % step; stopped && open_stopped; n += step) {
      for (uint64_t seed = 0; stopped && seed < 4; ++seed) {
        CAPTURE(compacting, stop, count, n, seed);
        FaultEnv env;
        Member member(&env);
        stopped = StopAfter(stop, count, compacting, &env, &member);
        if (!stopped) break;
        env.PowerOffAfter(n);
        member.Open();
        open_stopped = env.powered_off();
        member.Close();
        env.Crash((count * 100 + n) * 4 + seed);
        member.Reopen();
        GoOn(&member);
        member.Close();
        env.Crash(count + n + seed);
        member.Reopen();
      }
    }
  }
  REQUIRE(count > 30);
}

// A hard state that was ever read from a directory must not be lost, even if only a failed write
// has put it into the page cache.
TEST_CASE("a vote that a restarted process has read from the page cache is never forgotten") {
  const Stop stop = GENERATE(Stop::kError, Stop::kFailedSync);
  const HardState first{Term{5}, MemberId{1}, Index{0}, MemberState::kNormal};
  const HardState second{Term{6}, MemberId{3}, Index{0}, MemberState::kNormal};
  uint64_t forgotten_allowed = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    CAPTURE(stop, seed);
    FaultEnv env;
    Member member(&env);
    member.Reopen();
    REQUIRE(member.WriteHardState(first, Index{0}));
    // The operations of a write are: a copy, its sync, the other copy.
    if (stop == Stop::kError) env.FailAfter(1, absl::InternalError("killed"));
    if (stop == Stop::kFailedSync) env.FailSyncAfter(0, absl::InternalError("bad sync"));
    REQUIRE_FALSE(member.WriteHardState(second, Index{0}));
    member.Close();
    env.Kill();
    env.CancelFaults();
    env.PowerOffAfter(seed % 8);
    const bool read = member.Open() && member.hard_state() == second;
    const bool known = read || !env.powered_off();
    member.Close();
    env.Crash(seed);
    member.Reopen();
    if (known) REQUIRE(member.hard_state() == second);
    if (member.hard_state() == first) ++forgotten_allowed;
  }
  REQUIRE(forgotten_allowed > 100);
}

TEST_CASE("a member lives through many crashes") {
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    CAPTURE(seed);
    uint64_t state = seed;
    auto below = [&](uint64_t bound) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return (state >> 33) % bound;
    };
    auto payload_bytes = [&]() -> size_t {
      const uint64_t dice = below(8);
      if (dice == 0) return kMembershipBytes;
      if (dice == 1) return kVersionBytes;
      return dice < 5 ? 100 : below(1500);
    };
    FaultEnv env;
    Member member(&env);
    for (int life = 0; life < 12; ++life) {
      CAPTURE(life);
      member.Reopen();
      env.PowerOffAfter(below(80));
      HardState hard_state = member.hard_state();
      ++hard_state.term;
      hard_state.vote = kNoMember;
      bool alive = member.WriteHardState(hard_state, member.last());
      while (alive) {
        const uint64_t last = member.last().value();
        const uint64_t uncertain = last - member.checkpoint().value();
        const uint64_t term = hard_state.term.value();
        const uint64_t dice = below(16);
        if (dice < 7) {
          alive = member.Append(TestEntries(last + 1, last + 1 + below(6), term, payload_bytes()));
        } else if (dice < 10) {
          alive = member.Sync();
        } else if (dice == 10) {
          alive = member.Sync() && member.WriteHardState(hard_state, member.last());
        } else if (dice < 13) {
          alive = member.Truncate(last - std::min(uncertain, below(12)));
        } else if (dice < 15) {
          alive = member.Sync();
          if (alive) member.Checkpoint(last - std::min(uncertain, below(12)));
          alive = alive && member.Compact(member.checkpoint().value());
        } else {
          // The snapshot is ahead of the log, or replaces uncommitted entries.
          alive = member.Install(member.checkpoint().value() + 1 + below(uncertain + 8), term,
                                 below(2) == 0);
        }
      }
      member.Close();
      env.Crash(state);
    }
  }
}

}  // namespace
}  // namespace quorate::consensus
