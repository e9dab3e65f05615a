// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/checkers/native_checker.h"

#include <catch2/catch.hpp>
#include <string>

#include "rpc/proto/times.h"
#include "tests/simulation/checkers/checker_test_util.h"

namespace quorate::simulation {
namespace {

constexpr int64_t kSession = 7;

// One client of the native protocol; the test supplies the servers' answers.
class Run {
 public:
  Run() {
    script.LogNoOp();
    session_zxid = script.LogSession(kSession);
    Open(0, /*resumed=*/false);
  }

  void Open(uint64_t last_sequence, bool resumed = true) {
    v1::SessionOpened opened;
    opened.set_session_id(kSession);
    opened.set_member(1);
    *opened.mutable_timeout() = v1::DurationOfMs(1000);
    opened.set_last_sequence(last_sequence);
    checker.OnOpened(0, 0, opened, resumed);
  }
  static v1::Request CreateOf(uint64_t number, const std::string& path) {
    v1::Request request;
    request.mutable_write()->set_sequence(number);
    request.mutable_write()->add_operations()->mutable_create()->set_path(path);
    return request;
  }
  int64_t Log(uint64_t number, const std::string& path) {
    tree::Request logged;
    tree::Op& op = logged.ops.emplace_back();
    op.kind = tree::OpKind::kCreate;
    op.path = path;
    op.has_data = true;
    op.acl = tree::OpenAcl();
    return script.LogNumbered(kSession, number, 0, logged);
  }
  // The client creates a node, and the creation enters the log. Returns the zxid.
  int64_t Create(uint64_t number, const std::string& path) {
    checker.OnWriteSent(kSession, CreateOf(number, path).write());
    return Log(number, path);
  }
  // The answer of a correct server.
  v1::Response CreatedAt(int64_t zxid, const std::string& path) {
    v1::Response response;
    response.set_zxid(zxid);
    v1::OperationResult& result = *response.mutable_write()->add_results();
    result.set_path(path);
    const tree::Stat& stat = checkers_model().Find(path, zxid)->stat;
    result.mutable_stat()->set_created_zxid(stat.czxid.value());
    result.mutable_stat()->set_modified_zxid(stat.mzxid.value());
    result.mutable_stat()->set_children_modified_zxid(stat.pzxid.value());
    result.mutable_stat()->set_created_ms(stat.ctime_ms);
    result.mutable_stat()->set_modified_ms(stat.mtime_ms);
    return response;
  }
  const Model& checkers_model() const { return replay.model(); }
  void Answer(const v1::Request& request, const v1::Response& response) {
    checker.OnAnswered(kSession, request, newest_seen, response);
  }
  void Sync(int64_t zxid) {
    v1::Request request;
    request.mutable_sync();
    v1::Response response;
    response.set_zxid(zxid);
    Answer(request, response);
  }
  void Exists(const std::string& path, int64_t zxid, bool exists) {
    v1::Request request;
    request.mutable_exists()->set_path(path);
    v1::Response response;
    response.set_zxid(zxid);
    response.mutable_exists()->set_exists(exists);
    Answer(request, response);
  }
  // Sets a watch of "/" and everything below, which is answered at `zxid`.
  void Watch(int64_t after, int64_t zxid) {
    v1::Request request;
    request.mutable_watch()->set_watch_id(1);
    request.mutable_watch()->set_path("/");
    request.mutable_watch()->set_scope(v1::WATCH_SCOPE_SUBTREE);
    request.mutable_watch()->set_after_zxid(after);
    checker.OnWatchSent(kSession, request.watch());
    v1::Response response;
    response.set_zxid(zxid);
    response.mutable_watch();
    pending_watch = request;
    watch_answer = response;
  }
  void AnswerWatch() { Answer(pending_watch, watch_answer); }
  void Event(const std::string& path, int64_t zxid) {
    v1::WatchEvent event;
    event.add_watch_ids(1);
    event.mutable_event()->set_type(v1::EVENT_TYPE_NODE_CREATED);
    event.mutable_event()->set_path(path);
    event.mutable_event()->set_zxid(zxid);
    checker.OnWatchEvent(kSession, event);
  }

  Script script;
  ReplayChecker replay{&script.history};
  NativeChecker checker{&script.history, &replay, 0};
  int64_t session_zxid = 0;
  int64_t newest_seen = 0;
  v1::Request pending_watch;
  v1::Response watch_answer;
};

TEST_CASE("a write that is repeated on another stream has one effect and one answer") {
  Run run;
  const int64_t zxid = run.Create(1, "/a");
  run.checker.OnStreamClosed(kSession);
  run.script.LogSession(kSession, /*attach=*/true);
  run.Open(1);
  run.checker.OnWriteSent(kSession, Run::CreateOf(1, "/a").write());
  run.Log(1, "/a");
  run.Answer(Run::CreateOf(1, "/a"), run.CreatedAt(zxid, "/a"));
  run.Sync(run.checkers_model().last_zxid());
}

TEST_CASE("a repeated write that gets the answer of a second write is found") {
  Run run;
  run.Create(1, "/a");
  const int64_t again = run.Log(1, "/a");
  v1::Response response;
  response.set_zxid(again);
  response.set_error(v1::ERROR_CODE_NODE_EXISTS);
  response.mutable_write()->add_results()->set_error(v1::ERROR_CODE_NODE_EXISTS);
  CHECK(Broken([&] { run.Answer(Run::CreateOf(1, "/a"), response); }) ==
        "every answer to a write has its first result");
}

TEST_CASE("a transaction with another branch, read or compare than that of the model is found") {
  // What is wrong: 0: nothing; 1: the branch; 2: what was read; 3: a compare in the log.
  const int wrong = GENERATE(0, 1, 2, 3);
  CAPTURE(wrong);
  Run run;
  run.Create(1, "/a");
  v1::Request sent;
  sent.mutable_write()->set_sequence(2);
  v1::Compare& compare = *sent.mutable_write()->add_compares();
  compare.set_path("/a");
  compare.set_version(7);
  sent.mutable_write()->add_operations()->mutable_get()->set_path("/a");
  sent.mutable_write()->add_otherwise()->mutable_list()->set_path("/");
  run.checker.OnWriteSent(kSession, sent.write());
  tree::Request logged;
  logged.multi = logged.has_branches = true;
  logged.then_count = 1;
  logged.ops.resize(2);
  logged.ops[0].kind = tree::OpKind::kGet;
  logged.ops[0].path = "/a";
  logged.ops[1].kind = tree::OpKind::kGetChildren;
  logged.ops[1].path = "/";
  logged.compares.push_back(
      {tree::CompareTarget::kVersion, tree::CompareRelation::kEqual, "/a", wrong == 3 ? 6 : 7, {}});
  const std::string broken = Broken([&] {
    const int64_t zxid = run.script.LogNumbered(kSession, 2, 0, logged);
    v1::Response first = run.CreatedAt(zxid - 1, "/a");
    run.Answer(Run::CreateOf(1, "/a"), first);
    v1::Response response;
    response.set_zxid(zxid);
    response.mutable_write()->set_branch(wrong == 1 ? v1::BRANCH_OPERATIONS : v1::BRANCH_OTHERWISE);
    v1::OperationResult& result = *response.mutable_write()->add_results();
    result.set_exists(true);
    result.add_children(wrong == 2 ? "b" : "a");
    result.add_children("zookeeper");
    const tree::Stat& stat = run.checkers_model().Find("/", zxid)->stat;
    result.mutable_stat()->set_children_modified_zxid(stat.pzxid.value());
    result.mutable_stat()->set_children_version(stat.cversion);
    result.mutable_stat()->set_children(stat.num_children);
    run.Answer(sent, response);
  });
  CHECK(broken == (wrong == 0   ? ""
                   : wrong == 3 ? "every command in the log was sent by a client"
                                : "every answer to a write has its first result"));
}

TEST_CASE("an answer to a write that is not in the log is found") {
  Run run;
  run.checker.OnWriteSent(kSession, Run::CreateOf(1, "/a").write());
  v1::Response response;
  response.set_zxid(run.session_zxid);
  CHECK(Broken([&] { run.Answer(Run::CreateOf(1, "/a"), response); }) ==
        "an answered write is in the log");
}

TEST_CASE("a numbered write that leaves a gap is found") {
  Run run;
  run.checker.OnWriteSent(kSession, Run::CreateOf(1, "/a").write());
  run.checker.OnWriteSent(kSession, Run::CreateOf(2, "/b").write());
  CHECK(Broken([&] { run.Log(2, "/b"); }) == "writes of a session enter the log in their order");
}

TEST_CASE("a write that no client has sent is found") {
  Run run;
  CHECK(Broken([&] { run.Log(1, "/a"); }) == "every command in the log was sent by a client");
}

TEST_CASE("a session whose zxids go back is found") {
  Run run;
  const int64_t zxid = run.Create(1, "/a");
  run.checker.OnAllSentUpTo(kSession, zxid);
  CHECK(Broken([&] { run.Exists("/a", zxid - 1, false); }) ==
        "the zxids of a session never go back");
}

TEST_CASE("a read that does not show the tree of its zxid is found") {
  Run run;
  const int64_t zxid = run.Create(1, "/a");
  run.Answer(Run::CreateOf(1, "/a"), run.CreatedAt(zxid, "/a"));
  CHECK(Broken([&] { run.Exists("/a", zxid, false); }) == "a read shows the tree of its zxid");
}

TEST_CASE("a read that sees a write sent after it is found") {
  Run run;
  const int64_t zxid = run.Create(1, "/a");
  CHECK(Broken([&] { run.Exists("/b", zxid, false); }) ==
        "a read does not see the writes behind it");
}

TEST_CASE("a sync that does not show what other clients had seen is found") {
  Run run;
  run.newest_seen = run.script.LogNoOp();
  CHECK(Broken([&] { run.Sync(run.newest_seen - 1); }) ==
        "a sync shows everything that was seen before it began");
}

TEST_CASE("events come once, in their order, and before anything that shows a later state") {
  Run run;
  run.Watch(0, run.session_zxid);
  run.AnswerWatch();
  const int64_t first = run.Create(1, "/a");
  const int64_t second = run.Create(2, "/b");
  SECTION("an honest server's") {
    run.Event("/a", first);
    run.Event("/b", second);
    run.checker.OnAllSentUpTo(kSession, second);
  }
  SECTION("an event is lost before the next one") {
    CHECK(Broken([&] { run.Event("/b", second); }) == "no event of a watch is lost");
  }
  SECTION("an event is lost before a zxid that covers it") {
    CHECK(Broken([&] { run.checker.OnAllSentUpTo(kSession, first); }) ==
          "no event of a watch is lost");
  }
  SECTION("an answer comes before the event") {
    run.Event("/a", first);
    run.Answer(Run::CreateOf(1, "/a"), run.CreatedAt(first, "/a"));
    CHECK(Broken([&] { run.Sync(second); }) == "no event of a watch is lost");
  }
  SECTION("an event comes twice") {
    run.Event("/a", first);
    CHECK(Broken([&] { run.Event("/a", first); }) ==
          "each event comes once, for a change that has happened");
  }
  SECTION("an event reports a change that has not happened") {
    CHECK(Broken([&] { run.Event("/c", first); }) ==
          "each event comes once, for a change that has happened");
  }
}

TEST_CASE("a watch that goes on without the events in between is found") {
  Run run;
  const int64_t zxid = run.Create(1, "/a");
  run.Watch(run.session_zxid, zxid);
  SECTION("an honest server's") {
    run.Event("/a", zxid);
    run.AnswerWatch();
  }
  SECTION("the event is missing") {
    CHECK(Broken([&] { run.AnswerWatch(); }) == "no event of a watch is lost");
  }
}

TEST_CASE("a server that does not know an answered write is found") {
  Run run;
  const int64_t zxid = run.Create(1, "/a");
  run.Answer(Run::CreateOf(1, "/a"), run.CreatedAt(zxid, "/a"));
  CHECK(Broken([&] { run.Open(0); }) == "a server knows the last write of a session");
}

TEST_CASE("a session that expires while its client is heard from is found") {
  Run run;
  run.checker.BeginSteadyPeriod(0);
  run.script.Wait(2'000'000);
  run.checker.OnHeard(kSession);
  CHECK(Broken([&] { run.script.LogEnd(kSession, /*expire=*/true); }) ==
        "a session does not expire before its timeout");
}

}  // namespace
}  // namespace quorate::simulation
