// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/checkers/order_checker.h"

#include "tests/simulation/checkers/checker_test_util.h"

namespace quorate::simulation {
namespace {

const Request kRead = MakeRead(OperationKind::kGetData, "/a");

TEST_CASE("A session sees zxids grow, also on another server") {
  Script script;
  OrderChecker checker(&script.history);
  const LinkId first = script.Open(1);
  const OperationId a = script.Ask(first, kRead);
  const OperationId b = script.Ask(first, kRead);
  script.Answer(a, 5);
  script.history.Event(first, {6, tree::EventType::kNodeDataChanged, "/a"});
  script.history.Event(first, {6, tree::EventType::kNodeChildrenChanged, "/"});
  script.Answer(b, 6);
  script.history.Pong(first, 9);
  script.history.CloseLink(first);
  const LinkId second = script.Open(1, 0, 9);
  script.history.Event(second, {-1, tree::EventType::kNodeDataChanged, "/a"});
  script.Answer(script.Ask(second, kRead), 9);
  // The order of another session is independent.
  script.Answer(script.Ask(script.Open(2, 1), kRead), 2);
}

TEST_CASE("Time that goes back is found") {
  Script script;
  OrderChecker checker(&script.history);
  const LinkId link = script.Open(1);
  script.Answer(script.Ask(link, kRead), 5);

  SECTION("in a reply") {
    CHECK(Broken([&] { script.Answer(script.Ask(link, kRead), 4); }) ==
          "a session does not see time go back");
  }
  SECTION("in the answer to a ping") {
    CHECK(Broken([&] { script.history.Pong(link, 4); }) == "a session does not see time go back");
  }
  SECTION("on another server") {
    script.history.CloseLink(link);
    const LinkId other = script.Open(1, 0, 5);
    CHECK(Broken([&] { script.Answer(script.Ask(other, kRead), 4); }) ==
          "a session does not see time go back");
  }
  SECTION("below the zxid that a new session has sent") {
    const LinkId other = script.Open(2, 0, 5);
    CHECK(Broken([&] { script.Answer(script.Ask(other, kRead), 4); }) ==
          "a session does not see time go back");
  }
  SECTION("after an event") {
    script.history.Event(link, {8, tree::EventType::kNodeDataChanged, "/a"});
    CHECK(Broken([&] { script.Answer(script.Ask(link, kRead), 7); }) ==
          "a reply is not older than an event before it");
  }
}

TEST_CASE("Events out of order are found") {
  Script script;
  OrderChecker checker(&script.history);
  const LinkId link = script.Open(1);
  script.Answer(script.Ask(link, kRead), 5);
  CHECK(Broken([&] {
          script.history.Event(link, {5, tree::EventType::kNodeDataChanged, "/a"});
        }) == "an event comes before any reply that shows its change");
  script.history.Event(link, {8, tree::EventType::kNodeDataChanged, "/a"});
  CHECK(Broken([&] {
          script.history.Event(link, {7, tree::EventType::kNodeDataChanged, "/a"});
        }) == "events come in the order of their zxids");
}

TEST_CASE("Replies out of order are found") {
  Script script;
  OrderChecker checker(&script.history);
  const LinkId link = script.Open(1);
  script.Ask(link, kRead);
  const OperationId second = script.Ask(link, kRead);
  CHECK(Broken([&] { script.Answer(second, 5); }) == "replies come in the order of the requests");
}

TEST_CASE("A failure report names the client, the operation and those before it") {
  Script script;
  OrderChecker checker(&script.history);
  const LinkId link = script.Open(1, 3);
  script.Answer(script.Ask(link, MakeSetData("/a", "before")), 5);
  try {
    script.Answer(script.Ask(link, kRead), 4);
    FAIL();
  } catch (const InvariantFailure& failure) {
    CHECK_THAT(failure.details, Catch::Contains("client 3"));
    CHECK_THAT(failure.details, Catch::Contains("getData /a"));
    CHECK_THAT(failure.details, Catch::Contains("setData /a \"before\""));
  }
}

}  // namespace
}  // namespace quorate::simulation
