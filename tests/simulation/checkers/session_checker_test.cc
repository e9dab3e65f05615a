// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/checkers/session_checker.h"

#include "tests/simulation/checkers/checker_test_util.h"
#include "tests/simulation/clients/fake_environment.h"

namespace quorate::simulation {
namespace {

constexpr int64_t kTimeoutUs = 1'000'000;  // of all sessions of a Script
constexpr int64_t kUnnoticedUs = 45'000;

class Sessions : public Script {
 public:
  explicit Sessions(double drift = 0) : checker(&history, &replay, drift, kUnnoticedUs) {
    LogNoOp();
    LogSession(1);
    link = Open(1);
  }
  std::string Expire() {
    return Broken([&] { LogEnd(1, /*expire=*/true); });
  }

  ReplayChecker replay{&history};
  SessionChecker checker;
  LinkId link = 0;
};

constexpr char kTooEarly[] = "a session does not expire before its timeout";

TEST_CASE("A session does not expire before its timeout since its attachment") {
  Sessions script;
  SECTION("the timeout has passed") {
    script.Wait(kTimeoutUs);
    CHECK(script.Expire() == "");
  }
  SECTION("the timeout has not passed") {
    script.Wait(kTimeoutUs / 2);
    CHECK(script.Expire() == kTooEarly);
  }
  SECTION("the timeout has passed, but the leader was paused for a part of it") {
    script.checker.OnLeads(0, consensus::Term(1));
    const int64_t from_us = script.environment.now_us();
    script.Wait(kTimeoutUs);
    script.checker.OnStoodStill(0, from_us);
    script.Wait(kTimeoutUs / 2);
    CHECK(script.Expire() == kTooEarly);
  }
  SECTION("the timeout has passed, including a pause that the leader may not notice") {
    script.checker.OnLeads(0, consensus::Term(1));
    const int64_t from_us = script.environment.now_us();
    script.Wait(kTimeoutUs);
    script.checker.OnStoodStill(0, from_us);
    script.Wait(kTimeoutUs - kUnnoticedUs);
    CHECK(script.Expire() == "");
  }
  SECTION("the timeout has passed, and another member was paused") {
    script.checker.OnLeads(0, consensus::Term(1));
    const int64_t from_us = script.environment.now_us();
    script.Wait(kTimeoutUs);
    script.checker.OnStoodStill(1, from_us);
    CHECK(script.Expire() == "");
  }
  SECTION("the session has moved since") {
    script.Wait(kTimeoutUs);
    script.LogSession(1, /*attach=*/true);
    script.Wait(kTimeoutUs / 2);
    CHECK(script.Expire() == kTooEarly);
  }
}

TEST_CASE("A new leader gives each session its timeout again") {
  Sessions script;
  script.Wait(kTimeoutUs);
  script.LogNoOp(/*term=*/2);
  script.Wait(kTimeoutUs / 2);
  SECTION("before the full timeout it may not expire") { CHECK(script.Expire() == kTooEarly); }
  SECTION("after the full timeout it may expire") {
    script.Wait(kTimeoutUs / 2);
    CHECK(script.Expire() == "");
  }
}

TEST_CASE("A server's clock may be fast up to a limit") {
  Sessions script(0.1);
  script.Wait(kTimeoutUs * 10 / 11);
  CHECK(script.Expire() == "");
  Sessions other(0.1);
  other.Wait(kTimeoutUs * 9 / 11);
  CHECK(other.Expire() == kTooEarly);
}

TEST_CASE("When all servers work, a session whose client sends messages does not expire") {
  Sessions script;
  script.Wait(2 * kTimeoutUs);
  script.history.Pong(script.link, 1);
  SECTION("while there is trouble it may") { CHECK(script.Expire() == ""); }
  SECTION("in the steady period it may not") {
    script.checker.BeginSteadyPeriod(0);
    CHECK(script.Expire() == kTooEarly);
  }
  SECTION("in the steady period, but it is silent") {
    script.checker.BeginSteadyPeriod(0);
    script.Wait(2 * kTimeoutUs);
    CHECK(script.Expire() == "");
  }
  SECTION("in the steady period, but the connection is broken") {
    script.checker.BeginSteadyPeriod(0);
    script.history.CloseLink(script.link);
    CHECK(script.Expire() == "");
  }
}

TEST_CASE("Abandoned sessions linger until they end") {
  Sessions script;
  script.history.AbandonSession(0, 1);
  CHECK(script.checker.LingeringSessions() == std::vector<int64_t>{1});
  script.Wait(2 * kTimeoutUs);
  CHECK(script.Expire() == "");
  CHECK(script.checker.LingeringSessions().empty());
}

// --- Ephemerals ----------------------------------------------------------------------------------

constexpr char kEphemerals[] = "an ephemeral node lives as long as its session";

// Fills a member's tree with session 1, and with its node if `has_node`.
void Fill(tree::Tree* tree, bool has_node) {
  struct Listener : tree::ApplyListener {
    void OnNodeEvent(tree::EventType, std::string_view, tree::Zxid,
                     const tree::EventAcls&) override {}
    void OnSessionAttached(const tree::SessionInfo&) override {}
    void OnSessionClosed(tree::SessionId, tree::Zxid) override {}
    void OnResult(tree::ApplyResult) override {}
  } listener;
  tree::CommandHeader header;
  header.kind = tree::CommandKind::kCreateSession;
  header.session = tree::SessionId(1);
  std::string command;
  tree::AppendCreateSession(header, 1000, std::string(16, 'p'), &command);
  tree->Apply(tree::Zxid(2), command, {9, 9}, &listener);
  if (!has_node) return;
  header.kind = tree::CommandKind::kRequest;
  header.attach_zxid = tree::Zxid(2);
  tree::Request request;
  tree::Op& op = request.ops.emplace_back();
  op.kind = tree::OpKind::kCreate;
  op.path = "/e";
  op.has_data = true;
  op.acl = tree::OpenAcl();
  op.mode = tree::CreateMode::kEphemeral;
  command.clear();
  tree::AppendRequest(header, request, &command);
  tree->Apply(tree::Zxid(3), command, {9, 9}, &listener);
}

TEST_CASE("Ephemeral nodes exist if and only if their session lives") {
  Sessions script;
  tree::Tree with_node;
  Fill(&with_node, true);
  tree::Tree without_node;
  Fill(&without_node, false);
  const auto check = [&script](const tree::Tree& tree, std::set<int64_t> living) {
    return Broken([&] { script.checker.CheckEphemerals(0, tree, living); });
  };
  const Request create = MakeCreate("/e", "", tree::CreateMode::kEphemeral);
  const OperationId created = script.Ask(script.link, create);
  // Not answered: the node may exist or not.
  CHECK(check(without_node, {1}) == "");
  CHECK(check(with_node, {1}) == "");
  const int64_t zxid = script.LogRequest(script.link, create);
  script.AnswerStep(created, zxid, "/e", script.replay.model().Find("/e", zxid)->stat);
  CHECK(check(with_node, {1}) == "");
  CHECK(check(without_node, {1}) == kEphemerals);
  CHECK(check(with_node, {}) == kEphemerals);
  CHECK(check(without_node, {}) == "");
  // A client has requested its deletion: again, both are possible.
  script.Ask(script.link, MakeDelete("/e"));
  CHECK(check(without_node, {1}) == "");
}

TEST_CASE("An ephemeral node may be deleted by an operation of ClickHouse Keeper") {
  tree::Tree without_node;
  Fill(&without_node, false);
  for (const OperationKind kind : {OperationKind::kTryRemove, OperationKind::kRemoveRecursive}) {
    CAPTURE(ToString(kind));
    Sessions script;
    const Request create = MakeCreate("/e", "", tree::CreateMode::kEphemeral);
    const OperationId created = script.Ask(script.link, create);
    const int64_t zxid = script.LogRequest(script.link, create);
    script.AnswerStep(created, zxid, "/e", script.replay.model().Find("/e", zxid)->stat);
    CHECK(Broken([&] { script.checker.CheckEphemerals(0, without_node, {1}); }) == kEphemerals);
    script.Ask(script.link, MakeWrite(MakeStep(kind, "/e")));
    CHECK(Broken([&] { script.checker.CheckEphemerals(0, without_node, {1}); }) == "");
  }
}

}  // namespace
}  // namespace quorate::simulation
