// SPDX-License-Identifier: Apache-2.0

// Tests of what calls do before they are sent, and of the reports of their begin and end.

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
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

// Longer than any test takes, so that a server that holds back its answers is not left.
constexpr int kLongTimeoutMs = 300'000;

std::unique_ptr<Client> Connect(const std::string& servers, ClientOptions options = {}) {
  options.servers = servers;
  options.session_timeout_ms = kLongTimeoutMs;
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(std::move(options));
  INFO(client.status().ToString());
  REQUIRE(client.ok());
  return *std::move(client);
}

// Holds back the answers of a server while it is closed.
class Gate {
 public:
  grpc::Status Pass(Moment moment) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (moment == Moment::kReceived) changed_.wait(lock, [this] { return is_open_; });
    return grpc::Status::OK;
  }
  void Set(bool is_open) {
    std::lock_guard<std::mutex> lock(mutex_);
    is_open_ = is_open;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = true;
};

TEST_CASE("credentials that a stream could not present are refused before they are sent") {
  ScriptedServer server({});
  auto client = Connect(server.address());
  const Credential large{.secret = std::string(13'000, 'x')};
  const absl::Status refused = client->AddCredential(large);
  CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
  CHECK(client->AddCredential({.scheme = "Digest "}).code() == absl::StatusCode::kInvalidArgument);
  for (const Credential& wrong : {large, Credential{.scheme = "a b"}, Credential{.scheme = ""}}) {
    const auto connected = Client::Connect({.servers = server.address(), .credentials = {wrong}});
    CHECK(connected.status().code() == absl::StatusCode::kInvalidArgument);
  }
  CHECK(client->Sync().ok());
}

TEST_CASE("with kBlock, calls beyond the limit wait for others, and all succeed") {
  Gate gate;
  ScriptedServer server({.at_moment = [&](int, Moment moment) { return gate.Pass(moment); }});
  ClientOptions options;
  options.pending_calls_max = 2;
  options.when_full = WhenFull::kBlock;
  auto client = Connect(server.address(), options);
  gate.Set(false);
  std::atomic<int> made = 0;
  Collected<bool> outcomes;
  std::thread caller([&] {
    for (int i = 0; i < 20; ++i) {
      client->AsyncCreate("/n" + std::to_string(i)).Then([&](const auto& created) {
        outcomes.Add(created.ok());
      });
      ++made;
    }
  });
  // A call with a deadline ends while the others wait. When it ends, both places are taken.
  while (made < 2) std::this_thread::yield();
  const absl::Status late = client->Get("/n0", {.deadline_ms = 50}).status();
  CHECK(late.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(late.message().find("nothing was sent") != absl::string_view::npos);
  CHECK(made == 2);
  gate.Set(true);
  caller.join();
  CHECK(outcomes.WaitFor(20) == std::vector<bool>(20, true));
  CHECK(server.changes().size() == 20);
}

TEST_CASE("with kBlock, a callback is refused what it may not wait for") {
  Gate gate;
  ScriptedServer server({.at_moment = [&](int, Moment moment) { return gate.Pass(moment); }});
  ClientOptions options;
  options.pending_calls_max = 1;
  options.pending_bytes_max = 1000;
  options.when_full = WhenFull::kBlock;
  auto client = Connect(server.address(), options);
  Collected<absl::StatusCode> codes;
  client->AsyncSync().Then([&](const auto&) {
    gate.Set(false);
    client->AsyncSync().Then([&](const auto& synced) { codes.Add(synced.status().code()); });
    client->AsyncSync().Then([&](const auto& synced) { codes.Add(synced.status().code()); });
    gate.Set(true);
  });
  auto got = codes.WaitFor(2);
  std::sort(got.begin(), got.end());
  CHECK(got ==
        std::vector<absl::StatusCode>{absl::StatusCode::kOk, absl::StatusCode::kResourceExhausted});
  // Waiting would not help.
  CHECK(client->Create("/a", std::string(2000, 'x')).status().code() ==
        absl::StatusCode::kResourceExhausted);
}

TEST_CASE("with kBlock, a call does not wait while the callbacks have no room for answers") {
  ScriptedServer server({});
  ClientOptions options;
  options.pending_calls_max = 4;
  options.when_full = WhenFull::kBlock;
  auto client = Connect(server.address(), options);
  REQUIRE(client->Create("/big", std::string(1 << 20, 'x')).ok());
  std::promise<void> may_return;
  client->AsyncSync().Then([done = may_return.get_future().share()](const auto&) { done.wait(); });
  // More answers than may wait for the callback, which waits for the thread that makes these calls.
  constexpr int kCalls = 40;
  Collected<absl::StatusCode> codes;
  auto made = std::async(std::launch::async, [&] {
    for (int i = 0; i < kCalls; ++i) {
      client->AsyncGet("/big").Then([&](const auto& got) { codes.Add(got.status().code()); });
    }
  });
  CHECK(made.wait_for(std::chrono::seconds(30)) == std::future_status::ready);
  may_return.set_value();
  made.wait();
  const auto got = codes.WaitFor(kCalls);
  REQUIRE(got.size() == kCalls);
  const auto ok = std::ranges::count(got, absl::StatusCode::kOk);
  CHECK(ok >= 16);
  CHECK(ok < kCalls);
  CHECK(std::ranges::count(got, absl::StatusCode::kResourceExhausted) == kCalls - ok);
  CHECK(client->Sync().ok());
}

TEST_CASE("the ancestors of a create that has begun are created beyond the limit of calls") {
  ScriptedServer server({});
  for (const WhenFull when_full : {WhenFull::kBlock, WhenFull::kRefuse}) {
    ClientOptions options;
    options.pending_calls_max = 1;
    options.when_full = when_full;
    auto client = Connect(server.address(), options);
    const std::string path = when_full == WhenFull::kBlock ? "/a/b/c/d" : "/e/f/g/h";
    CHECK(client->Create(path, "", {.create_parents = true}).ok());
    CHECK(client->Exists(path)->has_value());
  }
}

TEST_CASE("the begin and the end of each call are reported") {
  ScriptedServer server({});
  Collected<CallBegin> begins;
  Collected<CallEnd> ends;
  ClientOptions options;
  options.on_call_begin = [&](const CallBegin& begin) { begins.Add(begin); };
  options.on_call_end = [&](const CallEnd& end) { ends.Add(end); };
  auto client = Connect(server.address(), options);
  REQUIRE(client->Create("/a/b/c", "", {.create_parents = true}).ok());
  CHECK(ends.WaitFor(1).size() == 1);  // it was reported before its outcome
  CHECK_FALSE(client->Get("/none").ok());
  CHECK_FALSE(client->Create("/big", std::string(8 << 20, 'x')).ok());
  Transaction transaction;
  transaction.Create("/x").Set("/x", "1");
  REQUIRE(client->Commit(transaction).ok());
  auto watch = client->Watch("/a", WatchScope::kNode, [](const WatchNotification&) {});
  REQUIRE(watch.ok());
  REQUIRE(client->Close().ok());
  const std::vector<CallEnd> ended = ends.WaitFor(6);
  const std::vector<CallBegin> begun = begins.WaitFor(6);
  REQUIRE(ended.size() == 6);
  REQUIRE(begun.size() == 6);
  const std::vector<std::string> names = {"Create", "Get", "Create", "Commit", "Watch", "Close"};
  for (size_t i = 0; i < names.size(); ++i) {
    CAPTURE(i);
    CHECK(begun[i].name == names[i]);
    CHECK(ended[i].name == names[i]);
    CHECK(ended[i].call == begun[i].call);
    CHECK(ended[i].duration > std::chrono::nanoseconds(0));
  }
  CHECK(ended[0].status.ok());
  CHECK(ended[0].server == server.address());
  CHECK(ErrorOf(ended[1].status) == ErrorCode::kNoNode);
  CHECK(ended[1].server == server.address());
  CHECK(ErrorOf(ended[2].status) == ErrorCode::kTooLarge);
  CHECK(ended[2].server.empty());  // the client has refused it
  CHECK(ended[3].status.ok());
  CHECK(ended[5].status.ok());
  CHECK(ended[5].server == server.address());
}

TEST_CASE("the end of a call has the status that the caller gets") {
  // The server is of a version without the details of lists.
  ScriptedServer server({.at_answer = [](const v1::Request& request, v1::Response* response) {
    if (request.has_list()) response->mutable_list()->clear_child_stats();
  }});
  Collected<CallEnd> ends;
  ClientOptions options;
  options.on_call_end = [&](const CallEnd& end) { ends.Add(end); };
  auto client = Connect(server.address(), options);
  REQUIRE(client->Create("/a").ok());
  const absl::Status status = client->List("/", {}, {.with_stats = true}).status();
  REQUIRE(ErrorOf(status) == ErrorCode::kUnimplemented);
  const std::vector<CallEnd> ended = ends.WaitFor(2);
  CHECK(ended[1].status == status);
  CHECK(ended[1].server == server.address());
}

TEST_CASE("the end of a call that no member answers has no server") {
  Gate gate;
  ScriptedServer server({.at_moment = [&](int, Moment moment) { return gate.Pass(moment); }});
  Collected<CallEnd> ends;
  ClientOptions options;
  options.on_call_end = [&](const CallEnd& end) { ends.Add(end); };
  auto client = Connect(server.address(), options);
  gate.Set(false);
  CHECK(client->Get("/a", {.deadline_ms = 20}).status().code() ==
        absl::StatusCode::kDeadlineExceeded);
  const std::vector<CallEnd> ended = ends.WaitFor(1);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].status.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(ended[0].server.empty());
  CHECK(ended[0].duration >= std::chrono::milliseconds(20));
  gate.Set(true);
}

}  // namespace
}  // namespace quorate
