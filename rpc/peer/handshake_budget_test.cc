// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/handshake_budget.h"

#include <catch2/catch.hpp>

namespace quorate::rpc {
namespace {

TEST_CASE("handshakes take a tenth of the time, however many are wanted") {
  using std::chrono::milliseconds;
  HandshakeBudget budget;
  HandshakeBudget::Clock::time_point now = HandshakeBudget::Clock::now();
  HandshakeBudget::Clock::duration spent{};
  constexpr auto kHandshake = milliseconds(4);
  for (int tick = 0; tick < 1000; ++tick) {
    now += milliseconds(10);
    int in_a_row = 0;
    while (budget.IsLeft(now)) {
      budget.Spend(kHandshake);
      spent += kHandshake;
      ++in_a_row;
    }
    CHECK(in_a_row <= HandshakeBudget::kMax / kHandshake + 1);
  }
  CHECK(spent >= milliseconds(10'000) / HandshakeBudget::kShare);
  CHECK(spent <=
        milliseconds(10'000) / HandshakeBudget::kShare + HandshakeBudget::kMax + 2 * kHandshake);
}

TEST_CASE("after a very long step, handshakes wait for a bounded time") {
  using std::chrono::milliseconds;
  HandshakeBudget budget;
  HandshakeBudget::Clock::time_point now = HandshakeBudget::Clock::now();
  budget.Spend(std::chrono::minutes(1));
  CHECK_FALSE(budget.IsLeft(now));
  now += HandshakeBudget::kMax * HandshakeBudget::kShare + milliseconds(10);
  CHECK(budget.IsLeft(now));
}

}  // namespace
}  // namespace quorate::rpc
