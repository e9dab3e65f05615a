// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/checkers/replay_checker.h"

#include <memory>

#include "tests/simulation/checkers/checker_test_util.h"
#include "tests/simulation/checkers/real_time_checker.h"

namespace quorate::simulation {
namespace {

using tree::ErrorCode;

class Replay : public Script {
 public:
  Replay() {
    LogNoOp();
    attach_zxid = LogSession(1);
    link = Open(1);
  }
  // A write that enters the log and gets the correct answer.
  int64_t Write(const Request& request) {
    const OperationId operation = Ask(link, request);
    const int64_t zxid = LogRequest(link, request);
    const Model::Node* node = checker.model().Find(request.steps[0].path, zxid);
    AnswerStep(operation, zxid, request.kind == OperationKind::kCreate ? request.steps[0].path : "",
               node->stat);
    return zxid;
  }

  ReplayChecker checker{&history};
  RealTimeChecker real_time{&history, &checker};
  int64_t attach_zxid = 0;
  LinkId link = 0;
};

TEST_CASE("Replies that agree with the log are accepted") {
  Replay script;
  const int64_t created = script.Write(MakeCreate("/a", "x"));
  const OperationId read = script.Ask(script.link, MakeRead(OperationKind::kGetData, "/a"));
  script.AnswerData(read, created, "x", script.checker.model().Find("/a", created)->stat);
  const int64_t changed = script.Write(MakeSetData("/a", "y", 0));
  // A member that is behind shows an older tree, to another session.
  const int64_t other_session = script.LogSession(2);
  const LinkId other = script.Open(2, 1);
  const OperationId old_read = script.Ask(other, MakeRead(OperationKind::kGetData, "/a"));
  const tree::Stat stat = script.checker.model().Find("/a", other_session)->stat;
  CHECK(stat.version == 1);
  script.AnswerData(old_read, other_session, "y", stat);
  const OperationId refused = script.Ask(script.link, MakeSetData("/a", "z", 0));
  script.LogRequest(script.link, MakeSetData("/a", "z", 0));
  script.Answer(refused, changed + 2, ErrorCode::kBadVersion);
  // A command that a server sends again counts once.
  script.LogAgain();
  CHECK(script.checker.LogZxid(refused) == changed + 2);
}

TEST_CASE("Replies that disagree with the log are found") {
  Replay script;
  const int64_t created = script.Write(MakeCreate("/a", "x"));
  const tree::Stat stat = script.checker.model().Find("/a", created)->stat;

  SECTION("data") {
    const OperationId read = script.Ask(script.link, MakeRead(OperationKind::kGetData, "/a"));
    CHECK(Broken([&] { script.AnswerData(read, created, "y", stat); }) ==
          "a read shows the tree of its zxid");
  }
  SECTION("stat") {
    tree::Stat wrong = stat;
    ++wrong.cversion;
    const OperationId read = script.Ask(script.link, MakeRead(OperationKind::kGetData, "/a"));
    CHECK(Broken([&] { script.AnswerData(read, created, "x", wrong); }) ==
          "a read shows the tree of its zxid");
  }
  SECTION("children") {
    Request request = MakeRead(OperationKind::kGetChildren, "/");
    request.wants_stat = false;
    Reply reply;
    reply.zxid = created;
    reply.children = {"zookeeper"};
    const OperationId read = script.Ask(script.link, request);
    CHECK(Broken([&] { script.Answer(read, reply); }) == "a read shows the tree of its zxid");
  }
  SECTION("error") {
    const OperationId read = script.Ask(script.link, MakeRead(OperationKind::kExists, "/a"));
    CHECK(Broken([&] { script.Answer(read, created, ErrorCode::kNoNode); }) ==
          "a read shows the tree of its zxid");
  }
  SECTION("the result of a write") {
    const OperationId write = script.Ask(script.link, MakeSetData("/a", "y", 7));
    const int64_t zxid = script.LogRequest(script.link, MakeSetData("/a", "y", 7));
    CHECK(Broken([&] { script.AnswerStep(write, zxid, "", stat); }) ==
          "a write is answered with its result");
  }
  SECTION("a zxid of the future") {
    const OperationId read = script.Ask(script.link, MakeRead(OperationKind::kExists, "/b"));
    CHECK(Broken([&] { script.Answer(read, created + 1, ErrorCode::kNoNode); }) ==
          "servers show only what is committed");
  }
  SECTION("an answer before the write is applied") {
    const OperationId write = script.Ask(script.link, MakeDelete("/a"));
    const int64_t zxid = script.LogRequest(script.link, MakeDelete("/a"));
    CHECK(Broken([&] { script.Answer(write, zxid - 1); }) ==
          "a write is answered after it is applied");
  }
}

TEST_CASE("Each write is in the log once and in its order") {
  Replay script;
  const Request first = MakeCreate("/a", "x");
  const Request second = MakeDelete("/b");
  const OperationId operation = script.Ask(script.link, first);
  script.Ask(script.link, second);

  SECTION("not at all") {
    CHECK(Broken([&] { script.AnswerStep(operation, 2, "/a", MakeStat(3, 3, 0)); }) ==
          "an answered write is in the log");
  }
  SECTION("twice") {
    script.LogRequest(script.link, first);
    CHECK(Broken([&] { script.LogRequest(script.link, first); }) == "no write is applied twice");
  }
  SECTION("out of order") {
    CHECK(Broken([&] { script.LogRequest(script.link, second); }) ==
          "writes enter the log in their order");
  }
  SECTION("changed") {
    CHECK(Broken([&] { script.LogRequest(script.link, MakeCreate("/a", "y")); }) ==
          "writes enter the log in their order");
  }
  SECTION("more writes than were sent") {
    script.LogRequest(script.link, first);
    script.LogRequest(script.link, second);
    CHECK(Broken([&] { script.LogRequest(script.link, MakeDelete("/c")); }) ==
          "writes enter the log in their order");
  }
  SECTION("of a link that does not exist") {
    Script other;
    other.LogSession(1);
    CHECK(Broken([&] { script.LogRequest(other.Open(1) + script.link, first); }).empty());
    CHECK(Broken([&] { script.LogRequest(script.Open(9, 5), first); }) != "");
  }
  SECTION("by two attachments") {
    script.LogRequest(script.link, first);
    script.LogSession(1, /*attach=*/true);
    CHECK(Broken([&] { script.LogRequest(script.link, second); }) ==
          "all requests of a connection belong to one attachment");
  }
  SECTION("a write is answered although the session had moved") {
    script.LogSession(1, /*attach=*/true);
    const int64_t zxid = script.LogRequest(script.link, first, script.attach_zxid);
    CHECK(Broken([&] { script.AnswerStep(operation, zxid, "/a", MakeStat(zxid, zxid, 0)); }) ==
          "a request of an outdated attachment is not answered");
  }
}

TEST_CASE("A write that adds data may be refused while disks are full") {
  Replay script;
  const Request create = MakeCreate("/a", "x");
  const Request removal = MakeDelete("/b");
  const std::string invariant = "writes are refused only while disks are full";

  SECTION("a refusal before the disks are full is found") {
    const OperationId early = script.Ask(script.link, create);
    CHECK(Broken([&] { script.Answer(early, 2, ErrorCode::kSystemError); }) == invariant);
  }
  SECTION("a refusal after the disks were full is found") {
    script.environment.SetMightRefuse(true);
    script.Wait(1000);
    script.environment.SetMightRefuse(false);
    const OperationId late = script.Ask(script.link, create);
    CHECK(Broken([&] { script.Answer(late, 2, ErrorCode::kSystemError); }) == invariant);
  }
  SECTION("a refusal is allowed if the disks were full while the write was under way") {
    const OperationId refused = script.Ask(script.link, create);
    script.environment.SetMightRefuse(true);
    script.Wait(1000);
    script.environment.SetMightRefuse(false);
    script.Answer(refused, 2, ErrorCode::kSystemError);
    CHECK(Broken([&] { script.LogRequest(script.link, create); }) ==
          "writes enter the log in their order");
  }
  SECTION("later writes may be in the log before the refusal is received") {
    script.environment.SetMightRefuse(true);
    const OperationId refused = script.Ask(script.link, create);
    const OperationId logged = script.Ask(script.link, removal);
    const int64_t zxid = script.LogRequest(script.link, removal);
    script.Answer(refused, 2, ErrorCode::kSystemError);
    script.Answer(logged, zxid, ErrorCode::kNoNode);
  }
  SECTION("an answered write that was skipped in the log is found") {
    script.environment.SetMightRefuse(true);
    const OperationId refused = script.Ask(script.link, create);
    script.Ask(script.link, removal);
    script.LogRequest(script.link, removal);
    CHECK(Broken([&] { script.AnswerStep(refused, 3, "/a", MakeStat(3, 3, 0)); }) ==
          "an answered write is in the log");
  }
  SECTION("the refusal of a write that adds no data is found") {
    script.environment.SetMightRefuse(true);
    const OperationId refused = script.Ask(script.link, removal);
    const Request next = MakeDelete("/c");
    script.Ask(script.link, next);
    CHECK(Broken([&] { script.LogRequest(script.link, next); }) ==
          "writes enter the log in their order");
    CHECK(Broken([&] { script.Answer(refused, 2, ErrorCode::kSystemError); }) ==
          "an answered write is in the log");
  }
}

TEST_CASE("A read has its place between the writes of its connection") {
  Replay script;
  const Request write = MakeCreate("/a", "x");
  const OperationId before = script.Ask(script.link, write);
  const OperationId read = script.Ask(script.link, MakeRead(OperationKind::kExists, "/b"));
  const OperationId after = script.Ask(script.link, MakeDelete("/a"));
  (void)before, (void)after;

  SECTION("before the write before it") {
    CHECK(Broken([&] { script.Answer(read, 2, ErrorCode::kNoNode); }) ==
          "a read sees the writes before it on its connection");
  }
  SECTION("after the write after it") {
    script.LogRequest(script.link, write);
    const int64_t deleted = script.LogRequest(script.link, MakeDelete("/a"));
    CHECK(Broken([&] { script.Answer(read, deleted, ErrorCode::kNoNode); }) ==
          "a read does not see the writes after it on its connection");
  }
  SECTION("where it belongs") {
    const int64_t created = script.LogRequest(script.link, write);
    script.LogRequest(script.link, MakeDelete("/a"));
    script.Answer(read, created, ErrorCode::kNoNode);
  }
}

TEST_CASE("Sessions are what the log says") {
  Replay script;
  SECTION("a living session is refused") {
    CHECK(Broken([&] { script.history.RefuseSession(0, 1); }) == "a living session is not refused");
    script.LogEnd(1, /*expire=*/true);
    script.history.RefuseSession(0, 1);
  }
  SECTION("a session that does not exist is accepted") {
    CHECK(Broken([&] { script.Open(7); }) == "an accepted session is in the log");
  }
  SECTION("an id is given twice") {
    Link link;
    link.client = 1;
    link.session = 1;
    link.new_session = true;
    CHECK(Broken([&] { script.history.OpenLink(link); }) == "session ids are unique");
  }
  SECTION("a session is closed without a request of its client") {
    CHECK(Broken([&] { script.LogEnd(1, /*expire=*/false); }) ==
          "a session is closed by its client only");
  }
  SECTION("a session is closed by its client") {
    const OperationId close = script.Ask(script.link, MakeCloseSession());
    script.Answer(close, script.LogEnd(1, /*expire=*/false));
  }
}

TEST_CASE("A sync or write comes after everything that was seen before it began") {
  Replay script;
  const OperationId write = script.Ask(script.link, MakeCreate("/a", "x"));
  const OperationId sync = script.Ask(script.link, MakeSync("/"));
  const int64_t other_session = script.LogSession(2);
  const LinkId other = script.Open(2, 1);

  SECTION("sync") {
    script.history.Pong(other, other_session);
    const OperationId late_sync = script.Ask(other, MakeSync("/"));
    Reply reply;
    reply.path = "/";
    reply.zxid = other_session - 1;
    CHECK(Broken([&] { script.Answer(late_sync, reply); }) ==
          "a sync shows everything that was seen before it began");
    // A sync that began before need not show it.
    script.Answer(sync, reply);
  }
  SECTION("write") {
    // A client sees a zxid that is assigned only later: the log was truncated and grew again.
    script.real_time.OnPong(script.history.link(other), other_session + 5);
    script.LogRequest(script.link, MakeCreate("/a", "x"));
    const OperationId late = script.Ask(other, MakeDelete("/a"));
    (void)write, (void)late;
    CHECK(Broken([&] { script.LogRequest(other, MakeDelete("/a")); }) ==
          "a write comes after everything that was seen before it began");
  }
}

TEST_CASE("A member's tree is compared with the log") {
  Replay script;
  script.Write(MakeCreate("/a", "x"));
  tree::Tree tree;
  tree.Skip(tree::Zxid(1));
  CHECK(Broken([&] { script.checker.CheckTree(0, tree); }).empty());
  tree.Skip(tree::Zxid(2));
  tree.Skip(tree::Zxid(3));
  CHECK(Broken([&] { script.checker.CheckTree(0, tree); }) ==
        "the members' trees are those that the log produces");
}

}  // namespace
}  // namespace quorate::simulation
