// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/watch_check.h"

#include <catch2/catch.hpp>

#include "tests/chaos/checkers/script.h"

namespace quorate::chaos {
namespace {

constexpr char kBefore[] = "an event comes before any answer that is as new as its change";
constexpr char kOnce[] = "a watch fires once for a change, and only where it was set";
constexpr char kFirst[] = "a watch reports the first change after it was set";
constexpr char kEach[] = "a persistent watch reports each change, in order";

// Client 1 changes /w, which was created at zxid 1, at zxids 10, 20, 30; client 2 watches.
class Watches : public Script {
 public:
  explicit Watches(const std::string& frontend = "zookeeper") : Script("watch") {
    Connect(1, 100);
    Connect(2, 200, frontend);
    Do(1, Create("/w", "0"), Created("/w", 1));
  }
  void Watch(const std::string& kind, int64_t number, int64_t zxid, const std::string& path = "/w",
             bool is_there = true) {
    Line watch = Call("watch", path);
    watch.kind = kind;
    watch.watch = number;
    Line answer = At(zxid);
    answer.watch = number;
    if (is_there && zxid > 0) answer.stat = MakeStat(1, 1, 0);
    Do(2, watch, answer);
  }
  void Change() {
    ++version_;
    Do(1, Set("/w", std::to_string(version_)), Changed(10 * version_, version_));
  }
  void MakeItem(int64_t zxid) { Do(1, Create("/w/i", "x"), Created("/w/i", zxid)); }
  void MakeEphemeral(int64_t zxid) {
    Do(1, Create("/w/e", "x", "ephemeral"), Created("/w/e", zxid));
  }
  void Close(int64_t zxid) {
    Do(1, Call("close", ""), At(zxid));
    End(1, What::kClosed, 100);
  }
  void Answer(int64_t zxid) { Do(2, Get("/other"), Found("x", 1, 0, zxid)); }
  void Tell(int64_t zxid, int64_t watch = 1) { Event(2, "/w", "changed", zxid, watch); }
  // The client is told that its watch is set again, by an answer of this zxid.
  void Reset(int64_t watch, int64_t zxid) {
    Line line = At(zxid);
    line.path = "/w";
    line.watch = watch;
    Script::Tell(2, What::kWatchReset, std::move(line));
  }
  void Move() {
    End(2, What::kDisconnected, 200);
    Connect(2, 200);
  }
  std::string Check() { return Broken(CheckWatches(run())); }

 private:
  int32_t version_ = 0;
};

TEST_CASE("One-shot watches: correct histories are accepted") {
  Watches script;
  SECTION("the event of the first change comes before the answer") {
    script.Watch("data", 1, 5);
    script.Change();
    script.Change();
    script.Answer(9);
    script.Tell(10);
    script.Answer(20);
    script.Watch("data", 2, 20);
    script.Answer(20);
  }
  SECTION("the next member reports a change") {
    script.Watch("data", 1, 5);
    script.Move();
    script.Change();
    script.Tell(0);
    script.Answer(10);
  }
  SECTION("a watch reports the creation of a node") {
    script.Watch("exist", 1, 5, "/w/i", false);
    script.MakeItem(7);
    script.Event(2, "/w/i", "created", 7, 1);
    script.Answer(7);
  }
  SECTION("a node is created and deleted while the client is disconnected") {
    script.Watch("exist", 1, 5, "/w/i", false);
    script.End(2, What::kDisconnected, 200);
    script.MakeItem(7);
    script.Do(1, Delete("/w/i"), At(8));
    script.Connect(2, 200);
    script.Answer(8);
  }
  SECTION("a child watch ignores changes of the children's data") {
    script.Watch("children", 1, 5);
    script.Change();
    script.Answer(10);
    script.MakeItem(12);
    script.Event(2, "/w", "children", 12, 1);
    script.Answer(12);
  }
  SECTION("a node is deleted with its session") {
    script.MakeEphemeral(7);
    script.Watch("data", 1, 7, "/w/e");
    script.Close(9);
    script.Event(2, "/w/e", "deleted", 9, 1);
    script.Refused(script.Invoke(2, Get("/w/e")), "NoNode", 9);
  }
  SECTION("a node is deleted with its session at an unknown time") {
    script.MakeEphemeral(7);
    script.Watch("data", 1, 7, "/w/e");
    script.End(1, What::kAbandoned, 100);
    script.Answer(12);
    script.Event(2, "/w/e", "deleted", 30, 1);
    script.Refused(script.Invoke(2, Get("/w/e")), "NoNode", 30);
  }
  SECTION("a deletion has an unknown zxid") {
    script.MakeItem(7);
    script.Watch("data", 1, 7, "/w/i");
    script.Do(1, Delete("/w/i"), At(0));
    script.Event(2, "/w/i", "deleted", 9, 1);
    script.Change();
  }
  SECTION("watches end with their session") {
    script.Watch("data", 1, 5);
    script.End(2, What::kExpired, 200);
    script.Connect(2, 201);
    script.Change();
    script.Answer(10);
  }
  CHECK(script.Check() == "");
}

TEST_CASE("One-shot watches: wrong histories are found") {
  Watches script;
  script.Watch("data", 1, 5);
  std::string broken;
  SECTION("an event comes after its data") {
    broken = kBefore;
    script.Change();
    script.Answer(10);
    script.Tell(10);
  }
  SECTION("an event is lost while the client moves") {
    broken = kBefore;
    script.Move();
    script.Change();
    script.Answer(10);
  }
  SECTION("the change is known only from a read") {
    broken = kBefore;
    script.Unknown(script.Invoke(1, Set("/w", "z")));
    script.Do(2, Get("/w"), Found("z", 10, 1));
  }
  SECTION("a watch fires twice") {
    broken = kOnce;
    script.Change();
    script.Change();
    script.Tell(10);
    script.Tell(20);
  }
  SECTION("a watch fires for a node on which it was not set") {
    broken = kOnce;
    script.Change();
    script.Tell(10, 0);
  }
  SECTION("a watch fires for a node on which it was not set, after an unknown operation") {
    broken = kOnce;
    script.Unknown(script.Invoke(2, Set("/other", "x")));
    script.Change();
    script.Tell(10, 0);
  }
  SECTION("a deletion by the end of a session is not reported") {
    broken = kBefore;
    script.MakeEphemeral(7);
    script.Watch("data", 2, 7, "/w/e");
    script.Close(9);
    script.Answer(9);
  }
  SECTION("a deletion by the end of a session at an unknown zxid is not reported") {
    broken = kBefore;
    script.MakeEphemeral(7);
    script.Watch("data", 2, 7, "/w/e");
    script.End(1, What::kAbandoned, 100);
    script.Refused(script.Invoke(2, Get("/w/e")), "NoNode", 9);
  }
  SECTION("a node exists, and its creation was not reported") {
    broken = kBefore;
    script.Watch("exist", 2, 5, "/w/i", false);
    script.Move();
    script.Unknown(script.Invoke(1, Create("/w/i", "x")));
    script.Do(2, Exists("/w/i"), Created("", 8));
  }
  SECTION("a deletion is reported long before one with an unknown zxid") {
    broken = "an event reports a change that was made";
    script.MakeItem(7);
    script.Watch("data", 2, 7, "/w/i");
    script.Change();
    script.Tell(10);
    script.Event(2, "/w/i", "deleted", 9, 2);
    script.Do(1, Delete("/w/i"), At(0));
  }
  SECTION("a deletion is reported long after one with an unknown zxid") {
    broken = "an event reports a change that was made";
    script.MakeItem(7);
    script.Watch("data", 2, 7, "/w/i");
    script.Do(1, Delete("/w/i"), At(0));
    script.Change();
    script.Tell(10);
    script.Event(2, "/w/i", "deleted", 11, 2);
  }
  SECTION("a watch reports the second change") {
    broken = kFirst;
    script.Change();
    script.Change();
    script.Tell(20);
  }
  SECTION("a watch reports a change from before it was set") {
    broken = kFirst;
    script.Change();
    script.Tell(10);
    script.Watch("data", 2, 15);
    script.Tell(10, 2);
  }
  SECTION("a watch reports a change that was never made") {
    broken = "an event reports a change that was made";
    script.Tell(10);
  }
  SECTION("the creation of a child is not reported") {
    broken = kBefore;
    script.Watch("children", 2, 5);
    script.MakeItem(7);
    script.Answer(7);
  }
  CHECK(script.Check() == broken);
}

TEST_CASE("Persistent watches: correct histories are accepted") {
  SECTION("each change is reported in order, on the ZooKeeper front end only while connected") {
    Watches script;
    script.Watch("persistent", 1, 5);
    script.Change();
    script.Tell(10);
    script.Answer(10);
    script.End(2, What::kDisconnected, 200);
    script.Change();
    script.Connect(2, 200);
    script.Answer(20);
    script.Change();
    script.Tell(30);
    script.MakeItem(35);
    script.Event(2, "/w", "children", 35, 1);
    script.Answer(35);
    CHECK(script.Check() == "");
  }
  SECTION("what came before a refused write was answered need not come again") {
    Watches script;
    script.Watch("persistent", 1, 5);
    script.Answer(7);
    script.Change();
    script.Tell(10);
    // The client names the zxid of this answer, which the history does not have.
    script.Refused(script.Invoke(2, Set("/other", "x")), "SystemError");
    script.Move();
    if (GENERATE(true, false)) script.Move();
    script.Change();
    if (GENERATE(true, false)) script.Tell(10);
    const bool is_lost = GENERATE(true, false);
    if (!is_lost) script.Tell(20);
    script.Reset(1, 25);
    script.Change();
    script.Tell(30);
    script.Answer(30);
    const Verdicts verdicts = CheckWatches(script.run());
    CHECK(Broken(verdicts) == "");
    CHECK(verdicts.counts().count("reconnects after which events were missing") ==
          (is_lost ? 1u : 0u));
  }
  SECTION("after a reconnect the events after the last answer come, those that had come again") {
    Watches script;
    script.Watch("persistent", 1, 5);
    script.Answer(7);
    script.Change();
    script.Tell(10);
    script.Move();
    script.Change();
    script.Tell(10);
    script.Tell(20);
    script.Reset(1, 25);
    script.Change();
    script.Tell(30);
    script.Answer(30);
    const Verdicts verdicts = CheckWatches(script.run());
    CHECK(Broken(verdicts) == "");
    CHECK(verdicts.counts().at("reconnects with lasting watches") == 1);
    CHECK(verdicts.counts().count("reconnects after which events were missing") == 0);
  }
  SECTION("missing events are counted after a reconnect, once for each") {
    Watches script;
    script.Watch("persistent", 1, 5);
    script.Move();
    for (int i = 0; i < 4; ++i) script.Change();
    if (GENERATE(true, false)) script.Tell(20);
    script.Reset(1, 45);
    script.Change();
    script.Tell(50);
    script.Answer(50);
    const Verdicts verdicts = CheckWatches(script.run());
    CHECK(Broken(verdicts) == "");
    CHECK(verdicts.counts().at("reconnects after which events were missing") == 1);
  }
  SECTION("a front end whose events have no zxids") {
    Watches script;
    script.Watch("persistent", 1, 5);
    script.Change();
    script.Change();
    script.Tell(0);
    script.Answer(10);
    script.Tell(0);
    script.Answer(20);
    CHECK(script.Check() == "");
  }
  SECTION("a recursive watch on the native front end, whose first zxid is unknown") {
    Watches script("native");
    script.Watch("recursive", 1, 0);
    script.Change();
    script.Tell(10);
    script.Move();
    script.MakeItem(12);
    script.Event(2, "/w/i", "created", 12, 1);
    script.Answer(15);
    CHECK(script.Check() == "");
  }
  SECTION("the front end reports that it has lost events") {
    Watches script("native");
    script.Watch("persistent", 1, 0);
    script.Answer(5);
    script.Change();
    Line reset = At(15);
    reset.watch = 1;
    script.Script::Tell(2, What::kWatchReset, reset);
    script.Change();
    script.Tell(20);
    script.Answer(20);
    CHECK(script.Check() == "");
  }
}

TEST_CASE("Persistent watches: wrong histories are found") {
  Watches script("native");
  script.Watch("persistent", 1, 0);
  script.Answer(5);
  script.Change();
  std::string broken;
  SECTION("a change is not reported, but the next one is") {
    broken = kEach;
    script.Change();
    script.Tell(20);
  }
  SECTION("a change is not reported, and an answer shows it") {
    broken = kBefore;
    script.Answer(10);
  }
  SECTION("a change is lost while the client moves") {
    broken = kBefore;
    script.Move();
    script.Answer(12);
  }
  SECTION("one of two events without zxids is lost") {
    broken = kBefore;
    script.Tell(0);
    script.Change();
    script.Answer(20);
  }
  SECTION("a change is reported twice") {
    broken = kOnce;
    script.Tell(10);
    script.Tell(10);
  }
  SECTION("changes are reported out of order") {
    broken = std::string(kEach);
    script.Change();
    script.Tell(10);
    script.Change();
    script.Tell(20);
    script.Tell(10);
  }
  SECTION("a node does not exist, and no event has reported its deletion") {
    broken = kBefore;
    script.Tell(10);
    script.Do(2, Exists("/w"), Found("", 10, 1, 10));
    script.Refused(script.Invoke(2, Get("/w")), "NoNode", 11);
  }
  SECTION("a node exists again, and no event has reported its creation") {
    broken = kBefore;
    script.Tell(10);
    script.Do(1, Delete("/w"), At(11));
    script.Event(2, "/w", "deleted", 11, 1);
    script.Unknown(script.Invoke(1, Create("/w", "0")));
    script.Do(2, Get("/w"), Found("0", 13, 0, 14));
  }
  SECTION("an event comes after its data") {
    broken = kBefore;
    script.Tell(10);
    script.Change();
    script.Answer(20);
    script.Tell(20);
  }
  CHECK(script.Check() == broken);
}

}  // namespace
}  // namespace quorate::chaos
