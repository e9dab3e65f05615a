// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/ephemeral_check.h"

#include <catch2/catch.hpp>

#include "tests/chaos/checkers/script.h"

namespace quorate::chaos {
namespace {

constexpr char kEarly[] = "a session does not end before its timeout";
constexpr char kLives[] = "an ephemeral node lives as long as its session";
constexpr char kGone[] = "an ephemeral node is deleted with its session";

constexpr int64_t kMs = 1'000'000;

// Session 100 of client 1 has created /e/a at zxid 5, and sends something now and then; client 2
// reads. Timeouts are four seconds.
class Ephemerals : public Script {
 public:
  Ephemerals() : Script("ephemeral") {
    Connect(1, 100);
    Connect(2, 200);
    Make("a", 5);
  }
  void Connect(int32_t client, int64_t session) {
    Line line;
    line.session = session;
    line.frontend = "zookeeper";
    line.timeout_ms = 4000;
    Tell(client, What::kConnected, std::move(line));
  }
  void Make(const std::string& name, int64_t zxid) {
    Line created = Created("/e/" + name, zxid);
    created.stat->owner = 100;
    Do(1, Create("/e/" + name, name, "ephemeral"), created);
  }
  void Touch(int count, int64_t every_ms = 500) {
    for (int i = 0; i < count; ++i) {
      Wait(every_ms);
      Do(1, Get("/x"), Found("x", 2, 0, 5));
    }
  }
  void Look(std::vector<std::string> names, int64_t zxid, bool linearizable = true) {
    Line list = List("/e");
    list.linearizable = linearizable;
    Do(2, list, Children(std::move(names), 5, zxid));
  }
  void Close(int64_t zxid) {
    Do(1, Call("close", ""), At(zxid));
    End(1, What::kClosed, 100);
  }
  std::string Check(std::vector<SteadyPeriod> periods = {}) {
    return Broken(CheckEphemerals(run(), periods));
  }
};

const SteadyPeriod kAlways{0, 1'000'000 * kMs};

TEST_CASE("Ephemerals: correct histories are accepted") {
  Ephemerals script;
  SECTION("a closed session's node is deleted for linearizable readers; others may be stale") {
    script.Look({"a"}, 5);
    script.Close(7);
    script.Look({"a"}, 6, false);
    script.Look({}, 7);
  }
  SECTION("a close that is under way") {
    const int64_t close = script.Invoke(1, Call("close", ""));
    script.Look({"a"}, 6);
    script.Look({}, 7);
    script.Ok(close, At(7));
  }
  SECTION("a close with an unknown outcome") {
    script.Unknown(script.Invoke(1, Call("close", "")));
    script.Look({}, 7);
  }
  SECTION("a session expires after its timeout") {
    script.Touch(20);
    script.End(1, What::kDisconnected, 100);
    script.Wait(4001);
    script.Look({}, 8);
    script.End(1, What::kExpired, 100);
  }
  SECTION("the node is deleted") {
    script.Do(1, Delete("/e/a"), At(6));
    script.Look({}, 7);
    script.Do(1, Get("/x"), Found("x", 2, 0, 8));
  }
  SECTION("the node of an abandoned session is deleted some time later") {
    script.End(1, What::kAbandoned, 100);
    script.Wait(8000);
    script.Look({"a"}, 7);
    script.Wait(1000);
    script.Look({}, 8);
  }
  SECTION("another session creates the node again, so that its owner is unknown") {
    script.Close(7);
    script.Do(2, Create("/e/a", "b"), Created("/e/a", 9));
    script.Look({"a"}, 9);
  }
  SECTION("a member does not have the node yet") { script.Look({}, 4, false); }
  CHECK(script.Check({kAlways}) == "");
}

TEST_CASE("Ephemerals: wrong histories are found") {
  Ephemerals script;
  std::string broken;
  SECTION("a node is deleted before the timeout of its session") {
    broken = kEarly;
    script.Touch(20);
    script.Look({}, 8);
  }
  SECTION("the client is told too early that the session has expired") {
    broken = kEarly;
    script.Touch(20);
    script.End(1, What::kExpired, 100);
  }
  SECTION("a node is deleted, and its session goes on") {
    broken = kLives;
    script.Look({}, 8);
    script.Wait(1);
    script.Do(1, Get("/x"), Found("x", 2, 0, 9));
  }
  SECTION("a node is deleted, and its session does a confirmed operation later") {
    broken = kLives;
    script.Look({}, 8);
    script.Do(1, Linearizable(Exists("/x")), {});
  }
  SECTION("a watch reports the deletion of a node, and its session goes on") {
    broken = kLives;
    script.Event(2, "/e/a", "deleted", 8);
    script.Do(1, Get("/x"), Found("x", 2, 0, 9));
  }
  SECTION("a node exists after its session was closed") {
    broken = kGone;
    script.Close(7);
    script.Look({"a"}, 8);
  }
  SECTION("a node exists at a zxid after the close") {
    broken = kGone;
    script.Close(7);
    script.Look({"a"}, 7, false);
  }
  SECTION("a node whose creation had an unknown outcome exists after the close") {
    broken = kGone;
    script.Unknown(script.Invoke(1, Create("/e/b", "b", "ephemeral")));
    script.Close(7);
    script.Look({"b"}, 8);
  }
  SECTION("a node exists after its session expired") {
    broken = kGone;
    script.Touch(20);
    script.Wait(5000);
    script.End(1, What::kExpired, 100);
    script.Look({"a"}, 8);
  }
  SECTION("a node belongs to another session") {
    broken = "an ephemeral node belongs to the session that made it";
    Line found = Changed(5, 0);
    found.stat->owner = 200;
    script.Do(2, Exists("/e/a"), found);
  }
  SECTION("the id of a session is used again") {
    broken = "a session id is used only once";
    script.Close(7);
    script.Connect(1, 100);
  }
  CHECK(script.Check() == broken);
}

TEST_CASE("Ephemerals: in a steady period, timeouts are exact") {
  Ephemerals script;
  SECTION("a session ends too early") {
    script.Touch(10);
    script.Wait(3990);
    script.Look({}, 8);
    CHECK(script.Check() == "");
    CHECK(Broken(CheckEphemerals(script.run(), {kAlways})) == kEarly);
    CHECK(Broken(CheckEphemerals(script.run(), {{0, 8000 * kMs}})) == "");
  }
  SECTION("a message may have reached the leader too late") {
    script.Touch(1, 3900);
    script.Wait(100);
    script.Look({}, 8);
    CHECK(Broken(CheckEphemerals(script.run(), {kAlways})) == "");
  }
  SECTION("a node of an abandoned session does not stay for ever") {
    script.End(1, What::kAbandoned, 100);
    script.Wait(14'000);
    script.Look({"a"}, 8);
    CHECK(script.Check() == "");
    CHECK(Broken(CheckEphemerals(script.run(), {kAlways})) == kGone);
    CHECK(Broken(CheckEphemerals(script.run(), {{5000 * kMs, 99'000 * kMs}})) == "");
  }
}

TEST_CASE("Ephemerals: abandoned sessions have to be checked") {
  Ephemerals script;
  script.End(1, What::kAbandoned, 100);
  script.Wait(9'000);
  script.Look({"a"}, 7);
  SteadyPeriod period = kAlways;
  int64_t checked = 0;
  bool is_decided = true;
  SECTION("the last list is too early") {
    period.from_ns = 200 * kMs;
    is_decided = false;
  }
  SECTION("the last list is too early for a session abandoned in the last steady period") {}
  SECTION("no list follows, long after a session was abandoned in the last steady period") {
    script.Wait(8'000);
    script.Do(2, Get("/x"), Found("x", 2, 0, 8));
    is_decided = false;
  }
  SECTION("a list is late enough") {
    script.Wait(2'000);
    script.Look({}, 8);
    checked = 1;
  }
  const Verdicts verdicts = CheckEphemerals(script.run(), {period});
  CHECK(Broken(verdicts) == "");
  CHECK(verdicts.counts().at("abandoned sessions") == 1);
  CHECK(verdicts.counts().at("abandoned sessions that were checked") == checked);
  CHECK(verdicts.undecided().empty() == is_decided);
}

}  // namespace
}  // namespace quorate::chaos
