// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/slow_requests.h"

#include <catch2/catch.hpp>
#include <string>

#include "base/testing/manual_clock.h"

namespace quorate::rpc {
namespace {

TEST_CASE("A request at or above the threshold is slow") {
  SlowRequests slow;
  CHECK(!slow.IsSlow(int64_t{3'600'000'000}));
  slow.SetThreshold(100);
  CHECK(slow.threshold_ms() == 100);
  CHECK(!slow.IsSlow(99'999));
  CHECK(slow.IsSlow(100'000));
  slow.SetThreshold(0);
  CHECK(slow.threshold_ms() == 0);
  CHECK(!slow.IsSlow(int64_t{3'600'000'000}));
}

TEST_CASE("The last slow requests are kept, and no more") {
  SlowRequests slow;
  CHECK(slow.Last(10).empty());
  const auto keep = [&slow](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) slow.Keep({.us = static_cast<int64_t>(i)});
  };
  keep(0, 3);
  REQUIRE(slow.Last(2).size() == 2);
  CHECK(slow.Last(2)[0].us == 1);
  CHECK(slow.Last(2)[1].us == 2);
  keep(3, SlowRequests::kKept);
  CHECK(slow.Last(2 * SlowRequests::kKept).size() == SlowRequests::kKept);
  CHECK(slow.Last(2 * SlowRequests::kKept).front().us == 0);
  keep(SlowRequests::kKept, SlowRequests::kKept + 7);
  const auto all = slow.Last(2 * SlowRequests::kKept);
  CHECK(all.size() == SlowRequests::kKept);
  CHECK(all.front().us == 7);
  CHECK(all.back().us == SlowRequests::kKept + 6);
  CHECK(slow.Last(1)[0].us == SlowRequests::kKept + 6);
}

TEST_CASE("A long path is cut, and bytes that are no text are escaped") {
  SlowRequests slow;
  slow.Keep({.path = std::string(5000, 'p')});
  CHECK(slow.Last(1)[0].path == std::string(SlowRequests::kPathBytesMax, 'p') + "...(5000 bytes)");
  slow.Keep({.path = "/a\nb\xff"});
  CHECK(slow.Last(1)[0].path == "/a\\nb\\xff");
}

TEST_CASE("All slow requests are counted, and so many of each second are kept") {
  ManualClock clock;
  SlowRequests slow;
  for (size_t i = 0; i < SlowRequests::kKeptPerSecond; ++i) {
    CHECK(slow.Count("setData", clock.Now()));
  }
  CHECK(!slow.Count("setData", clock.Now()));
  CHECK(!slow.Count("create", clock.Now()));
  clock.Advance(1000);
  CHECK(slow.Count("create", clock.Now()));
  const auto counts = slow.counts();
  CHECK(counts.at("setData") == SlowRequests::kKeptPerSecond + 1);
  CHECK(counts.at("create") == 2);
  CHECK(slow.not_kept() == 2);
  slow.CountUnanswered("create");
  CHECK(slow.counts().at("create") == 3);
  CHECK(slow.not_kept() == 3);
}

}  // namespace
}  // namespace quorate::rpc
