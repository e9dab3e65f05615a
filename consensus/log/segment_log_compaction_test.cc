// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <catch2/catch.hpp>

#include "consensus/log/segment_log.h"
#include "consensus/log/testing/fault_env.h"
#include "consensus/log/testing/log_test_util.h"
#include "consensus/log/testing/segment_log_test_util.h"

namespace quorate::consensus {
namespace {

std::vector<Entry> FilledFrom(uint64_t first) {
  std::vector<Entry> entries = TestEntries(first, 20, 1, 100);
  for (const Entry& entry : TestEntries(std::max<uint64_t>(first, 21), 40, 2, 100)) {
    entries.push_back(entry);
  }
  return entries;
}

TEST_CASE("compaction removes whole segments, and the log remembers what was before") {
  for (uint64_t index = 0; index <= 40; ++index) {
    CAPTURE(index);
    FaultEnv env;
    auto log = OpenFilled(&env);
    Require(log->CompactTo(Index{index}));
    Require(log->DoChores());
    const uint64_t base = index < 11 ? 0 : index < 22 ? 11 : index < 33 ? 22 : 33;
    const Term term{base == 0 ? 0u : base <= 20 ? 1u : 2u};
    auto check = [&] {
      CHECK(log->base_index() == Index{base});
      CHECK(log->base_term() == term);
      CHECK(log->first_index() == Index{base + 1});
      CHECK(log->last_index() == Index{40});
      CHECK(log->TermAt(Index{base}) == term);
      CHECK(log->TermAt(Index{40}) == Term{2});
      CHECK_FALSE(log->TermAt(Index{41}).has_value());
      if (base > 0) CHECK_FALSE(log->TermAt(Index{base - 1}).has_value());
      CHECK(log->term_runs().size() == (base < 20 ? 2 : 1));
      CHECK(log->term_runs().front().first == Index{base + 1});
      CHECK(ReadAll(*log) == FilledFrom(base + 1));
      CHECK(absl::IsOutOfRange(log->Read(Index{base}, Index{40}, 100).status()));
      CHECK(SegmentFiles(&env, kPath).size() == 4 - base / 11);
    };
    check();
    log.reset();
    env.Crash(index);  // the removals were not durable
    log = Open(&env, Index{40});
    check();
    AppendSynced(log.get(), TestEntries(41, 60, 3, 100));
    Require(log->CompactTo(Index{60}));
    Require(log->DoChores());
    log.reset();
    CHECK(Open(&env)->last_index() == Index{60});
  }
}

TEST_CASE("a compaction that removes nothing touches nothing") {
  FaultEnv env;
  auto log = OpenFilled(&env);
  Require(log->CompactTo(Index{23}));
  Require(log->DoChores());
  Require(log->Sync());
  const uint64_t operations = env.operations();
  Require(log->CompactTo(Index{0}));
  Require(log->DoChores());
  Require(log->CompactTo(Index{23}));
  Require(log->DoChores());
  Require(log->CompactTo(Index{32}));
  Require(log->DoChores());
  Require(log->Sync());
  CHECK(env.operations() == operations);
}

TEST_CASE("files of dropped entries go with the chores, or at the next start") {
  FaultEnv env;
  auto log = OpenFilled(&env);
  CHECK_FALSE(log->HasChores());
  const uint64_t operations = env.operations();
  Require(log->CompactTo(Index{11}));
  Require(log->CompactTo(Index{23}));  // drops the segment that would have been renamed
  Require(log->Sync());
  CHECK(env.operations() == operations);
  CHECK(log->base_index() == Index{22});
  CHECK(log->HasChores());
  CHECK(absl::IsOutOfRange(log->Read(Index{22}, Index{40}, 100).status()));
  CHECK(ReadAll(*log) == FilledFrom(23));
  SECTION("by themselves") {
    Require(log->DoChores());
    CHECK_FALSE(log->HasChores());
    CHECK(SegmentFiles(&env, kPath).size() == 2);
  }
  SECTION("with a truncation") {
    Require(log->TruncateAfter(Index{40 - 1}));
    CHECK_FALSE(log->HasChores());
    CHECK(SegmentFiles(&env, kPath).size() == 3);
    AppendSynced(log.get(), TestEntries(40, 40, 2, 100));
  }
  SECTION("never: a crash undoes the compaction") {}
  const bool compacted = !log->HasChores();
  log.reset();
  env.Crash(1);
  log = Open(&env, Index{40});
  CHECK(log->base_index() == Index{compacted ? 22u : 0u});
  CHECK(ReadAll(*log) == FilledFrom(compacted ? 23 : 1));
}

TEST_CASE("a large file is given back in steps, and does no harm if it comes back cut") {
  constexpr size_t kMiB = 1u << 20;
  const SegmentLogOptions options{12 * kMiB};
  const uint32_t crash = GENERATE(1u, 2u, 3u, 4u);
  FaultEnv env;
  auto log = Open(&env, kUnknown, options);
  for (uint64_t first : {1, 9, 17}) AppendSynced(log.get(), TestEntries(first, first + 7, 1, kMiB));
  REQUIRE(SegmentFiles(&env, kPath).size() == 3);
  const Index base = log->base_index();
  Require(log->CompactTo(Index{16}));
  REQUIRE(log->base_index() > base);
  const uint64_t before = env.operations();
  Require(log->DoChores());
  // Operations: for each file its removal and two truncations; for the first segment a rename and a
  // sync of the directory.
  const uint64_t removed = 3 - SegmentFiles(&env, kPath).size();
  CHECK(env.operations() - before == 3 * removed + 2);
  const Index base_then = log->base_index();
  log.reset();
  env.Crash(crash);
  log = Open(&env, Index{24}, options);
  CHECK(log->base_index() == base_then);
  CHECK(log->last_index() == Index{24});
}

TEST_CASE("a log can be compacted until it is empty, and go on") {
  FaultEnv env;
  auto log = OpenFilled(&env);
  Require(log->TruncateAfter(Index{30}));  // this begins a segment
  Require(log->CompactTo(Index{30}));
  Require(log->DoChores());
  for (int round = 0; round < 2; ++round) {
    CHECK(log->base_index() == Index{30});
    CHECK(log->base_term() == Term{2});
    CHECK(log->last_index() == Index{30});
    CHECK(log->term_runs().empty());
    log = nullptr;
    log = Open(&env, Index{30});
  }
  AppendSynced(log.get(), {TestEntry(31, 2, 100)});
  Require(log->TruncateAfter(Index{30}));
  AppendSynced(log.get(), {TestEntry(31, 3, 100)});
  log.reset();
  log = Open(&env, Index{31});
  CHECK(log->base_index() == Index{30});
  CHECK(ReadAll(*log) == TestEntries(31, 31, 3, 100));
}

TEST_CASE("a reset log begins behind any entry, and forgets the rest") {
  for (uint64_t index : {0, 1, 11, 15, 39, 40, 41, 1000}) {
    CAPTURE(index);
    FaultEnv env;
    auto log = OpenFilled(&env);
    Require(log->Append(TestEntries(41, 43, 2, 100)));  // not synced
    const Term term{index == 0 ? 0u : 7u};
    Require(log->Reset(Index{index}, term));
    Require(log->Sync());
    auto check = [&](uint64_t last) {
      CHECK(log->base_index() == Index{index});
      CHECK(log->base_term() == term);
      CHECK(log->last_index() == Index{last});
      CHECK(ReadAll(*log) == TestEntries(index + 1, last, 7, 100));
      CHECK(absl::IsOutOfRange(log->Read(Index{index}, Index{index}, 100).status()));
      CHECK(absl::IsOutOfRange(log->Read(Index{last + 1}, Index{last + 1}, 100).status()));
      CHECK(log->term_runs().size() == (last > index ? 1 : 0));
    };
    check(index);
    log.reset();
    env.Crash(index);
    log = Open(&env, Index{index});
    check(index);
    AppendSynced(log.get(), TestEntries(index + 1, index + 30, 7, 100));
    check(index + 30);
    log.reset();
    env.Crash(index);
    log = Open(&env, Index{index + 30});
    check(index + 30);
  }
}

TEST_CASE("a reset below a durable mark that was not lowered is data loss") {
  FaultEnv env;
  Require(OpenFilled(&env)->Reset(Index{15}, Term{3}));
  CHECK(absl::IsDataLoss(OpenError(&env, Index{40})));
  CHECK(Open(&env, Index{15})->last_index() == Index{15});
}

}  // namespace
}  // namespace quorate::consensus
