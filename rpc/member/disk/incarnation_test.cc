// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/disk/incarnation.h"

#include <catch2/catch.hpp>
#include <string>

#include "consensus/log/testing/fault_env.h"

namespace quorate::rpc {
namespace {

constexpr char kDir[] = "data";
constexpr int64_t kWallMs = 1'700'000'000'000;

TEST_CASE("a full disk does not keep a member from its next incarnation") {
  consensus::FaultEnv env;
  REQUIRE(env.CreateDirectories(kDir).ok());
  const uint64_t first = *NextIncarnation(&env, kDir, kWallMs);
  env.SetCapacity(env.used_bytes());
  // The incarnation grows even if the clock goes back.
  for (int64_t wall_ms : {kWallMs + 1, kWallMs - 5, kWallMs + 100}) {
    const uint64_t last = *NextIncarnation(&env, kDir, wall_ms);
    env.Crash(static_cast<uint64_t>(wall_ms));
    const auto next = NextIncarnation(&env, kDir, wall_ms);
    INFO(next.status());
    REQUIRE(next.ok());
    CHECK(*next > last);
    CHECK(last > first);
    CHECK(env.Files().size() == 1);
  }
}

TEST_CASE("power fails at any step of that, and no incarnation is used twice") {
  bool done = false;
  for (uint64_t operations = 0; !done; ++operations) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      CAPTURE(operations, seed);
      consensus::FaultEnv env;
      REQUIRE(env.CreateDirectories(kDir).ok());
      const uint64_t first = *NextIncarnation(&env, kDir, kWallMs);
      if (seed % 2 == 0) env.SetCapacity(env.used_bytes());
      env.PowerOffAfter(operations);
      const auto second = NextIncarnation(&env, kDir, kWallMs);
      done = second.ok();
      env.Crash(seed);
      const auto third = NextIncarnation(&env, kDir, kWallMs);
      INFO(third.status());
      REQUIRE(third.ok());
      CHECK(*third > first);
      if (second.ok()) CHECK(*third > *second);
    }
  }
}

TEST_CASE(
    "a stop at any step, then a power failure at any step of the next start, use none twice") {
  bool done = false;
  for (uint64_t n = 0; !done; ++n) {
    for (uint64_t m = 0; m < 10; ++m) {
      for (uint64_t seed = 0; seed < 10; ++seed) {
        CAPTURE(n, m, seed);
        consensus::FaultEnv env;
        REQUIRE(env.CreateDirectories(kDir).ok());
        uint64_t last = *NextIncarnation(&env, kDir, kWallMs);
        if (seed % 2 == 0) env.SetCapacity(env.used_bytes());
        const absl::Status error = absl::InternalError("stop");
        seed % 4 < 2 ? env.FailAfter(n, error) : env.FailSyncAfter(n, error);
        const auto second = NextIncarnation(&env, kDir, kWallMs);
        done = second.ok();
        if (second.ok()) last = *second;
        env.Kill();
        env.CancelFaults();
        env.PowerOffAfter(m);
        const auto third = NextIncarnation(&env, kDir, kWallMs);
        if (third.ok()) last = *third;
        env.Crash(seed);
        const auto fourth = NextIncarnation(&env, kDir, kWallMs);
        INFO(fourth.status());
        REQUIRE(fourth.ok());
        CHECK(*fourth > last);
      }
    }
  }
}

TEST_CASE("a member that has none yet needs space for it") {
  consensus::FaultEnv env;
  REQUIRE(env.CreateDirectories(kDir).ok());
  env.SetCapacity(0);
  CHECK(absl::IsResourceExhausted(NextIncarnation(&env, kDir, kWallMs).status()));
  env.SetCapacity(1000);
  CHECK(NextIncarnation(&env, kDir, kWallMs).ok());
}

}  // namespace
}  // namespace quorate::rpc
