// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/catch_up.h"

#include <catch2/catch.hpp>

namespace quorate::consensus {
namespace {

constexpr int kElectionTicks = 10;

// Lets `ticks` pass, in which the follower has everything up to `match` of a log up to `last`.
void Pass(int ticks, uint64_t match, uint64_t last, CatchUp* catch_up) {
  for (; ticks > 0; --ticks) catch_up->Tick(Index{match}, Index{last});
}

TEST_CASE("a follower has not caught up before its first round is complete") {
  CatchUp catch_up(Index{100});
  CHECK_FALSE(catch_up.IsCaughtUp(kElectionTicks));
  Pass(kElectionTicks - 1, 99, 120, &catch_up);
  CHECK_FALSE(catch_up.IsCaughtUp(kElectionTicks));
  // The round ends where the log ended when it began.
  catch_up.Advance(Index{100}, Index{120});
  CHECK(catch_up.IsCaughtUp(kElectionTicks));
}

TEST_CASE("a round that took an election timeout does not count, and a shorter one after it does") {
  CatchUp catch_up(Index{100});
  Pass(kElectionTicks, 50, 150, &catch_up);
  catch_up.Advance(Index{100}, Index{150});
  CHECK_FALSE(catch_up.IsCaughtUp(kElectionTicks));
  Pass(kElectionTicks - 1, 120, 160, &catch_up);
  CHECK_FALSE(catch_up.IsCaughtUp(kElectionTicks));
  catch_up.Advance(Index{150}, Index{160});
  CHECK(catch_up.IsCaughtUp(kElectionTicks));
}

TEST_CASE("a follower that acknowledges less than is appended never catches up") {
  CatchUp catch_up(Index{100});
  // Twice as much is appended as is acknowledged: each round takes longer than the one before.
  for (uint64_t tick = 1; tick <= 1000; ++tick) {
    Pass(1, tick * 5, 100 + tick * 10, &catch_up);
    CHECK_FALSE(catch_up.IsCaughtUp(kElectionTicks));
  }
}

TEST_CASE("a follower that stops acknowledging is not caught up any more") {
  CatchUp catch_up(Index{100});
  catch_up.Advance(Index{100}, Index{101});
  Pass(kElectionTicks - 1, 100, 110, &catch_up);
  CHECK(catch_up.IsCaughtUp(kElectionTicks));
  Pass(1, 100, 110, &catch_up);
  CHECK_FALSE(catch_up.IsCaughtUp(kElectionTicks));
}

TEST_CASE("a follower that has everything stays caught up without new entries") {
  CatchUp catch_up(Index{100});
  Pass(10 * kElectionTicks, 100, 100, &catch_up);
  CHECK(catch_up.IsCaughtUp(kElectionTicks));
}

TEST_CASE("a follower that has lost entries begins with the first round again") {
  CatchUp catch_up(Index{100});
  catch_up.Advance(Index{100}, Index{100});
  catch_up.Restart(Index{120});
  CHECK_FALSE(catch_up.IsCaughtUp(kElectionTicks));
  catch_up.Advance(Index{119}, Index{130});
  CHECK_FALSE(catch_up.IsCaughtUp(kElectionTicks));
  catch_up.Advance(Index{120}, Index{130});
  CHECK(catch_up.IsCaughtUp(kElectionTicks));
}

}  // namespace
}  // namespace quorate::consensus
