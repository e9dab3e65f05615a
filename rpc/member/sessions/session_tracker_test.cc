// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/sessions/session_tracker.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

namespace quorate::rpc {
namespace {

using tree::SessionId;
using tree::Zxid;

std::vector<int64_t> Ids(const std::vector<SessionTracker::Expired>& expired) {
  std::vector<int64_t> ids;
  for (const auto& session : expired) ids.push_back(session.session.value());
  return ids;
}

TEST_CASE("a silent session expires between its timeout and one granularity more") {
  SessionTracker tracker(100, 0);
  tracker.OnAttached(SessionId(1), 250, Zxid(7));
  CHECK(tracker.Advance(250, 10).empty());
  const auto expired = tracker.Advance(100, 10);
  CHECK(Ids(expired) == std::vector<int64_t>{1});
  CHECK(expired[0].attach_zxid == Zxid(7));
}

TEST_CASE("a touch gives the full timeout from then on") {
  SessionTracker tracker(100, 0);
  tracker.OnAttached(SessionId(1), 200, Zxid(1));
  for (int i = 0; i < 20; ++i) {
    CHECK(tracker.Advance(150, 10).empty());
    tracker.Touch(SessionId(1));
  }
  CHECK(tracker.Advance(200, 10).empty());
  CHECK(Ids(tracker.Advance(100, 10)) == std::vector<int64_t>{1});
}

TEST_CASE("a touch just before time is made up for gives the full timeout too") {
  SessionTracker tracker(10, 45);
  tracker.OnAttached(SessionId(1), 100, Zxid(1));
  // Up to 45 ms may have passed since the tracker's last Advance.
  tracker.Touch(SessionId(1));
  CHECK(tracker.Advance(45, 10).empty());
  CHECK(tracker.Advance(99, 10).empty());
  CHECK(Ids(tracker.Advance(11, 10)) == std::vector<int64_t>{1});
}

TEST_CASE("a new leader's TouchAll gives everyone a full timeout") {
  SessionTracker tracker(10, 0);
  tracker.OnAttached(SessionId(1), 100, Zxid(1));
  tracker.OnAttached(SessionId(2), 100, Zxid(1));
  tracker.Advance(95, 10);
  tracker.TouchAll();
  CHECK(tracker.Advance(100, 10).empty());
  CHECK(tracker.Advance(10, 10).size() == 2);
}

TEST_CASE("a session that is attached again has its new timeout, also a shorter one") {
  SessionTracker tracker(10, 0);
  tracker.OnAttached(SessionId(1), 1000, Zxid(1));
  tracker.OnAttached(SessionId(1), 100, Zxid(2));
  const auto expired = tracker.Advance(110, 10);
  CHECK(Ids(expired) == std::vector<int64_t>{1});
  CHECK(expired[0].attach_zxid == Zxid(2));
}

TEST_CASE("closed sessions are forgotten, and expiries are limited at once without losing any") {
  SessionTracker tracker(10, 0);
  for (int64_t id = 1; id <= 5; ++id) tracker.OnAttached(SessionId(id), 100, Zxid(1));
  tracker.OnClosed(SessionId(3));
  CHECK(tracker.size() == 4);
  std::vector<int64_t> all = Ids(tracker.Advance(200, 3));
  CHECK(all.size() == 3);
  for (int64_t id : Ids(tracker.Advance(0, 3))) all.push_back(id);
  std::sort(all.begin(), all.end());
  CHECK(all == std::vector<int64_t>{1, 2, 4, 5});
}

TEST_CASE("a session whose end did not get into the log expires once more") {
  SessionTracker tracker(10, 0);
  tracker.OnAttached(SessionId(1), 100, Zxid(1));
  CHECK(tracker.Advance(110, 10).size() == 1);
  CHECK(tracker.Advance(50, 10).empty());
  CHECK(tracker.Advance(100, 10).size() == 1);
}

}  // namespace
}  // namespace quorate::rpc
