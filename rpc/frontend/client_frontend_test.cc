// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/client_frontend.h"

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/manual_clock.h"
#include "rpc/frontend/client_loop.h"
#include "rpc/frontend/testing/fake_service.h"

namespace quorate::rpc {
namespace {

constexpr TagRange kTags{1000, 100};

class TestLoop;

class TestFrontend final : public ClientFrontend<TestLoop> {
 public:
  TestFrontend(const Config& config, Service* service, const Clock* clock, RandomBytes* random)
      : ClientFrontend(config, service, clock, random, kTags) {}

  bool AllowsInlineApply() const override { return true; }
  void OnNodeEvent(tree::EventType, std::string_view, tree::Zxid, const tree::EventAcls&) override {
  }
};

class CountingTransport {
 public:
  void Wake() { ++wakes; }
  void EndIterationSoon() { ++iteration_ends; }

  int wakes = 0;
  int iteration_ends = 0;
};

struct TestClient : LoopClient<TestClient> {
  TestClient(uint32_t t, std::string a, MemoryBudget* memory)
      : LoopClient(memory), its_tag(t), its_address(std::move(a)) {}

  uint32_t tag() const { return its_tag; }
  const std::string& address() const { return its_address; }
  tree::SessionId session() const { return its_session; }
  bool finished() const { return !outcome.ok(); }
  bool CanContinue() const { return has_work && !finished(); }
  bool TakeTouched() { return std::exchange(touched, false); }

  const uint32_t its_tag;
  const std::string its_address;
  tree::SessionId its_session = tree::kNoSession;
  absl::Status outcome;  // not OK: is about to be closed
  bool has_work = false;
  bool touched = false;
  size_t heavy_bytes = 0;
  std::vector<std::string> received;
};

// An item for one client. The client ends with an error if the text is empty.
struct TextItem {
  uint32_t tag;
  std::string text;
};

class TestLoop final
    : public ClientLoop<TestLoop, TestFrontend, CountingTransport, TestClient, TextItem> {
 public:
  TestLoop(TestFrontend* frontend, CountingTransport* transport)
      : ClientLoop(frontend, transport) {}

  TestClient& Open(const std::string& address = "a") {
    BeginIteration();
    REQUIRE(frontend_->Admit(address) == Admission::kAdmitted);
    return Add(std::make_shared<TestClient>(NewTag(), address, &frontend_->service().memory()));
  }
  void Close(TestClient& client) {
    client.open = false;
    KeepTouch(client);
    Remove(client);
  }
  void OnWake() {
    BeginIteration();
    inbox_.OnWake();
    DrainInbox();
  }
  // Returns the clients that were dirty.
  std::vector<uint32_t> EndIteration() {
    iteration_end_scheduled_ = false;
    ContinueClients(/*has_items=*/false);
    SubmitBatch();
    std::vector<uint32_t> dirty;
    TakeDirty([&dirty](TestClient& client) { dirty.push_back(client.tag()); });
    return dirty;
  }
  void OnTimer() {
    BeginIteration();
    SendTouches();
  }
  void MakeBusy(TestClient& client) {
    client.has_work = true;
    MarkDirty(client);
  }
  std::shared_ptr<TestClient> Heaviest() {
    size_t bytes = 0;
    return TakeHeaviest([](const TestClient& client) { return client.heavy_bytes; }, &bytes);
  }

  std::vector<uint32_t> continued;
  // Called by Continue, if not null.
  std::function<void()> on_continue;

 private:
  friend ClientLoop;

  void HandleItem(Item& item) {
    if (auto* text = std::get_if<TextItem>(&item)) {
      DeliverTo(text->tag, [text](TestClient& client) {
        client.received.push_back(text->text);
        return text->text.empty() ? absl::AbortedError("empty") : absl::OkStatus();
      });
    } else if (auto* closed = std::get_if<SessionClosed>(&item)) {
      DeliverTo(closed->tag, [](TestClient&) { return absl::AbortedError("session closed"); });
    } else if (auto* attached = std::get_if<SessionAttached>(&item)) {
      DeliverTo(attached->tag, [](TestClient&) { return absl::AbortedError("moved"); });
    } else if (auto* barrier = std::get_if<BarrierDone>(&item)) {
      DeliverBarrier(*barrier);
    } else if (std::holds_alternative<TreeReplaced>(item)) {
      for (const auto& client : in_order_) Finish(*client, absl::AbortedError("replaced"));
    }
  }
  static void OnBarrierDone(TestClient& client, uint64_t barrier) {
    client.received.push_back("barrier " + std::to_string(barrier));
  }
  void Continue(TestClient& client) {
    client.has_work = false;
    continued.push_back(client.tag());
    if (on_continue != nullptr) on_continue();
  }
  static void Finish(TestClient& client, const absl::Status& why) { client.outcome = why; }
  void AddTouched(std::vector<int64_t>* sessions) {
    for (const auto& client : in_order_) {
      if (client->TakeTouched()) sessions->push_back(client->session().value());
    }
  }
};

class Server {
 public:
  explicit Server(Config c = TestConfig()) : config(std::move(c)) {}

  // Gives the front end the result of the command by which a client opens a session or takes it
  // over.
  void OnSessionResult(tree::CommandKind kind, int64_t session, uint32_t tag,
                       tree::ErrorCode error = tree::ErrorCode::kOk) {
    tree::ApplyResult result;
    result.header.kind = kind;
    result.header.session = tree::SessionId(session);
    result.header.proposer_tag = tag;
    result.error = error;
    frontend.OnResult(std::move(result));
  }

  const Config config;
  ManualClock clock{kStartMs};
  CountingBytes random;
  FakeService service;
  TestFrontend frontend{config, &service, &clock, &random};
  CountingTransport transport;
  TestLoop loop{&frontend, &transport};
  TestLoop other_loop{&frontend, &transport};
};

TEST_CASE(
    "tags tell the loops apart, leave out those of the loops, and repeat when all were used") {
  Server s;
  std::set<uint32_t> tags;
  const uint32_t of_loop_max = kTags.count / 2 - 1;
  for (uint32_t i = 0; i < of_loop_max; ++i) {
    const uint32_t tag = s.frontend.NewTag(1);
    CHECK(kTags.Contains(tag));
    CHECK(tag % 2 == s.frontend.TagOf(1, 0) % 2);
    CHECK(tag != s.frontend.TagOf(1, 0));
    tags.insert(tag);
  }
  CHECK(tags.size() == of_loop_max);
  CHECK(tags.contains(s.frontend.NewTag(1)));
}

TEST_CASE("a loop gives no tag to two open clients") {
  Server s;
  const uint32_t first = s.loop.Open().tag();
  s.frontend.SetTagsHandedOut(0);
  CHECK(s.frontend.NewTag(0) == first);
  s.frontend.SetTagsHandedOut(0);
  CHECK(s.loop.Open().tag() != first);
}

TEST_CASE("clients beyond maxCnxns and maxClientCnxns are not admitted, and not counted") {
  Config config = TestConfig();
  config.max_connections = 3;
  config.max_client_connections = 2;
  Server s(config);
  CHECK(s.frontend.Admit("a") == Admission::kAdmitted);
  CHECK(s.frontend.Admit("a") == Admission::kAdmitted);
  CHECK(s.frontend.Admit("a") == Admission::kTooManyOfAddress);
  CHECK(s.frontend.Admit("b") == Admission::kAdmitted);
  CHECK(s.frontend.Admit("b") == Admission::kTooMany);
  s.frontend.Release("a");
  CHECK(s.frontend.Admit("b") == Admission::kAdmitted);
  CHECK(s.frontend.Admit("b") == Admission::kTooMany);
}

TEST_CASE("the end of a session is delivered to the client that has it now") {
  Server s;
  TestClient& before = s.loop.Open();
  TestClient& now = s.other_loop.Open();
  TestClient& failed = s.loop.Open();
  s.OnSessionResult(tree::CommandKind::kCreateSession, 7, before.tag());
  s.OnSessionResult(tree::CommandKind::kAttachSession, 7, now.tag());
  s.OnSessionResult(tree::CommandKind::kAttachSession, 7, failed.tag(),
                    tree::ErrorCode::kSessionExpired);
  s.frontend.ForgetSession(tree::SessionId(7), before.tag());
  s.frontend.OnSessionClosed(tree::SessionId(7), tree::Zxid(9));
  s.loop.OnWake();
  s.other_loop.OnWake();
  CHECK(before.outcome.ok());
  CHECK(failed.outcome.ok());
  CHECK(now.outcome.message() == "session closed");
}

TEST_CASE("a session that is attached again is taken from the client that had it") {
  Server s;
  TestClient& client = s.loop.Open();
  s.OnSessionResult(tree::CommandKind::kCreateSession, 7, client.tag());
  tree::SessionInfo session;
  session.id = tree::SessionId(7);
  s.frontend.OnSessionAttached(session);
  s.loop.OnWake();
  CHECK(client.outcome.message() == "moved");
}

TEST_CASE("the sessions of a loop that begins no iteration are held up") {
  Server s;
  s.OnSessionResult(tree::CommandKind::kCreateSession, 7, s.loop.Open().tag());
  s.OnSessionResult(tree::CommandKind::kCreateSession, 8, s.other_loop.Open().tag());
  CHECK(s.frontend.HeldUpSessions().empty());
  s.clock.Advance(TestLoop::kHeldUpAfter.count() + 1);
  s.loop.OnTimer();
  CHECK(s.frontend.HeldUpSessions() == std::vector<int64_t>{8});
}

TEST_CASE("a loop is woken once for all items of a batch, and only if it has some") {
  Server s;
  const uint32_t tag = s.loop.Open().tag();
  s.loop.Push(TextItem{tag, "a"});
  s.loop.Push(TextItem{tag, "b"});
  s.frontend.OnBatchApplied();
  s.frontend.OnBatchApplied();
  CHECK(s.transport.wakes == 1);
  s.loop.OnWake();
  s.loop.Push(TextItem{tag, "c"});
  s.frontend.OnBatchApplied();
  CHECK(s.transport.wakes == 2);
}

TEST_CASE("what was applied is delivered before the tree is read") {
  Server s;
  TestClient& client = s.loop.Open();
  s.loop.Push(TextItem{client.tag(), "event"});
  s.loop.LockTree();
  CHECK(client.received == std::vector<std::string>{"event"});
  CHECK(s.loop.EndIteration() == std::vector<uint32_t>{client.tag()});
}

TEST_CASE("the tree is unlocked for a moment when enough was spent") {
  Server s;
  s.loop.LockTree();
  s.loop.Spend(kNodesPerHold - 1);
  s.loop.LockTree();
  CHECK(s.service.tree_reads == 1);
  CHECK_FALSE(s.loop.has_spent_enough());
  s.loop.Spend(1);
  CHECK(s.loop.has_spent_enough());
  s.loop.LockTree();
  CHECK(s.service.tree_reads == 2);
  CHECK_FALSE(s.loop.has_spent_enough());
  CHECK(s.loop.longest_hold() == kNodesPerHold);
  s.loop.UnlockTree();
}

TEST_CASE("the commands of an iteration are one batch, without those too large for the log") {
  Server s;
  for (const size_t bytes : {size_t{3}, kCommandBytesMax + 1, size_t{5}}) {
    const size_t offset = s.loop.command_bytes().size();
    s.loop.command_bytes().append(bytes, 'x');
    CHECK(s.loop.AddedCommand(offset) == (bytes <= kCommandBytesMax));
  }
  CHECK(s.transport.iteration_ends == 1);
  s.loop.EndIteration();
  REQUIRE(s.service.batches.size() == 1);
  REQUIRE(s.service.batches[0].commands.size() == 2);
  CHECK(s.service.batches[0].commands[1].offset == 3);
  CHECK(s.service.batches[0].commands[1].size == 5);
  s.loop.EndIteration();
  CHECK(s.service.batches.size() == 1);
}

TEST_CASE("the clients of an iteration share a barrier, which begins behind the writes") {
  Server s;
  TestClient& first = s.loop.Open();
  TestClient& second = s.loop.Open();
  CHECK(s.loop.JoinBarrier(first.tag()) == 1);
  CHECK(s.loop.JoinBarrier(second.tag()) == 1);
  CHECK(s.transport.iteration_ends == 1);
  CHECK(s.service.syncs.empty());
  s.loop.EndIteration();
  REQUIRE(s.service.syncs.size() == 1);
  CHECK_FALSE(s.loop.IsBarrierDone(1));
  const auto [tag, barrier] = s.service.syncs[0];
  s.frontend.OnSyncDone(tag, barrier, tree::Zxid(9));
  CHECK(s.transport.wakes == 1);
  s.loop.OnWake();
  CHECK(s.loop.IsBarrierDone(1));
  CHECK(s.loop.seen_zxid() == tree::Zxid(9));
  CHECK(first.received == std::vector<std::string>{"barrier 1"});
  CHECK(second.received == std::vector<std::string>{"barrier 1"});
}

TEST_CASE("a barrier that had to wait for earlier ones begins when one of them ends") {
  Server s;
  TestClient& client = s.loop.Open();
  for (uint64_t i = 1; i <= kBarriersInFlightMax + 1; ++i) {
    CHECK(s.loop.JoinBarrier(client.tag()) == i);
    s.loop.EndIteration();
  }
  CHECK(s.service.syncs.size() == kBarriersInFlightMax);
  s.frontend.OnSyncDone(s.service.syncs[0].first, 1, tree::Zxid(9));
  s.loop.OnWake();
  s.loop.EndIteration();
  REQUIRE(s.service.syncs.size() == kBarriersInFlightMax + 1);
  CHECK(s.service.syncs.back().second == kBarriersInFlightMax + 1);
}

TEST_CASE("a client that is about to be closed gets no more items") {
  Server s;
  TestClient& client = s.loop.Open();
  for (const std::string text : {"a", "", "b"}) s.loop.Push(TextItem{client.tag(), text});
  s.loop.OnWake();
  CHECK(client.received == std::vector<std::string>{"a", ""});
}

TEST_CASE("a client does not continue after the tree was replaced in between") {
  Server s;
  TestClient& first = s.loop.Open();
  TestClient& second = s.loop.Open();
  s.loop.MakeBusy(first);
  s.loop.MakeBusy(second);
  s.loop.on_continue = [&s] {
    s.loop.Spend(kNodesPerHold);
    s.loop.Push(TestLoop::TreeReplaced{});
  };
  s.loop.EndIteration();
  CHECK(s.loop.continued == std::vector<uint32_t>{first.tag()});
  CHECK(second.outcome.message() == "replaced");
}

TEST_CASE("touches are sent once per period, each session once, also those of closed clients") {
  Server s;
  TestClient& open = s.loop.Open();
  TestClient& closed = s.loop.Open();
  open.its_session = tree::SessionId(9);
  closed.its_session = tree::SessionId(4);
  open.touched = closed.touched = true;
  TestClient& again = s.loop.Open();
  again.its_session = tree::SessionId(4);
  again.touched = true;
  s.loop.Close(closed);
  s.loop.OnTimer();
  CHECK(s.service.touches.empty());
  s.clock.Advance(s.config.touch_period_ms());
  s.loop.OnTimer();
  CHECK(s.service.touches == std::vector<std::vector<int64_t>>{{4, 9}});
  s.clock.Advance(s.config.touch_period_ms());
  s.loop.OnTimer();
  CHECK(s.service.touches.size() == 1);
}

TEST_CASE("the heaviest client is found once per measurement of memory") {
  Server s;
  constexpr uint64_t kLimit = 100u << 20;
  s.service.memory().SetLimit(kLimit);
  TestClient& heavy = s.loop.Open();
  s.loop.Open().heavy_bytes = 3u << 20;
  heavy.heavy_bytes = 4u << 20;
  CHECK(s.loop.Heaviest() == nullptr);  // memory is not low
  s.service.memory().OnMeasured(kLimit);
  const std::shared_ptr<TestClient> found = s.loop.Heaviest();
  REQUIRE(found.get() == &heavy);
  CHECK(s.service.memory().closed() == 1);
  CHECK(s.loop.Heaviest() == nullptr);
  s.loop.Close(heavy);
  s.service.memory().OnMeasured(kLimit);
  const std::shared_ptr<TestClient> second = s.loop.Heaviest();
  REQUIRE(second != nullptr);
  s.loop.Close(*second);
  s.loop.Open().heavy_bytes = 1u << 20;
  s.service.memory().OnMeasured(kLimit);
  CHECK(s.loop.Heaviest() == nullptr);  // too light
}

TEST_CASE("a client that is removed takes no memory, and its address has room for another one") {
  Config config = TestConfig();
  config.max_client_connections = 1;
  Server s(config);
  TestClient& client = s.loop.Open("a");
  client.unsent.Set(100);
  CHECK(s.service.memory().used(MemoryUse::kUnsent) == 100);
  s.loop.MakeBusy(client);
  s.loop.Close(client);
  CHECK(s.service.memory().used(MemoryUse::kUnsent) == 0);
  CHECK(s.loop.client_count() == 0);
  s.loop.Open("a");
  CHECK(s.loop.EndIteration().empty());  // it was dirty, and is closed
}

}  // namespace
}  // namespace quorate::rpc
