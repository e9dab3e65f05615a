// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/session_tags.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <optional>
#include <vector>

namespace quorate::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using tree::SessionId;

struct Loop {
  static constexpr auto kHeldUpAfter = milliseconds(600);
  steady_clock::time_point last_iteration() const { return iteration; }
  steady_clock::time_point iteration;
};

TEST_CASE("a session has the tag that served it last, until that is taken or forgotten") {
  SessionTags tags;
  tags.Set(SessionId(7), 1);
  tags.Set(SessionId(7), 2);
  tags.Forget(SessionId(7), 1);
  CHECK(tags.Take(SessionId(7)) == std::optional<uint32_t>(2));
  CHECK_FALSE(tags.Take(SessionId(7)).has_value());
  tags.Set(SessionId(8), 3);
  tags.Forget(SessionId(8), 3);
  CHECK_FALSE(tags.Take(SessionId(8)).has_value());
}

TEST_CASE("the sessions of stalled loops alone are returned, ascending") {
  SessionTags tags;
  for (uint32_t i = 0; i < 100; ++i) tags.Set(SessionId(1000 - i), i);
  const steady_clock::time_point start;
  Loop even{start};
  Loop odd{start};
  const std::vector<Loop*> loops = {&even, &odd};
  const auto stalled = [&](milliseconds later) {
    return tags.OfStalledLoops(loops, start + later, [&](uint32_t tag) { return loops[tag % 2]; });
  };
  CHECK(stalled(Loop::kHeldUpAfter).empty());
  CHECK(stalled(Loop::kHeldUpAfter + milliseconds(1)).size() == 100);
  odd.iteration = start + milliseconds(1);
  std::vector<int64_t> expected;
  for (int64_t session = 902; session <= 1000; session += 2) expected.push_back(session);
  CHECK(stalled(Loop::kHeldUpAfter + milliseconds(1)) == expected);
}

}  // namespace
}  // namespace quorate::rpc
