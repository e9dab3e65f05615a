// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/apply_progress.h"

#include <catch2/catch.hpp>

namespace quorate::consensus {
namespace {

TEST_CASE("a range is under way until all of it is applied") {
  ApplyProgress progress(Index{5});
  CHECK(progress.applied() == Index{5});
  CHECK(progress.handed_out() == Index{5});
  progress.HandOut(Index{8});
  progress.HandOut(Index{9});
  CHECK(progress.handed_out() == Index{9});
  CHECK(progress.ranges_under_way() == 2);
  CHECK(progress.Applied(Index{7}));
  CHECK(progress.ranges_under_way() == 2);
  CHECK(progress.Applied(Index{8}));
  CHECK(progress.ranges_under_way() == 1);
  CHECK(progress.Applied(Index{9}));
  CHECK(progress.ranges_under_way() == 0);
  CHECK(progress.applied() == Index{9});
}

TEST_CASE("one report may cover several ranges") {
  ApplyProgress progress(Index{0});
  progress.HandOut(Index{1});
  progress.HandOut(Index{2});
  CHECK(progress.Applied(Index{2}));
  CHECK(progress.ranges_under_way() == 0);
}

TEST_CASE("what is known to be applied is not applied again") {
  ApplyProgress progress(Index{0});
  progress.HandOut(Index{3});
  CHECK(progress.Applied(Index{3}));
  CHECK_FALSE(progress.Applied(Index{3}));
  CHECK_FALSE(progress.Applied(Index{2}));
  CHECK(progress.applied() == Index{3});
}

TEST_CASE("a snapshot takes the place of the ranges under way") {
  ApplyProgress progress(Index{0});
  progress.HandOut(Index{3});
  progress.Reset(Index{20});
  CHECK(progress.applied() == Index{20});
  CHECK(progress.handed_out() == Index{20});
  CHECK(progress.ranges_under_way() == 0);
  CHECK_FALSE(progress.Applied(Index{3}));
}

}  // namespace
}  // namespace quorate::consensus
