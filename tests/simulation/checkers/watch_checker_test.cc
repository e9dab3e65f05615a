// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/checkers/watch_checker.h"

#include "tests/simulation/checkers/checker_test_util.h"

namespace quorate::simulation {
namespace {

using tree::ErrorCode;
using tree::EventType;

// A node /a that one session changes and another watches.
class Watching : public Script {
 public:
  Watching() {
    LogNoOp();
    LogSession(1);
    LogSession(2);
    writer = Open(1);
    link = Open(2, 1);
    created = Change(MakeCreate("/a", "x"));
  }
  int64_t Change(const Request& request) {
    Ask(writer, request);
    return LogRequest(writer, request);
  }
  void Read(OperationKind kind, const std::string& path, bool watch = true) {
    const OperationId read = Ask(link, MakeRead(kind, path, watch));
    Answer(read, replay.model().Read(history.operation(read).request, replay.model().last_zxid()));
  }
  std::string Hear(EventType type, const std::string& path, int64_t zxid) {
    return Broken([&] { history.Event(link, {zxid, type, path}); });
  }
  // Moves to another server, and renews the watches of `request`.
  OperationId Renew(std::vector<std::string> data, std::vector<std::string> exist,
                    std::vector<std::string> child, int64_t since) {
    history.CloseLink(link);
    link = Open(2, 1, since);
    Request request;
    request.kind = OperationKind::kSetWatches;
    request.relative_zxid = since;
    request.data_watches = std::move(data);
    request.exist_watches = std::move(exist);
    request.child_watches = std::move(child);
    return Ask(link, request);
  }

  ReplayChecker replay{&history};
  WatchChecker checker{&history, &replay.model()};
  LinkId writer = 0;
  LinkId link = 0;
  int64_t created = 0;
};

TEST_CASE("A watch fires once, with the first change") {
  Watching script;
  script.Read(OperationKind::kGetData, "/a");
  script.Read(OperationKind::kExists, "/b");
  script.Read(OperationKind::kGetChildren, "/");
  CHECK(script.checker.set_count() == 3);
  const int64_t changed = script.Change(MakeSetData("/a", "y"));
  const int64_t made = script.Change(MakeCreate("/b", ""));
  CHECK(script.Hear(EventType::kNodeDataChanged, "/a", changed) == "");
  CHECK(script.Hear(EventType::kNodeCreated, "/b", made) == "");
  CHECK(script.Hear(EventType::kNodeChildrenChanged, "/", made) == "");
  CHECK(script.checker.set_count() == 0);
  // No session watches the node any more.
  script.Change(MakeSetData("/a", "z"));
  script.Read(OperationKind::kGetData, "/a", false);
  CHECK(script.Hear(EventType::kNodeDataChanged, "/a", changed) ==
        "a watch fires once, and only where it was set");
}

TEST_CASE("A deletion fires both kinds of watches once") {
  Watching script;
  script.Read(OperationKind::kGetData, "/a");
  script.Read(OperationKind::kGetChildren, "/a");
  const int64_t deleted = script.Change(MakeDelete("/a"));
  CHECK(script.Hear(EventType::kNodeDeleted, "/a", deleted) == "");
  CHECK(script.Hear(EventType::kNodeDeleted, "/a", deleted) ==
        "a watch fires once, and only where it was set");
}

TEST_CASE("Wrong events are found") {
  Watching script;
  script.Read(OperationKind::kGetData, "/a");
  SECTION("nothing happened") {
    CHECK(script.Hear(EventType::kNodeDataChanged, "/a", script.created) ==
          "a watch reports the first change since it was set");
  }
  SECTION("not the first change") {
    script.Change(MakeSetData("/a", "y"));
    const int64_t second = script.Change(MakeSetData("/a", "z"));
    CHECK(script.Hear(EventType::kNodeDataChanged, "/a", second) ==
          "a watch reports the first change since it was set");
  }
  SECTION("another type") {
    const int64_t changed = script.Change(MakeSetData("/a", "y"));
    CHECK(script.Hear(EventType::kNodeDeleted, "/a", changed) ==
          "a watch reports the first change since it was set");
  }
  SECTION("of the parent, which is not watched") {
    const int64_t made = script.Change(MakeCreate("/b", ""));
    CHECK(script.Hear(EventType::kNodeChildrenChanged, "/", made) ==
          "a watch fires once, and only where it was set");
  }
  SECTION("for a watch that was not set because the read failed") {
    const OperationId read =
        script.Ask(script.link, MakeRead(OperationKind::kGetData, "/none", true));
    script.Answer(read, script.created, ErrorCode::kNoNode);
    const int64_t made = script.Change(MakeCreate("/none", ""));
    CHECK(script.Hear(EventType::kNodeCreated, "/none", made) ==
          "a watch fires once, and only where it was set");
  }
}

TEST_CASE("An event that is late or lost is found by the next reply") {
  Watching script;
  script.Read(OperationKind::kGetData, "/a");
  const int64_t changed = script.Change(MakeSetData("/a", "y"));
  SECTION("a reply that does not show the change is accepted") {
    script.history.Pong(script.link, changed - 1);
  }
  SECTION("to a request") {
    CHECK(Broken([&] { script.Read(OperationKind::kExists, "/other", false); }) ==
          "an event comes before any reply that shows its change");
  }
  SECTION("to a ping") {
    CHECK(Broken([&] { script.history.Pong(script.link, changed); }) ==
          "an event comes before any reply that shows its change");
  }
}

TEST_CASE("Watches are renewed on another server") {
  Watching script;
  script.Read(OperationKind::kGetData, "/a");
  script.Read(OperationKind::kExists, "/b");
  script.Read(OperationKind::kGetChildren, "/a");
  const int64_t since = script.created;

  SECTION("nothing was missed") {
    const OperationId renewed = script.Renew({"/a"}, {"/b"}, {"/a"}, since);
    script.Answer(renewed, since);
    const int64_t changed = script.Change(MakeSetData("/a", "y"));
    CHECK(script.Hear(EventType::kNodeDataChanged, "/a", changed) == "");
    CHECK(script.checker.set_count() == 2);
  }
  SECTION("a missed change is reported") {
    const int64_t made = script.Change(MakeCreate("/b", ""));
    const OperationId renewed = script.Renew({"/a"}, {"/b"}, {"/a"}, since);
    CHECK(script.Hear(EventType::kNodeCreated, "/b", -1) == "");
    script.Answer(renewed, made);
    CHECK(script.checker.set_count() == 2);
  }
  SECTION("a missed change is not reported") {
    const int64_t changed = script.Change(MakeSetData("/a", "y"));
    const OperationId renewed = script.Renew({"/a"}, {"/b"}, {"/a"}, since);
    CHECK(Broken([&] { script.Answer(renewed, changed); }) ==
          "setWatches reports the missed changes");
  }
  SECTION("a change is reported that did not happen") {
    const OperationId renewed = script.Renew({"/a"}, {"/b"}, {"/a"}, since);
    CHECK(script.Hear(EventType::kNodeDataChanged, "/a", -1) == "");
    CHECK(Broken([&] { script.Answer(renewed, since); }) ==
          "setWatches reports the missed changes");
  }
  SECTION("an event without a zxid when nothing is renewed") {
    CHECK(script.Hear(EventType::kNodeDataChanged, "/a", -1) ==
          "a watch fires once, and only where it was set");
  }
  SECTION("a change reported before the connection broke is not reported again") {
    script.Change(MakeDelete("/a"));
    script.Renew({"/a"}, {"/b"}, {"/a"}, since);
    CHECK(script.Hear(EventType::kNodeDeleted, "/a", -1) == "");
    const OperationId renewed = script.Renew({}, {"/b"}, {}, since);
    script.Answer(renewed, script.replay.model().last_zxid());
    CHECK(script.checker.set_count() == 1);
  }
  SECTION("a simulated client that forgets a watch is found") {
    CHECK(Broken([&] { script.Renew({"/a"}, {}, {"/a"}, since); }) ==
          "the simulated client renews the watches that it has");
  }
}

}  // namespace
}  // namespace quorate::simulation
