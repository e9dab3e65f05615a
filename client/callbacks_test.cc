// SPDX-License-Identifier: Apache-2.0

// Tests of callbacks that take long: the session is kept alive meanwhile, and the number of waiting
// answers and events is bounded.

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/scripted_server.h"
#include "client/testing/collected.h"

namespace quorate {
namespace {

using testing::Collected;
using Moment = ScriptedServer::Moment;

constexpr std::chrono::seconds kLong{20};
const grpc::Status kBroken(grpc::StatusCode::UNAVAILABLE, "broken by the script");

std::unique_ptr<Client> Connect(const std::string& servers, ClientOptions options = {}) {
  options.servers = servers;
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(std::move(options));
  INFO(client.status().ToString());
  REQUIRE(client.ok());
  return *std::move(client);
}

// Runs `callback` on the callback thread and waits until it has returned.
void RunInCallback(Client* client, std::function<void()> callback) {
  std::promise<void> done;
  client->AsyncExists("/").Then([&](const auto&) {
    callback();
    done.set_value();
  });
  done.get_future().wait();
}

}  // namespace

TEST_CASE("a session is kept alive while a callback runs") {
  Collected<int> messages;
  ScriptedServer server({.at_moment = [&](int, Moment moment) {
    if (moment == Moment::kReceived) messages.Add(0);
    return grpc::Status::OK;
  }});
  auto client = Connect(server.address(), {.session_timeout_ms = 600});
  bool is_kept = false;
  RunInCallback(client.get(), [&] {
    // Six messages (keep-alives) take one session timeout.
    const size_t before = messages.WaitFor(0).size();
    is_kept = messages.WaitFor(before + 12).size() >= before + 12;
  });
  CHECK(is_kept);
  CHECK(client->Sync().ok());
}

TEST_CASE("a write is sent again over another stream while a callback runs") {
  Collected<std::string> writes;
  std::atomic<bool> breaks{false};
  ScriptedServer server({.at_moment =
                             [&](int, Moment moment) {
                               return moment == Moment::kDone && breaks.exchange(false)
                                          ? kBroken
                                          : grpc::Status::OK;
                             },
                         .at_answer =
                             [&](const v1::Request& request, v1::Response*) {
                               if (request.has_write()) writes.Add("");
                             }});
  auto client = Connect(server.address());
  std::atomic<bool> is_answered{false};
  size_t received = 0;
  RunInCallback(client.get(), [&] {
    breaks = true;
    client->AsyncCreate("/a").Then([&](const auto& created) { is_answered = created.ok(); });
    received = writes.WaitFor(2).size();
  });
  CHECK(received == 2);
  CHECK(client->Sync().ok());
  CHECK(is_answered);
  CHECK(server.changes() == std::vector<std::string>{"create /a"});
}

TEST_CASE("answers are received while refused calls are repeated without a pause") {
  ScriptedServer server({});
  auto client = Connect(server.address(), {.session_timeout_ms = 600'000, .pending_calls_max = 1});
  std::atomic<bool> is_over{false};
  std::atomic<int> accepted{0};
  std::promise<void> done;
  std::function<void()> repeat = [&] {
    if (is_over) return done.set_value();
    client->AsyncExists("/").Then([&](const auto& exists) {
      if (exists.ok() && ++accepted == 100) is_over = true;
      repeat();
    });
  };
  // Calls of this second loop are refused whenever the first loop waits for an answer.
  std::promise<void> second_done;
  std::function<void()> second = [&] {
    if (is_over) return second_done.set_value();
    client->AsyncExists("/").Then([&](const auto&) { second(); });
  };
  repeat();
  second();
  std::future<void> is_done = done.get_future();
  const bool is_answered = is_done.wait_for(kLong) == std::future_status::ready;
  is_over = true;
  second_done.get_future().wait();
  is_done.wait();
  CHECK(is_answered);
}

TEST_CASE("a blocking call returns only after the callbacks of earlier events") {
  ScriptedServer server({});
  auto client = Connect(server.address());
  REQUIRE(client->Create("/a").ok());
  std::promise<void> begun, go_on;
  std::atomic<bool> is_told{false};
  auto watch = client->Watch("/a", WatchScope::kNode, [&](const WatchNotification&) {
    begun.set_value();
    go_on.get_future().wait();
    is_told = true;
  });
  REQUIRE(watch.ok());
  client->AsyncSet("/a", "1").Then([](const auto&) {});
  begun.get_future().wait();
  auto read = std::async(std::launch::async, [&] {
    const auto got = client->Get("/a");
    return got.ok() && is_told;
  });
  CHECK(read.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  go_on.set_value();
  CHECK(read.get());
}

TEST_CASE("callbacks run on ClientOptions::executor, one at a time and in order") {
  ScriptedServer server({});
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool is_over = false;
  std::set<std::thread::id> ids;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      std::unique_lock<std::mutex> lock(mutex);
      for (;;) {
        changed.wait(lock, [&] { return is_over || !tasks.empty(); });
        if (tasks.empty()) return;
        const std::function<void()> task = std::move(tasks.front());
        tasks.pop_front();
        ids.insert(std::this_thread::get_id());
        lock.unlock();
        task();
        lock.lock();
      }
    });
  }
  ClientOptions options;
  options.executor = [&](std::function<void()> task) {
    std::lock_guard<std::mutex> lock(mutex);
    tasks.push_back(std::move(task));
    changed.notify_one();
  };
  auto client = Connect(server.address(), options);
  constexpr int kCalls = 2000;
  std::atomic<int> running{0};
  std::atomic<bool> is_alone{true};
  std::vector<int> order;
  absl::Status blocked;
  for (int i = 0; i < kCalls; ++i) {
    client->AsyncExists("/").Then([&, i](const auto&) {
      if (running.fetch_add(1) != 0) is_alone = false;
      order.push_back(i);
      if (i == 0) blocked = client->Sync();
      {
        std::lock_guard<std::mutex> lock(mutex);
        if (!ids.contains(std::this_thread::get_id())) is_alone = false;
      }
      running.fetch_sub(1);
    });
  }
  CHECK(client->Sync().ok());
  CHECK(is_alone);
  CHECK(order.size() == kCalls);
  CHECK(std::is_sorted(order.begin(), order.end()));
  CHECK(blocked.code() == absl::StatusCode::kFailedPrecondition);
  std::atomic<bool> is_cancelled{false};
  client->AsyncWatch("/", WatchScope::kNode, [](const auto&) {}).Then([&](const auto&) {
    is_cancelled = true;
  });
  client.reset();
  CHECK(is_cancelled);
  {
    std::lock_guard<std::mutex> lock(mutex);
    is_over = true;
    changed.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("the number of answers behind a slow callback is bounded, and keep-alives continue") {
  constexpr int kCalls = 30'000;
  constexpr int kWaitMax = 15'000;
  Collected<int> messages;
  std::atomic<int> served{0};
  ScriptedServer server({.at_moment =
                             [&](int, Moment moment) {
                               if (moment == Moment::kReceived) messages.Add(0);
                               return grpc::Status::OK;
                             },
                         .at_answer =
                             [&](const v1::Request& request, v1::Response*) {
                               if (request.has_exists()) ++served;  // does not count keep-alives
                             }});
  auto client = Connect(server.address(), {.session_timeout_ms = 3000});
  std::atomic<int> answered{0};
  std::promise<void> all;
  int served_meanwhile = 0;
  bool is_alive = false;
  RunInCallback(client.get(), [&] {
    for (int i = 0; i < kCalls; ++i) {
      client->AsyncExists("/").Then([&](const auto& exists) {
        if (exists.ok() && ++answered == kCalls) all.set_value();
      });
    }
    // Wait until the server receives only keep-alives.
    for (int last = -1; last != served_meanwhile;) {
      last = served_meanwhile;
      const size_t before = messages.WaitFor(0).size();
      is_alive = messages.WaitFor(before + 4).size() >= before + 4;
      served_meanwhile = served;
    }
  });
  CHECK(is_alive);
  CHECK(served_meanwhile < kWaitMax);
  CHECK(all.get_future().wait_for(kLong) == std::future_status::ready);
  CHECK(server.streams() == 1);
}

TEST_CASE("a WatchReset replaces the events behind a slow callback if there are too many") {
  constexpr int kTransactions = 40, kChanges = 1000;
  ScriptedServer server({});
  auto client = Connect(server.address());
  auto writer = Connect(server.address());
  REQUIRE(client->Create("/a").ok());
  std::promise<void> begun, go_on;
  std::shared_future<void> goes_on = go_on.get_future();
  int events = 0, resets = 0;
  int64_t last_zxid = 0;
  std::atomic<bool> has_begun{false};
  auto watch = client->Watch("/a", WatchScope::kNode, [&](const WatchNotification& notification) {
    if (!has_begun.exchange(true)) {
      begun.set_value();
      goes_on.wait();
    }
    if (const Event* event = std::get_if<Event>(&notification)) {
      ++events;
      last_zxid = event->zxid;
    } else {
      ++resets;
      last_zxid = std::get<WatchReset>(notification).zxid;
    }
  });
  REQUIRE(watch.ok());
  int64_t written_zxid = 0;
  for (int i = 0; i < kTransactions; ++i) {
    Transaction transaction;
    for (int j = 0; j < kChanges; ++j) transaction.Set("/a", "");
    const auto written = writer->Commit(transaction);
    REQUIRE(written.ok());
    written_zxid = written->zxid;
  }
  // This makes a request, because the scripted server sends events only with its answers.
  client->AsyncExists("/a").Then([](const auto&) {});
  begun.get_future().wait();
  auto synced = std::async(std::launch::async, [&] { return client->Sync(); });
  CHECK(synced.wait_for(std::chrono::milliseconds(200)) == std::future_status::timeout);
  go_on.set_value();
  REQUIRE(synced.get().ok());
  CHECK(events < kTransactions * kChanges);
  CHECK(resets == 1);
  CHECK(last_zxid == written_zxid);
  // After the reset no event is missed.
  const int before = events;
  REQUIRE(client->Set("/a", "new").ok());
  CHECK(events == before + 1);
  CHECK(resets == 1);
}

}  // namespace quorate
