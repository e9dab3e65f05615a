// SPDX-License-Identifier: Apache-2.0

// Tests of the ballast file of a log: entries that are written to it on a full disk are as durable
// as all others, whenever the power fails.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "consensus/log/ballast_file.h"
#include "consensus/log/segment_log.h"
#include "consensus/log/testing/fault_env.h"
#include "consensus/log/testing/log_test_util.h"
#include "consensus/log/testing/segment_log_test_util.h"

namespace quorate::consensus {
namespace {

constexpr uint64_t kPlenty = 1u << 20;
const std::string kBallastPath = kPath + "/spare";

// Durably appends entries one by one until one is refused. Returns the error.
absl::Status AppendUntilError(SegmentLog* log) {
  for (;;) {
    const uint64_t next = log->last_index().value() + 1;
    if (absl::Status s = log->Append({{TestEntry(next, 1, 100)}}); !s.ok()) return s;
    if (absl::Status s = log->Sync(); !s.ok()) return s;
  }
}

std::vector<Entry> EntriesTo(Index last) { return TestEntries(1, last.value(), 1, 100); }

TEST_CASE("a log on a full disk goes on in its ballast file, once, and only if that is allowed") {
  FaultEnv env;
  auto log = Open(&env);
  CHECK_FALSE(log->has_ballast());
  CHECK(log->ballast().bytes() == kSmall.segment_bytes);
  Require(log->MakeBallast());
  CHECK(log->has_ballast());
  CHECK_FALSE(log->ballast_used());
  env.SetCapacity(env.used_bytes());
  CHECK(absl::IsResourceExhausted(AppendUntilError(log.get())));
  const Index without = log->last_index();
  CHECK(log->has_ballast());
  if (GENERATE(false, true)) {
    log.reset();
    env.Crash(1);
    log = Open(&env, without);
    CHECK(log->has_ballast());
  }
  log->AllowBallast(true, nullptr);
  CHECK(absl::IsResourceExhausted(AppendUntilError(log.get())));
  CHECK_FALSE(log->has_ballast());
  CHECK(log->ballast_used());
  const Index with = log->last_index();
  CHECK(with > without + 5);
  CHECK(ReadAll(*log) == EntriesTo(with));
  CHECK(absl::IsResourceExhausted(log->MakeBallast()));
  CHECK_FALSE(env.Exists(kBallastPath));
  CHECK(log->ballast_used());
  if (GENERATE(false, true)) {
    log.reset();
    env.Crash(2);
    log = Open(&env, with);
  }
  env.SetCapacity(kPlenty);
  Require(log->MakeBallast());
  CHECK_FALSE(log->ballast_used());
  AppendSynced(log.get(), TestEntries(with.value() + 1, with.value() + 40, 1, 100));
  CHECK(log->has_ballast());
  log.reset();
  log = Open(&env, with + 40);
  CHECK(log->has_ballast());
  CHECK(ReadAll(*log) == EntriesTo(with + 40));
}

TEST_CASE("a log that may take its ballast file leaves what else is free to another ballast file") {
  FaultEnv env;
  auto log = Open(&env);
  BallastFile other(&env, "/d", 1000);
  Require(log->MakeBallast());
  log->AllowBallast(true, &other);
  CHECK(absl::IsResourceExhausted(AppendUntilError(log.get())));
  CHECK(log->ballast_used());
  const Index last = log->last_index();
  Require(other.Make());
  AppendSynced(log.get(), TestEntries(last.value() + 1, last.value() + 40, 1, 100));
  CHECK(Require(other.GiveUp()));
  CHECK(absl::IsResourceExhausted(AppendUntilError(log.get())));
  log->AllowBallast(false, &other);
  const Index next = log->last_index() + 1;
  AppendSynced(log.get(), TestEntries(next.value(), next.value() + 40, 1, 100));
}

TEST_CASE(
    "a truncation takes the ballast file too, and a reset takes it whether that is allowed or "
    "not") {
  FaultEnv env;
  auto log = OpenFilled(&env);
  Require(log->MakeBallast());
  env.SetCapacity(env.used_bytes());
  if (GENERATE(false, true)) {
    log->AllowBallast(true, nullptr);
    Require(log->TruncateAfter(Index{30}));
    Require(log->Sync());
    log = Open(&env, Index{30});
    CHECK(log->last_index() == Index{30});
  } else {
    Require(log->Reset(Index{100}, Term{3}));
    Require(log->Sync());
    log = Open(&env, Index{100});
    CHECK(log->base_index() == Index{100});
    CHECK(log->base_term() == Term{3});
  }
  CHECK_FALSE(log->has_ballast());
}

TEST_CASE(
    "power fails at each step of a ballast file's life, and nothing that was durable is lost") {
  int taken = 0;
  int kept = 0;
  bool done = false;
  for (uint64_t operations = 0; !done; ++operations) {
    for (uint64_t seed = 0; seed < 12; ++seed) {
      CAPTURE(operations, seed);
      FaultEnv env;
      auto log = Open(&env);
      AppendSynced(log.get(), TestEntries(1, 8, 1, 100));
      env.PowerOffAfter(operations);
      Index durable{8};
      if (log->MakeBallast().ok()) {
        env.SetCapacity(env.used_bytes());
        log->AllowBallast(true, nullptr);
        const bool full = absl::IsResourceExhausted(AppendUntilError(log.get()));
        // The last entry may have been written, but not synced.
        durable = full ? log->last_index() : log->last_index() - 1;
        done = full;
      }
      log.reset();
      env.Crash(seed);
      log = Open(&env, durable);
      REQUIRE(log->last_index() >= durable);
      REQUIRE(ReadAll(*log) == EntriesTo(log->last_index()));
      ++(log->has_ballast() ? kept : taken);
      // A new ballast file can be made and used again.
      env.SetCapacity(kPlenty);
      Require(log->MakeBallast());
      env.SetCapacity(env.used_bytes());
      log->AllowBallast(true, nullptr);
      const Index before = log->last_index();
      REQUIRE(absl::IsResourceExhausted(AppendUntilError(log.get())));
      REQUIRE(log->last_index() > before + 5);
      REQUIRE(log->ballast_used());
      const Index last = log->last_index();
      log.reset();
      env.Crash(seed + 1);
      REQUIRE(ReadAll(*Open(&env, last)) == EntriesTo(last));
    }
  }
  CHECK(taken > 20);
  CHECK(kept > 20);
}

TEST_CASE(
    "a stop in a ballast file's life, then power failures at each step of the next open, lose "
    "nothing") {
  const bool fails_sync = GENERATE(false, true);
  bool done = false;
  uint64_t rounds = 0;
  for (uint64_t count = 0; !done; ++count) {
    bool open_stopped = true;
    for (uint64_t n = 0; open_stopped; ++n) {
      CAPTURE(fails_sync, count, n);
      FaultEnv env;
      auto log = Open(&env);
      AppendSynced(log.get(), TestEntries(1, 8, 1, 100));
      const absl::Status error = absl::InternalError("stop");
      fails_sync ? env.FailSyncAfter(count, error) : env.FailAfter(count, error);
      Index durable{8};
      if (log->MakeBallast().ok()) {
        env.SetCapacity(env.used_bytes());
        log->AllowBallast(true, nullptr);
        done = absl::IsResourceExhausted(AppendUntilError(log.get()));
        durable = done ? log->last_index() : log->last_index() - 1;
      }
      log.reset();
      env.Kill();
      env.CancelFaults();
      env.PowerOffAfter(n);
      SegmentLog::Open(&env, kPath, kSmall, durable).IgnoreError();
      open_stopped = env.powered_off();
      env.Crash(count * 100 + n);
      log = Open(&env, durable);
      REQUIRE(log->last_index() >= durable);
      REQUIRE(ReadAll(*log) == EntriesTo(log->last_index()));
      env.SetCapacity(kPlenty);
      Require(log->MakeBallast());
      ++rounds;
    }
  }
  CHECK(rounds > 30);
}

TEST_CASE("whatever stands in a ballast file is never taken for entries") {
  // After the last record that fits there is free space for the header of one more.
  constexpr SegmentLogOptions kLargerSegments{kSmall.segment_bytes + 100};
  FaultEnv env;
  auto log = Open(&env, kUnknown, kLargerSegments);
  AppendSynced(log.get(), TestEntries(1, 8, 1, 100));
  Require(log->MakeBallast());
  const bool one_bit = GENERATE(true, false);
  if (one_bit) {
    env.FlipBit(kBallastPath,
                8 * (kLargerSegments.segment_bytes - 50));  // at a place that no record reaches
  } else {
    const std::string garbage(kLargerSegments.segment_bytes, 'g');
    const std::string_view piece = garbage;
    Require(Require(env.OpenFile(kBallastPath, /*create=*/false))->WriteAt(0, {&piece, 1}));
  }
  env.SetCapacity(env.used_bytes());
  log->AllowBallast(true, nullptr);
  CHECK(absl::IsResourceExhausted(AppendUntilError(log.get())));
  const Index last = log->last_index();
  CHECK(log->ballast_used());
  for (int i = 0; i < 2; ++i) {
    log.reset();
    env.Crash(5);
    // The zeros that are written ahead of entries have replaced what stood behind the last one.
    log = Open(&env, last, kLargerSegments);
    CHECK(ReadAll(*log) == EntriesTo(last));
  }
}

TEST_CASE("a ballast file gives its space up, and is made again") {
  FaultEnv env;
  REQUIRE(env.CreateDirectories("/d").ok());
  BallastFile ballast(&env, "/d", 5000);
  CHECK_FALSE(Require(ballast.GiveUp()));
  Require(ballast.Make());
  CHECK(env.used_bytes() == 5000);
  CHECK(BallastFile(&env, "/d", 5000).exists());
  CHECK_FALSE(BallastFile(&env, "/d", 5001).exists());  // Make would make it longer
  CHECK(Require(ballast.GiveUp()));
  CHECK(env.used_bytes() == 0);
  CHECK(ballast.used());
  env.SetCapacity(4999);
  CHECK(absl::IsResourceExhausted(ballast.Make()));
  CHECK(env.used_bytes() == 0);
  CHECK(absl::IsNotFound(ballast.TurnInto("/d/other", "head").status()));
  env.SetCapacity(5000);
  Require(ballast.Make());
  CHECK_FALSE(ballast.used());
  CHECK(Require(Require(ballast.TurnInto("/d/other", "head"))->Size()) == 5000);
  CHECK(env.Exists("/d/other"));
  CHECK_FALSE(env.Exists("/d/spare"));
}

}  // namespace
}  // namespace quorate::consensus
