// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/snapshot_rate.h"

#include <catch2/catch.hpp>

namespace quorate::consensus {
namespace {

constexpr size_t kFirstBytes = 1600;

TEST_CASE("the rate grows while it delays a transfer, up to a limit") {
  SnapshotRate rate(kFirstBytes);
  CHECK(rate.bytes() == kFirstBytes);
  rate.Tick(1, Index{5}, Index{5}, /*kept_back=*/false);
  CHECK(rate.bytes() == kFirstBytes);
  rate.Tick(2, Index{5}, Index{5}, /*kept_back=*/true);
  CHECK(rate.bytes() == kFirstBytes + kFirstBytes / 16);
  for (uint64_t tick = 3; tick < 200; ++tick) rate.Tick(tick, Index{5}, Index{5}, true);
  CHECK(rate.bytes() == kSnapshotRateGrowthMax * kFirstBytes);
}

TEST_CASE("the rate shrinks while entries wait for three ticks to be committed, down to a limit") {
  SnapshotRate rate(kFirstBytes);
  // The entries up to 9 are there at tick 1, and not committed at tick 4.
  for (uint64_t tick = 1; tick <= SnapshotRate::kTicksToCommit; ++tick) {
    rate.Tick(tick, Index{5}, Index{9}, /*kept_back=*/false);
    CHECK(rate.bytes() == kFirstBytes);
  }
  rate.Tick(4, Index{8}, Index{9}, /*kept_back=*/true);
  CHECK(rate.bytes() == kFirstBytes / 4 * 3);
  for (uint64_t tick = 5; tick < 200; ++tick) rate.Tick(tick, Index{8}, Index{9}, false);
  CHECK(rate.bytes() == kFirstBytes / kSnapshotRateDivisorMax);
  rate.Tick(200, Index{9}, Index{9}, /*kept_back=*/true);
  CHECK(rate.bytes() > kFirstBytes / kSnapshotRateDivisorMax);
}

TEST_CASE("followers share the rate, and each may send something") {
  SnapshotRate rate(kFirstBytes);
  CHECK(rate.ShareOf(1) == 1600);
  CHECK(rate.ShareOf(3) == 533);
  CHECK(SnapshotRate(2).ShareOf(3) == 1);
}

}  // namespace
}  // namespace quorate::consensus
