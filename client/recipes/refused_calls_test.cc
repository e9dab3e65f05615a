// SPDX-License-Identifier: Apache-2.0

// Tests recipes whose client refuses calls for a moment, because too many are pending.

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <ctime>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/recipes/election.h"
#include "client/recipes/mutex.h"
#include "client/recipes/persistent_node.h"
#include "client/recipes/tree_cache.h"
#include "client/scripted_server.h"
#include "client/testing/collected.h"

namespace quorate {
namespace {

using testing::Collected;

constexpr int kLongMs = 20'000;
constexpr size_t kCallsMax = 8;

std::unique_ptr<Client> Connect(const ScriptedServer& server, size_t calls_max = 100'000,
                                WhenFull when_full = WhenFull::kRefuse) {
  auto client = Client::Connect({.servers = server.address(),
                                 .session_timeout_ms = 600'000,
                                 .pending_calls_max = calls_max,
                                 .when_full = when_full});
  INFO(client.status().ToString());
  REQUIRE(client.ok());
  return *std::move(client);
}

// Evaluates `is_true`, which waits for a server each time, until it returns true. Returns false
// after kLongMs.
template <class Question>
bool BecomesTrue(Question is_true) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kLongMs);
  while (!is_true()) {
    if (std::chrono::steady_clock::now() > end) return false;
  }
  return true;
}

// Makes more calls than the client accepts.
void MakeTooManyCalls(Client* client) {
  for (size_t i = 0; i < 2 * kCallsMax; ++i) client->AsyncExists("/").Then([](const auto&) {});
}

}  // namespace

TEST_CASE("a release that the client refuses is retried without using CPU time") {
  std::atomic<bool> is_silent{false};
  ScriptedServer server({.is_silent = [&] { return is_silent.load(); }});
  auto client = Connect(server, kCallsMax);
  InterProcessMutex mutex(client.get(), "/lock");
  REQUIRE(mutex.Acquire(kLongMs).ok());
  REQUIRE(client->Sync().ok());
  is_silent = true;
  std::vector<Call<std::optional<Stat>>> calls;
  for (size_t i = 0; i < kCallsMax; ++i) calls.push_back(client->AsyncExists("/"));
  // The client refuses the deletion, as the limit of calls is pending at the silent server.
  CHECK(absl::IsDeadlineExceeded(mutex.Release(100)));
  const std::clock_t before = std::clock();
  std::promise<void> never;
  never.get_future().wait_for(std::chrono::milliseconds(600));
  // A single thread that retried without waiting would take all of this time.
  CHECK(std::clock() - before < CLOCKS_PER_SEC / 8);
  CHECK(server.changes().back().starts_with("create /lock/_c_"));
  is_silent = false;
  client->ChangeMember();
  for (auto& call : calls) CHECK(call.Wait().ok());
  CHECK(BecomesTrue([&] { return client->List("/lock")->children.empty(); }));
}

TEST_CASE("a tree cache is loaded although the client refuses some of its calls") {
  ScriptedServer server({});
  auto other = Connect(server);
  REQUIRE(other->Create("/a").ok());
  for (int i = 0; i < 40; ++i) REQUIRE(other->Create("/a/" + std::to_string(i)).ok());
  auto client = Connect(server, 4);
  auto cache = *TreeCache::Start(client.get(), "/a");
  REQUIRE(cache->WaitUntilLoaded(kLongMs).ok());
  CHECK(cache->status().ok());
  CHECK(cache->All().size() == 41);
}

TEST_CASE("a candidate leads in the end although the client refuses some of its calls") {
  ScriptedServer server({});
  auto client = Connect(server, kCallsMax), other = Connect(server);
  Election leader(other.get(), "/election", {.id = "first"});
  REQUIRE(leader.Start().ok());
  REQUIRE(leader.AwaitLeadership(kLongMs).ok());
  Collected<ElectionState> states;
  // The next call of the candidate is refused after it gets in line, and after it moves up.
  Election candidate(
      client.get(), "/election",
      {.id = "second", .listener = [&](const ElectionEvent& event) {
         states.Add(event.state);
         if (event.state == ElectionState::kOffer || event.state == ElectionState::kDetermine) {
           MakeTooManyCalls(client.get());
         }
       }});
  REQUIRE(candidate.Start().ok());
  const auto told = states.WaitFor(4);
  REQUIRE(told.size() == 4);
  CHECK(told.back() == ElectionState::kReady);
  REQUIRE(leader.Stop(kLongMs).ok());
  // Send requests, because the scripted server sends events only with its answers.
  CHECK(BecomesTrue([&] {
    client->Sync().IgnoreError();
    return candidate.is_leader();
  }));
}

TEST_CASE("a revocation is reported although the client refuses calls at that moment") {
  ScriptedServer server({});
  auto client = Connect(server, kCallsMax), other = Connect(server);
  REQUIRE(client->Create("/lock").ok());
  // This watch is notified before the lock's own watch, which is set later.
  std::atomic<bool> is_acquired{false};
  auto watch = client->Watch("/lock", WatchScope::kChildren, [&](const WatchNotification&) {
    if (is_acquired) MakeTooManyCalls(client.get());
  });
  REQUIRE(watch.ok());
  Collected<LockEvent::Type> events;
  InterProcessMutex mutex(client.get(), "/lock",
                          {.listener = [&](const LockEvent& event) { events.Add(event.type); }});
  REQUIRE(mutex.Acquire(kLongMs).ok());
  REQUIRE(client->Sync().ok());
  is_acquired = true;
  REQUIRE(RequestRevocation(other.get(), mutex.ParticipantNodes()->front()).ok());
  // Send requests, because the scripted server sends events only with its answers.
  absl::Status synced;
  do {
    synced = client->Sync();
  } while (absl::IsResourceExhausted(synced));
  REQUIRE(synced.ok());
  CHECK(events.WaitFor(2).back() == LockEvent::Type::kRevoked);
}

TEST_CASE("with kBlock, a recipe keeps its deadline while the client has no space for its calls") {
  std::atomic<bool> is_silent{false};
  ScriptedServer server({.is_silent = [&] { return is_silent.load(); }});
  auto client = Connect(server, kCallsMax, WhenFull::kBlock);
  InterProcessMutex mutex(client.get(), "/lock"), other(client.get(), "/other");
  REQUIRE(mutex.Acquire(kLongMs).ok());
  REQUIRE(client->Sync().ok());
  is_silent = true;
  std::vector<Call<std::optional<Stat>>> calls;
  for (size_t i = 0; i < kCallsMax; ++i) calls.push_back(client->AsyncExists("/"));
  auto acquired = std::async(std::launch::async, [&] { return other.Acquire(100); });
  CHECK(acquired.wait_for(std::chrono::milliseconds(kLongMs)) == std::future_status::ready);
  CHECK(absl::IsDeadlineExceeded(mutex.Release(100)));
  is_silent = false;
  client->ChangeMember();
  CHECK(absl::IsDeadlineExceeded(acquired.get()));
  for (auto& call : calls) CHECK(call.Wait().ok());
  CHECK(BecomesTrue([&] { return client->List("/lock")->children.empty(); }));
}

TEST_CASE("with kBlock, a persistent node waits for space without a lock that callbacks take") {
  std::atomic<bool> is_silent{false};
  ScriptedServer server({.is_silent = [&] { return is_silent.load(); }});
  std::atomic<bool> is_armed{false};
  std::atomic<Client*> of_calls{nullptr};
  ClientOptions options{.servers = server.address(), .session_timeout_ms = 600'000};
  options.pending_calls_max = kCallsMax;
  options.when_full = WhenFull::kBlock;
  // The client is full when the node is about to be created.
  options.on_call_begin = [&](const CallBegin& begin) {
    if (begin.name != "Create" || !is_armed.exchange(false)) return;
    is_silent = true;
    for (size_t i = 0; i < kCallsMax; ++i) {
      of_calls.load()->AsyncExists("/").Then([](const auto&) {});
    }
  };
  auto client = Client::Connect(std::move(options));
  REQUIRE(client.ok());
  of_calls = client->get();
  is_armed = true;
  auto started = std::async(std::launch::async,
                            [&] { return PersistentNode::Start(client->get(), "/node", "data"); });
  const bool has_started =
      started.wait_for(std::chrono::milliseconds(kLongMs)) == std::future_status::ready;
  CHECK(has_started);
  is_silent = false;
  (*client)->ChangeMember();
  const auto node = started.get();
  REQUIRE(node.ok());
  CHECK(BecomesTrue([&] {
    (*client)->Sync().IgnoreError();
    return (*node)->is_there();
  }));
}

}  // namespace quorate
