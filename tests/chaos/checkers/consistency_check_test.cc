// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/consistency_check.h"

#include <catch2/catch.hpp>

#include "tests/chaos/checkers/script.h"

namespace quorate::chaos {
namespace {

constexpr char kTime[] = "a session does not see time go back";
constexpr char kOneHistory[] = "all see the same history";
constexpr char kWriteTime[] = "a write comes after everything that had been seen when it began";
constexpr char kReadTime[] = "a linearizable read sees everything that had been seen before";
constexpr char kComplete[] = "an answer shows all changes up to its zxid";
constexpr char kPresence[] = "a created node that no client tried to delete exists";

class Sessions : public Script {
 public:
  Sessions() {
    Connect(1, 100);
    Connect(2, 200);
    Do(1, Create("/r", "i"), Created("/r", 1));
  }
  void Move(int32_t client) {
    End(client, What::kDisconnected, client * 100);
    Connect(client, client * 100);
  }
  std::string Check() { return Broken(CheckConsistency(run())); }
};

TEST_CASE("Consistency: correct histories are accepted") {
  Sessions script;
  SECTION("one session is behind another one") {
    script.Do(1, Set("/r", "a"), Changed(2, 1));
    script.Do(1, Get("/r"), Found("a", 2, 1, 5));
    script.Do(2, Get("/r"), Found("i", 1, 0));
    script.Move(2);
    script.Do(2, Get("/r"), Found("a", 2, 1, 3));
    script.Do(2, Linearizable(Get("/r")), Found("a", 2, 1, 5));
  }
  SECTION("a node is created again") {
    script.Do(1, Create("/d", "a"), Created("/d", 2));
    script.Do(1, Delete("/d"), At(3));
    script.Do(1, Create("/d", "b"), Created("/d", 4));
    script.Refused(script.Invoke(2, Get("/d")), "NoNode");
  }
  SECTION("a new session of a client may be behind the old one") {
    script.Do(1, Set("/r", "a"), Changed(2, 1));
    script.End(1, What::kExpired, 100);
    script.Connect(1, 101);
    script.Do(1, Get("/r"), Found("i", 1, 0));
  }
  SECTION("an unknown write before what its session does next") {
    script.Unknown(script.Invoke(1, Set("/r", "a")));
    script.Move(1);
    script.Do(1, Set("/r", "b"), Changed(3, 2));
    script.Do(2, Get("/r"), Found("a", 2, 1));
  }
  SECTION("a member that is behind does not have the node yet") {
    script.Do(1, Create("/n", "a"), Created("/n", 2));
    script.Refused(script.Invoke(2, Get("/n")), "NoNode", 1);
  }
  SECTION("an answer to a request sent before an event, or on another connection") {
    const int64_t get = script.Invoke(2, Get("/r"));
    script.Event(2, "/r", "changed", 8);
    script.Ok(get, Found("i", 1, 0, 7));
    script.Move(2);
    script.Do(2, Get("/r"), Found("i", 1, 0, 7));
    script.Event(2, "/r", "changed", 8);
    script.Do(2, Get("/r"), Found("b", 8, 1, 8));
  }
  SECTION("the same children in another order") {
    script.Do(1, List("/"), Children({"a", "b"}, 5));
    script.Do(2, List("/"), Children({"b", "a"}, 5));
  }
  SECTION("a read that the native client sends again sees the write that it sent after it") {
    script.Connect(3, 300, "native");
    const int64_t get = script.Invoke(3, Get("/r"));
    const int64_t set = script.Invoke(3, Set("/r", "a"));
    script.Do(1, Set("/r", "b"), Changed(3, 2));
    script.Ok(get, Found("b", 3, 2));
    script.Ok(set, Changed(2, 1));
    script.Do(3, Get("/r"), Found("b", 3, 2));
  }
  CHECK(script.Check() == "");
}

TEST_CASE("Consistency: wrong histories are found") {
  Sessions script;
  std::string broken;
  SECTION("a read goes back in time after moving to another member") {
    broken = std::string(kTime) + "; " + kComplete;
    script.Do(1, Set("/r", "a"), Changed(2, 1));
    script.Do(2, Get("/r"), Found("a", 2, 1));
    script.Move(2);
    script.Do(2, Get("/r"), Found("i", 1, 0, 2));
  }
  SECTION("only the zxid goes back") {
    broken = kTime;
    script.Do(2, Get("/r"), Found("i", 1, 0, 7));
    script.Move(2);
    script.Do(2, Get("/r"), Found("i", 1, 0, 6));
  }
  SECTION("a write is older than a request sent before it on the same connection") {
    broken = kTime;
    const int64_t get = script.Invoke(2, Get("/r"));
    const int64_t set = script.Invoke(2, Set("/r", "a"));
    script.Do(1, Set("/r", "b"), Changed(3, 2));
    script.Ok(get, Found("b", 3, 2));
    script.Ok(set, Changed(2, 1));
  }
  SECTION("a write of the native client is older than an answer received before it") {
    broken = std::string(kTime) + "; " + kWriteTime;
    script.Connect(3, 300, "native");
    script.Do(1, Set("/r", "b"), Changed(3, 2));
    script.Do(3, Get("/r"), Found("b", 3, 2));
    script.Do(3, Set("/r", "a"), Changed(2, 1));
  }
  SECTION("a session does not see its own write") {
    broken = std::string(kTime) + "; " + kComplete;
    script.Do(1, Set("/r", "a"), Changed(2, 1));
    script.Move(1);
    script.Do(1, Get("/r"), Found("i", 1, 0, 2));
  }
  SECTION("two members differ about one change") {
    broken = kOneHistory;
    script.Do(1, Get("/r"), Found("a", 2, 1));
    script.Do(2, Get("/r"), Found("b", 2, 1));
  }
  SECTION("two members differ about one version") {
    broken = kOneHistory;
    script.Do(1, Get("/r"), Found("a", 2, 1));
    script.Do(2, Get("/r"), Found("a", 3, 1));
  }
  SECTION("two members differ about the children") {
    broken = kOneHistory;
    script.Do(1, List("/"), Children({"a", "b"}, 5));
    script.Do(2, List("/"), Children({"a"}, 5));
  }
  SECTION("an answer does not show a change up to its zxid") {
    broken = kComplete;
    script.Do(1, Get("/r"), Found("a", 3, 1));
    script.Do(2, Get("/r"), Found("i", 1, 0, 3));
  }
  SECTION("an answer is older than an event before it") {
    broken = "an answer is as new as the events that came before its request";
    script.Event(2, "/r", "changed", 8);
    script.Do(2, Get("/r"), Found("i", 1, 0, 7));
  }
  SECTION("a refusal is older than an event before it") {
    broken = "an answer is as new as the events that came before its request";
    script.Event(2, "/n", "created", 8);
    script.Refused(script.Invoke(2, Get("/n")), "NoNode", 7);
  }
  SECTION("two writes have the same zxid") {
    broken = "each write has a zxid of its own";
    const int64_t first = script.Invoke(1, Create("/a", "a"));
    const int64_t second = script.Invoke(2, Create("/b", "b"));
    script.Ok(first, Created("/a", 5));
    script.Ok(second, Created("/b", 5));
  }
  SECTION("a write is older than a state that was seen before it began") {
    broken = std::string(kWriteTime) + "; " + kComplete;
    script.Do(1, Get("/r"), Found("i", 1, 0, 7));
    script.Do(2, Set("/r", "a"), Changed(6, 1));
  }
  SECTION("a linearizable read of another node is stale") {
    broken = kReadTime;
    script.Do(1, Create("/a", "a"), Created("/a", 5));
    script.Do(2, Linearizable(Get("/r")), Found("i", 1, 0, 4));
  }
  SECTION("a linearizable read is older than an event that was seen before") {
    broken = kReadTime;
    script.Event(1, "/r", "changed", 8);
    script.Do(2, Linearizable(Get("/r")), Found("i", 1, 0, 4));
  }
  SECTION("an unknown write takes effect behind a later write of its session") {
    broken = "the operations of a session take effect in their order";
    script.Unknown(script.Invoke(1, Set("/r", "a")));
    script.Move(1);
    script.Do(1, Create("/n", "b"), Created("/n", 2));
    script.Do(2, Get("/r"), Found("a", 3, 1));
  }
  SECTION("an unknown write takes effect behind a later read of its session") {
    broken = "the operations of a session take effect in their order";
    script.Unknown(script.Invoke(1, Set("/r", "a")));
    script.Move(1);
    script.Do(1, Get("/r"), Found("i", 1, 0, 2));
    script.Do(2, Get("/r"), Found("a", 3, 1));
  }
  SECTION("an unknown write takes effect before it began") {
    broken = std::string(kWriteTime) + "; " + kComplete;
    script.Do(2, Get("/r"), Found("i", 1, 0, 7));
    script.Unknown(script.Invoke(1, Set("/r", "a")));
    script.Do(1, Get("/r"), Found("a", 6, 1));
  }
  SECTION("a node is missing for a linearizable reader") {
    broken = kPresence;
    script.Refused(script.Invoke(2, Linearizable(Get("/r"))), "NoNode");
  }
  SECTION("a node created by a multi is missing") {
    broken = kPresence;
    Line multi = Call("multi", "");
    multi.steps = {{"create", "/m", "m", -1, "persistent"}};
    Line answer = At(3);
    answer.results = {{"/m", "", MakeStat(3, 3, 0), ""}};
    script.Do(1, multi, answer);
    script.Refused(script.Invoke(2, Get("/m")), "NoNode", 5);
  }
  SECTION("a node is missing for the session that created it") {
    broken = kPresence;
    script.Move(1);
    script.Do(1, Exists("/r"), {});
  }
  SECTION("a node is missing at a member that had it") {
    broken = kPresence;
    script.Refused(script.Invoke(2, Get("/r")), "NoNode", 5);
  }
  CHECK(script.Check() == broken);
}

TEST_CASE("Consistency: an invalid history is refused with file and line") {
  Script script;
  script.Connect(1, 100);
  script.Ok(script.Invoke(1, Get("/r")));
  std::string wrong;
  SECTION("an operation is answered twice") {
    script.Ok(1);
    wrong = ":4: operation 1 is answered and not under way";
  }
  SECTION("a function does not exist") {
    script.Invoke(1, Call("fetch", "/r"));
    wrong = ":4: unknown function: fetch";
  }
  Run run;
  CHECK(run.AddFile(script.path()).message() == script.path() + wrong);
}

}  // namespace
}  // namespace quorate::chaos
