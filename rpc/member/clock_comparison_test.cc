// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/clock_comparison.h"

#include <catch2/catch.hpp>

namespace quorate::rpc {
namespace {

using consensus::MemberId;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::chrono::steady_clock::time_point kStart{seconds(1000)};
constexpr int64_t kLeaderMs = 4'000'000'000'000;

// Records one command each 100 ms for `duration`. The commands take the times of `delays_ms`, in
// turn, to arrive. Returns the findings.
std::vector<int64_t> Run(ClockComparison* clocks, std::chrono::seconds duration, int64_t ahead_ms,
                         std::vector<int64_t> delays_ms, MemberId leader = MemberId(2),
                         std::chrono::steady_clock::time_point start = kStart) {
  std::vector<int64_t> findings;
  size_t count = 0;
  for (milliseconds at{0}; at <= duration; at += milliseconds(100)) {
    const int64_t command_ms = kLeaderMs + at.count();
    const int64_t delay_ms = delays_ms[count++ % delays_ms.size()];
    const auto finding =
        clocks->Note(leader, command_ms, command_ms + ahead_ms + delay_ms, start + at);
    if (!finding.has_value()) continue;
    CHECK(finding->leader == leader);
    findings.push_back(finding->ahead_ms);
  }
  return findings;
}

TEST_CASE(
    "a clock that is ahead or behind is found after five seconds, and said every ten minutes") {
  const int64_t ahead_ms = GENERATE(2500, 86'400'000, -2500, -86'400'000);
  ClockComparison clocks;
  CHECK(Run(&clocks, seconds(4), ahead_ms, {3}).empty());
  ClockComparison others;
  CHECK(Run(&others, minutes(21), ahead_ms, {3}) ==
        std::vector<int64_t>{ahead_ms + 3, ahead_ms + 3, ahead_ms + 3});
}

TEST_CASE("commands that were long on their way, and clocks that nearly agree, are no finding") {
  ClockComparison clocks;
  CHECK(Run(&clocks, seconds(60), 1500, {400, 5000, 90'000}).empty());
  ClockComparison others;
  CHECK(Run(&others, seconds(60), -1500, {0, 5000}).empty());
}

TEST_CASE("each leader is looked at by itself") {
  ClockComparison clocks;
  CHECK(Run(&clocks, seconds(6), 10'000, {0}).size() == 1);
  CHECK(Run(&clocks, seconds(4), 10'000, {0}, MemberId(3), kStart + seconds(7)).empty());
  CHECK(Run(&clocks, seconds(6), 10'000, {0}, MemberId(2), kStart + seconds(20)).size() == 1);
  // A clock that was corrected is not reported.
  CHECK(Run(&clocks, seconds(60), 0, {0}, MemberId(2), kStart + seconds(30)).empty());
}

}  // namespace
}  // namespace quorate::rpc
