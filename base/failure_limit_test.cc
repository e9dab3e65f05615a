// SPDX-License-Identifier: Apache-2.0

#include "base/failure_limit.h"

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>

#include "base/testing/manual_clock.h"

namespace quorate {
namespace {

// Returns how many attempts are allowed at once, at most `max`.
int Attempts(FailureLimit* limit, const std::string& address, const std::string& user,
             int max = 1000) {
  int count = 0;
  while (count < max && limit->Take(address, user)) ++count;
  return count;
}

TEST_CASE("failures of one address and user are limited, and come back with time") {
  ManualClock clock(1000);
  FailureLimit limit(&clock);
  CHECK(Attempts(&limit, "10.0.0.1", "bob") == FailureLimit::kBurst);
  clock.Advance(999);
  CHECK(Attempts(&limit, "10.0.0.1", "bob") == 0);
  clock.Advance(1);
  CHECK(Attempts(&limit, "10.0.0.1", "bob") == 1);
  clock.Advance(3500);
  CHECK(Attempts(&limit, "10.0.0.1", "bob") == 3);
  clock.Advance(500);
  CHECK(Attempts(&limit, "10.0.0.1", "bob") == 1);
  clock.Advance(1'000'000);
  CHECK(Attempts(&limit, "10.0.0.1", "bob") == FailureLimit::kBurst);
}

TEST_CASE("other addresses and users are not delayed") {
  ManualClock clock(1000);
  FailureLimit limit(&clock);
  Attempts(&limit, "10.0.0.1", "bob");
  CHECK(limit.Take("10.0.0.2", "bob"));
  CHECK(limit.Take("10.0.0.1", "alice"));
  CHECK(limit.Take("10.0.0.1b", "ob"));
  CHECK_FALSE(limit.Take("10.0.0.1", "bob"));
}

TEST_CASE("the addresses of a network of IPv6 count as one") {
  ManualClock clock(1000);
  FailureLimit limit(&clock);
  Attempts(&limit, "2001:db8::1", "bob");
  CHECK_FALSE(limit.Take("2001:db8:0:0:ffff::2", "bob"));
  CHECK(limit.Take("2001:db8:0:1::1", "bob"));
  // "::" may stand for groups on both sides of the network's end.
  for (const auto& [one, same, other] :
       {std::array{"2001:db8:1::5", "2001:db8:1::1:2:3:4", "2001:db8:1:1::5"},
        std::array{"fd00::1:2:3:4", "fd00::9:2:3:4", "fd00:0:0:1::9"},
        std::array{"fe80::1%eth0", "fe80::2%eth0", "fe81::1%eth0"}}) {
    INFO(one);
    Attempts(&limit, one, "bob");
    CHECK_FALSE(limit.Take(same, "bob"));
    CHECK(limit.Take(other, "bob"));
  }
}

TEST_CASE("attempts that do not fail are not limited") {
  ManualClock clock(1000);
  FailureLimit limit(&clock);
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(limit.Take("10.0.0.1", "bob"));
    limit.GiveBack("10.0.0.1", "bob");
  }
  CHECK(Attempts(&limit, "10.0.0.1", "bob") == FailureLimit::kBurst);
}

TEST_CASE("with very many addresses the oldest failures are forgotten, not the newest") {
  ManualClock clock(1000);
  FailureLimit limit(&clock);
  Attempts(&limit, "first", "bob");
  clock.Advance(1);
  for (size_t i = 0; i + 2 < FailureLimit::kPairsMax; ++i) {
    limit.Take("other" + std::to_string(i), "bob");
  }
  clock.Advance(1);
  Attempts(&limit, "last", "bob");
  CHECK_FALSE(limit.Take("first", "bob"));
  CHECK(limit.Take("one more", "bob"));
  CHECK_FALSE(limit.Take("last", "bob"));
  CHECK(limit.Take("first", "bob"));
}

TEST_CASE("failed attempts come back at the rate of the limit") {
  ManualClock clock(1000);
  FailureLimit limit(&clock, std::chrono::seconds(2));
  CHECK(Attempts(&limit, "10.0.0.1", "") == FailureLimit::kBurst);
  clock.Advance(1999);
  CHECK(Attempts(&limit, "10.0.0.1", "") == 0);
  clock.Advance(1);
  CHECK(Attempts(&limit, "10.0.0.1", "") == 1);
  CHECK(limit.Take("10.0.0.2", ""));
}

}  // namespace
}  // namespace quorate
