// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/barriers.h"

#include <catch2/catch.hpp>
#include <optional>
#include <vector>

namespace quorate::rpc {
namespace {

using Tags = std::vector<uint32_t>;

TEST_CASE("no barrier begins before a client joins it") {
  Barriers barriers;
  CHECK_FALSE(barriers.has_next());
  CHECK(barriers.TakeNext() == std::nullopt);
  CHECK(barriers.done() == 0);
}

TEST_CASE("one barrier serves all clients that joined before it began") {
  Barriers barriers;
  CHECK(barriers.Join(7) == 1);
  CHECK(barriers.Join(7) == 1);
  CHECK(barriers.Join(8) == 1);
  CHECK(barriers.has_next());
  CHECK(barriers.TakeNext() == 1);
  CHECK_FALSE(barriers.has_next());
  CHECK(barriers.TakeNext() == std::nullopt);
  CHECK(barriers.done() == 0);
  CHECK(barriers.End(1) == Tags{7, 8});
  CHECK(barriers.done() == 1);
}

TEST_CASE("a client that joins after a barrier has begun waits for the next one") {
  Barriers barriers;
  barriers.Join(7);
  REQUIRE(barriers.TakeNext() == 1);
  CHECK(barriers.Join(8) == 2);
  CHECK(barriers.End(1) == Tags{7});
  CHECK(barriers.done() == 1);
}

TEST_CASE("only so many barriers are in flight, and what joins meanwhile shares the next one") {
  Barriers barriers;
  for (uint64_t i = 1; i <= kBarriersInFlightMax; ++i) {
    barriers.Join(static_cast<uint32_t>(i));
    REQUIRE(barriers.TakeNext() == i);
  }
  CHECK(barriers.Join(8) == kBarriersInFlightMax + 1);
  CHECK(barriers.TakeNext() == std::nullopt);
  CHECK(barriers.Join(9) == kBarriersInFlightMax + 1);
  CHECK(barriers.TakeNext() == std::nullopt);
  CHECK(barriers.has_next());
  CHECK(barriers.End(1) == Tags{1});
  CHECK(barriers.TakeNext() == kBarriersInFlightMax + 1);
  CHECK(barriers.End(kBarriersInFlightMax + 1) == Tags{2, 8, 9});
}

TEST_CASE("the end of a barrier ends the earlier ones, and an end that comes late does nothing") {
  Barriers barriers;
  barriers.Join(7);
  REQUIRE(barriers.TakeNext() == 1);
  barriers.Join(8);
  REQUIRE(barriers.TakeNext() == 2);
  CHECK(barriers.End(2) == Tags{7, 8});
  CHECK(barriers.End(1).empty());
  CHECK(barriers.done() == 2);
}

}  // namespace
}  // namespace quorate::rpc
