// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/election_timer.h"

#include <catch2/catch.hpp>
#include <cstdint>

namespace quorate::consensus {
namespace {

constexpr int kElectionTicks = 10;
constexpr int kHeartbeatTicks = 4;

// Returns one number again and again.
class Constant : public RandomSource {
 public:
  explicit Constant(uint64_t number) : number_(number) {}
  uint64_t Next() override { return number_; }

 private:
  const uint64_t number_;
};

// Returns after how many ticks the timer has expired.
int TicksToExpiry(ElectionTimer timer) {
  int ticks = 0;
  for (; !timer.has_expired(); ++ticks) timer.Tick();
  return ticks;
}

TEST_CASE("the timeout is at least the election ticks, and less than twice as many") {
  ElectionTimer timer(kElectionTicks, kHeartbeatTicks);
  for (const uint64_t drawn : {0, 3, 9, 10}) {
    Constant random(drawn);
    timer.Restart(&random);
    CHECK(TicksToExpiry(timer) == kElectionTicks + static_cast<int>(drawn) % kElectionTicks);
  }
}

TEST_CASE("the idle ticks are those before the one in which the timer expires") {
  ElectionTimer timer(kElectionTicks, kHeartbeatTicks);
  Constant random(0);
  timer.Restart(&random);
  CHECK(timer.IdleTicks() == kElectionTicks - 1);
  for (int i = 0; i < kElectionTicks - 1; ++i) timer.Tick();
  CHECK(timer.IdleTicks() == 0);
  CHECK_FALSE(timer.has_expired());
  timer.Tick();
  CHECK(timer.IdleTicks() == 0);
  CHECK(timer.has_expired());
}

TEST_CASE("a restart does not end the silence, a message of the leader does") {
  ElectionTimer timer(kElectionTicks, kHeartbeatTicks);
  Constant random(0);
  timer.Restart(&random);
  for (int i = 0; i < kElectionTicks; ++i) timer.Tick();
  timer.Restart(&random);
  CHECK(timer.silence_ticks() == kElectionTicks);
  CHECK_FALSE(timer.hears_leader());
  CHECK(timer.leader_contacts() == 0);
  timer.HeardLeader(&random);
  CHECK(timer.silence_ticks() == 0);
  CHECK(timer.hears_leader());
  CHECK(timer.leader_contacts() == 1);
  CHECK(TicksToExpiry(timer) == kElectionTicks);
}

TEST_CASE("a member that ends leading has heard from a leader, and its timer runs on") {
  ElectionTimer timer(kElectionTicks, kHeartbeatTicks);
  Constant random(0);
  timer.Restart(&random);
  for (int i = 0; i < kElectionTicks - 1; ++i) timer.Tick();
  timer.EndedLeading();
  CHECK(timer.hears_leader());
  CHECK(timer.leader_contacts() == 0);
  CHECK(TicksToExpiry(timer) == 1);
}

TEST_CASE(
    "a leader that has probably died is not heard, and the timer expires within a heartbeat") {
  ElectionTimer timer(kElectionTicks, kHeartbeatTicks);
  Constant random(9);
  timer.HeardLeader(&random);
  timer.Tick();
  timer.ExpireSoon(&random);
  CHECK_FALSE(timer.hears_leader());
  CHECK(TicksToExpiry(timer) == 1 + 9 % (kHeartbeatTicks / 2));

  SECTION("it does not expire later than it would have") {
    Constant none(0);
    timer.Restart(&none);
    for (int i = 0; i < kElectionTicks - 1; ++i) timer.Tick();
    timer.ExpireSoon(&random);
    CHECK(TicksToExpiry(timer) == 1);
  }
}

}  // namespace
}  // namespace quorate::consensus
