// SPDX-License-Identifier: Apache-2.0

// The clients and all checkers against correct servers, and then against servers that lie: each lie
// has to be found by the checker responsible for it.
#include "tests/simulation/clients/workload.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "tests/simulation/clients/fake_cluster.h"
#include "tests/simulation/clients/fake_environment.h"

namespace quorate::simulation {
namespace {

constexpr int64_t kSecondUs = 1'000'000;

struct Outcome {
  std::string invariant;  // empty: nothing was found
  std::string details;
  bool lied = false;
  bool idle = false;
  std::string waiting_for;
  uint64_t hash = 0;
  std::map<std::string, uint64_t> counts;
};

Outcome RunSeed(uint64_t seed, Lie lie, int64_t work_us, bool uses_keeper = false) {
  FakeEnvironment environment(seed);
  FakeCluster cluster(&environment, lie, 2 * kSecondUs);
  cluster.SetTroubleUntil(work_us);
  Options options;
  options.clients.count = 4;
  options.clients.operation_rate = 60;
  options.clients.min_session_timeout_ms = 1000;
  options.clients.max_session_timeout_ms = 3000;
  options.clients.uses_keeper = uses_keeper;
  const std::unique_ptr<Workload> workload = MakeWorkload(&environment, &cluster, options);
  Outcome outcome;
  try {
    workload->Start();
    environment.RunUntil(work_us);
    workload->BeginQuiet();
    for (int i = 0; i < 200 && !(workload->Idle() && cluster.converged()); ++i) {
      environment.RunUntil(environment.now_us() + kSecondUs / 10);
    }
    outcome.idle = workload->Idle() && cluster.converged();
    outcome.waiting_for = workload->Describe();
    if (outcome.idle) workload->CheckFinal();
  } catch (const InvariantFailure& failure) {
    outcome.invariant = failure.invariant;
    outcome.details = failure.details;
  }
  outcome.lied = cluster.lied();
  outcome.hash = environment.hash();
  outcome.counts = environment.counts();
  return outcome;
}

TEST_CASE("Correct servers violate no invariant") {
  std::map<std::string, uint64_t> counts;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const Outcome outcome = RunSeed(seed, Lie::kNone, 15 * kSecondUs);
    INFO(outcome.details);
    REQUIRE(outcome.invariant == "");
    INFO(outcome.waiting_for);
    REQUIRE(outcome.idle);
    for (const auto& [probe, count] : outcome.counts) counts[probe] += count;
  }
  // The result means something only if these events occurred.
  for (const char* probe :
       {"client: session created", "client: session resumed", "client: session expired",
        "client: watches renewed", "client: event", "client: missed event", "client: moves",
        "client: falls silent", "client: abandons its session", "client: closes its session",
        "client: sleeps", "workload: next register", "checker: a register was checked",
        "checker: the sum of the accounts was taken"}) {
    CAPTURE(probe);
    CHECK(counts[probe] > 0);
  }
}

TEST_CASE("Correct servers with the operations of ClickHouse Keeper violate no invariant") {
  std::map<std::string, uint64_t> counts;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const Outcome outcome = RunSeed(seed, Lie::kNone, 15 * kSecondUs, /*uses_keeper=*/true);
    INFO(outcome.details);
    REQUIRE(outcome.invariant == "");
    INFO(outcome.waiting_for);
    REQUIRE(outcome.idle);
    for (const auto& [probe, count] : outcome.counts) counts[probe] += count;
  }
  for (const char* probe :
       {"keeper: checkNotExists: ok", "keeper: checkNotExists: node exists",
        "keeper: createIfNotExists: ok", "keeper: removeRecursive: ok",
        "keeper: removeRecursive: not empty", "keeper: checkStat: ok",
        "keeper: checkStat: bad version", "keeper: checkStat: no node", "keeper: tryRemove: ok",
        "keeper: filteredList: ok", "keeper: filteredListWithStatsAndData: ok",
        "keeper: listRecursive: ok"}) {
    CAPTURE(probe);
    CHECK(counts[probe] > 0);
  }
}

TEST_CASE("A seed gives the same run each time") {
  const Outcome first = RunSeed(7, Lie::kNone, 5 * kSecondUs);
  const Outcome second = RunSeed(7, Lie::kNone, 5 * kSecondUs);
  const Outcome other = RunSeed(8, Lie::kNone, 5 * kSecondUs);
  CHECK(first.hash == second.hash);
  CHECK(first.hash != other.hash);
}

struct Case {
  Lie lie;
  std::string invariant;
  bool uses_keeper = false;
};

TEST_CASE("Each mistake of a server is found as a violation of the right invariant") {
  const Case kCases[] = {
      {Lie::kLostWrite, "an answered write is in the log"},
      {Lie::kWriteTwice, "no write is applied twice"},
      {Lie::kSwappedWrites, "writes enter the log in their order"},
      {Lie::kHalfMulti, "writes enter the log in their order"},
      {Lie::kWrongAnswer, "a write is answered with its result"},
      {Lie::kWrongData, "a read shows the tree of its zxid"},
      {Lie::kWrongChildren, "a read shows the tree of its zxid"},
      {Lie::kWrongKind, "a read shows the tree of its zxid", true},
      {Lie::kWrongChildData, "a read shows the tree of its zxid", true},
      {Lie::kWrongDepth, "a read shows the tree of its zxid", true},
      {Lie::kWrongFlags, "servers announce the operations of ClickHouse Keeper that they have",
       true},
      {Lie::kEarlyRead, "a read sees the writes before it on its connection"},
      {Lie::kOldZxid, "a session does not see time go back"},
      {Lie::kOldSync, "a sync shows everything that was seen before it began"},
      {Lie::kSwappedReplies, "servers speak the protocol"},
      {Lie::kFutureZxid, "servers show only what is committed"},
      {Lie::kLostEvent, "an event comes before any reply that shows its change"},
      {Lie::kEventTwice, "a watch fires once, and only where it was set"},
      {Lie::kLateEvent, "an event comes before any reply that shows its change"},
      {Lie::kWrongEvent, "a watch reports the first change since it was set"},
      {Lie::kMissedEvent, "setWatches reports the missed changes"},
      {Lie::kEarlyExpiry, "a session does not expire before its timeout"},
      {Lie::kRefused, "a living session is not refused"},
  };
  for (const Case& each : kCases) {
    CAPTURE(static_cast<int>(each.lie), each.invariant);
    int told = 0;
    int found = 0;
    // A seed may give no opportunity to lie.
    for (uint64_t seed = 1; seed <= 40 && found < 2; ++seed) {
      const Outcome outcome = RunSeed(seed, each.lie, 15 * kSecondUs, each.uses_keeper);
      told += outcome.lied ? 1 : 0;
      if (outcome.invariant.empty()) continue;
      CAPTURE(seed, outcome.details);
      CHECK(outcome.lied);
      CHECK(outcome.invariant == each.invariant);
      found += outcome.invariant == each.invariant ? 1 : 0;
    }
    CAPTURE(told);
    CHECK(found == 2);
  }
}

TEST_CASE("A member with another tree is found by a read, or at the end of the run") {
  int found = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Outcome outcome = RunSeed(seed, Lie::kTwoTrees, 5 * kSecondUs);
    CAPTURE(seed, outcome.details, outcome.invariant, outcome.waiting_for);
    CHECK(outcome.lied);
    found += outcome.invariant.empty() ? 0 : 1;
  }
  CHECK(found >= 5);  // not in every seed, because the skipped entry may be a failed write
}

TEST_CASE("A run is not idle until abandoned sessions have ended") {
  int waited = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Outcome outcome = RunSeed(seed, Lie::kNoExpiry, 10 * kSecondUs);
    CAPTURE(seed, outcome.details, outcome.invariant);
    CHECK(outcome.invariant == "");
    if (outcome.idle) continue;
    CHECK(outcome.waiting_for.find("was abandoned and has not ended") != std::string::npos);
    ++waited;
  }
  CHECK(waited > 0);
}

}  // namespace
}  // namespace quorate::simulation
