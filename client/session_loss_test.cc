// SPDX-License-Identifier: Apache-2.0

// Tests of a client whose session is lost and replaced.

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/scripted_server.h"
#include "client/testing/collected.h"
#include "rpc/proto/errors.h"

namespace quorate {
namespace {

using testing::Collected;
using Moment = ScriptedServer::Moment;
using Type = SessionEvent::Type;

const grpc::Status kBroken(grpc::StatusCode::UNAVAILABLE, "broken by the script");

std::unique_ptr<Client> Connect(const std::string& servers, ClientOptions options = {}) {
  options.servers = servers;
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(std::move(options));
  INFO(client.status().ToString());
  REQUIRE(client.ok());
  return *std::move(client);
}

ClientOptions ListenWith(Collected<SessionEvent>* events) {
  ClientOptions options;
  options.on_session_event = [events](const SessionEvent& event) { events->Add(event); };
  return options;
}

std::vector<Type> TypesOf(const std::vector<SessionEvent>& events) {
  std::vector<Type> types;
  for (const SessionEvent& event : events) types.push_back(event.type);
  return types;
}

bool IsLost(const absl::Status& status) {
  return absl::IsUnauthenticated(status) && ErrorOf(status) == ErrorCode::kSessionExpired;
}

bool Says(const absl::Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

// A server that creates no session while `refuses_new` is true; streams of old ones are accepted.
struct Gate {
  std::atomic<bool> refuses_new{false};
  std::atomic<int> new_sessions{0};

  grpc::Status AtOpen(const v1::OpenSession& open) {
    if (open.session_id() != 0) return grpc::Status::OK;
    if (refuses_new) return kBroken;
    ++new_sessions;
    return grpc::Status::OK;
  }
  ScriptedServer::Script Script() {
    return {.at_open = [this](const v1::OpenSession& open) { return AtOpen(open); }};
  }
};

}  // namespace

TEST_CASE("a lost session is replaced, and the listeners learn of both sessions in order") {
  ScriptedServer server({});
  Collected<SessionEvent> events;
  auto client = Connect(server.address(), ListenWith(&events));
  const int64_t first = client->session_id();
  REQUIRE(client->Create("/a").ok());
  server.ExpireSessions();
  CHECK(IsLost(client->Sync()));
  // The numbers of writes begin at 1 again: the server would not answer another one.
  CHECK(client->Create("/b").ok());
  const std::vector<SessionEvent> reported = events.WaitFor(3);
  REQUIRE(TypesOf(reported) == std::vector<Type>{Type::kConnected, Type::kLost, Type::kReplaced});
  CHECK(reported[0].session_id == first);
  CHECK(reported[1].session_id == first);
  CHECK(!reported[1].is_final);
  CHECK(ErrorOf(reported[1].reason) == ErrorCode::kSessionExpired);
  CHECK(reported[2].session_id == client->session_id());
  CHECK(reported[2].session_id != first);
  CHECK(reported[2].server == server.address());
  CHECK(client->state() == Client::State::kConnected);
}

TEST_CASE("a session ends for its credentials only when every member has refused them") {
  const grpc::Status refused = v1::ToGrpc(v1::ToStatus(v1::ERROR_CODE_AUTH_FAILED, "unknown"));
  std::atomic<int> refusals{0};
  std::atomic<bool> do_all_refuse{false};
  ScriptedServer one({.at_open = [&](const v1::OpenSession&) {
    return do_all_refuse ? refused : grpc::Status::OK;
  }});
  ScriptedServer other({.at_open = [&](const v1::OpenSession&) {
    ++refusals;
    return refused;
  }});
  Collected<SessionEvent> events;
  auto client = Connect(one.address() + "," + other.address(), ListenWith(&events));
  REQUIRE(client->Create("/a").ok());
  for (int i = 1; i <= 3; ++i) {
    const int before = refusals;
    client->ChangeMember();
    while (refusals == before) std::this_thread::yield();
    CHECK(client->Exists("/a")->has_value());
  }
  for (const SessionEvent& event : events.WaitFor(1)) CHECK(event.type != Type::kLost);
  do_all_refuse = true;
  client->ChangeMember();
  absl::Status ended;
  do {
    ended = client->Sync();
  } while (ended.ok());
  CHECK(ErrorOf(ended) == ErrorCode::kAuthFailed);
  CHECK(client->state() == Client::State::kLost);
}

TEST_CASE("a client without a session learns of the refusal though a member cannot be reached") {
  ScriptedServer server({.at_open = [](const v1::OpenSession&) {
    return v1::ToGrpc(v1::ToStatus(v1::ERROR_CODE_AUTH_FAILED, "unknown"));
  }});
  const auto client = Client::Connect({.servers = "127.0.0.1:1," + server.address()});
  CHECK(ErrorOf(client.status()) == ErrorCode::kAuthFailed);
}

TEST_CASE("calls of the lost session fail, say what became of them, and are not made later") {
  std::atomic<bool> breaks{false};
  ScriptedServer server({.at_moment = [&](int, Moment moment) {
    return breaks && moment != Moment::kReceived ? kBroken : grpc::Status::OK;
  }});
  Collected<SessionEvent> events;
  auto client = Connect(server.address(), ListenWith(&events));
  breaks = true;
  auto sent = client->AsyncCreate("/sent");
  REQUIRE(TypesOf(events.WaitFor(2)).back() == Type::kSuspended);
  auto unsent = client->AsyncCreate("/unsent");
  auto read = client->AsyncGet("/sent");
  server.ExpireSessions();
  breaks = false;
  const absl::Status sent_status = sent.Wait().status(), unsent_status = unsent.Wait().status();
  CHECK(IsLost(sent_status));
  CHECK(Says(sent_status, "may or may not be made"));
  CHECK(IsLost(unsent_status));
  CHECK(Says(unsent_status, "was not sent, and will not be made"));
  CHECK(IsLost(read.Wait().status()));
  REQUIRE(client->Create("/next").ok());
  // The stream may have been broken before the server received the first write.
  std::vector<std::string> changes = server.changes();
  std::erase(changes, "create /sent");
  CHECK(changes == std::vector<std::string>{"create /next"});
}

TEST_CASE("calls without a session wait for the next one, until their deadlines") {
  Gate gate;
  ScriptedServer server(gate.Script());
  Collected<SessionEvent> events, late;
  auto client = Connect(server.address(), ListenWith(&events));
  gate.refuses_new = true;
  server.ExpireSessions();
  CHECK(IsLost(client->Sync()));
  CHECK(client->state() == Client::State::kConnecting);
  CHECK(client->session_id() == 0);
  CHECK(absl::IsDeadlineExceeded(client->Create("/too-late", "", {.deadline_ms = 30}).status()));
  auto waits = client->AsyncCreate("/waits");
  auto handle = client->ListenToSession([&](const SessionEvent& event) { late.Add(event); });
  const std::vector<SessionEvent> first = late.WaitFor(1);
  CHECK(TypesOf(first) == std::vector<Type>{Type::kSuspended});
  CHECK(first[0].session_id == 0);
  gate.refuses_new = false;
  CHECK(waits.Wait().ok());
  CHECK(TypesOf(late.WaitFor(2)) == std::vector<Type>{Type::kSuspended, Type::kReplaced});
  CHECK(TypesOf(events.WaitFor(3)) ==
        std::vector<Type>{Type::kConnected, Type::kLost, Type::kReplaced});
  CHECK(server.changes() == std::vector<std::string>{"create /waits"});
}

TEST_CASE("a watch reports one reset in the next session, and each event once after that") {
  ScriptedServer server({});
  auto client = Connect(server.address()), other = Connect(server.address());
  REQUIRE(other->Create("/a").ok());
  Collected<WatchNotification> reported;
  const auto add = [&](const WatchNotification& notification) { reported.Add(notification); };
  auto watch = client->Watch("/", WatchScope::kSubtree, add);
  REQUIRE(watch.ok());
  for (size_t sessions = 1; sessions <= 3; ++sessions) {
    server.ExpireSessions();
    while (!other->Sync().ok()) {
    }
    REQUIRE(other->Create("/missed-" + std::to_string(sessions)).ok());
    CHECK(IsLost(client->Sync()));
    REQUIRE(client->Sync().ok());
    // The reset precedes every answer of the new session.
    REQUIRE(reported.WaitFor(0).size() == 2 * sessions - 1);
    CHECK(std::holds_alternative<WatchReset>(reported.WaitFor(0).back()));
    const std::string path = "/seen-" + std::to_string(sessions);
    REQUIRE(client->Create(path).ok());
    REQUIRE(reported.WaitFor(0).size() == 2 * sessions);
    const WatchNotification last = reported.WaitFor(0).back();
    REQUIRE(std::holds_alternative<Event>(last));
    CHECK(std::get<Event>(last).path == path);
  }
}

TEST_CASE("a watch that was not set before the loss fails, and reports nothing") {
  std::atomic<bool> breaks{false};
  ScriptedServer server(
      {.at_moment = [&](int, Moment) { return breaks ? kBroken : grpc::Status::OK; }});
  Collected<SessionEvent> events;
  auto client = Connect(server.address(), ListenWith(&events));
  breaks = true;
  std::atomic<int> reported{0};
  auto watch =
      client->AsyncWatch("/a", WatchScope::kNode, [&](const WatchNotification&) { ++reported; });
  REQUIRE(TypesOf(events.WaitFor(2)).back() == Type::kSuspended);
  server.ExpireSessions();
  breaks = false;
  CHECK(IsLost(watch.Wait().status()));
  REQUIRE(client->Create("/a").ok());
  REQUIRE(client->Sync().ok());
  CHECK(reported == 0);
}

TEST_CASE("if the servers refuse the next session, kLost is reported again, and is final") {
  std::atomic<bool> refuses{false};
  ScriptedServer server({.at_open = [&](const v1::OpenSession& open) {
    if (!refuses || open.session_id() != 0) return grpc::Status::OK;
    return v1::ToGrpc(v1::ToStatus(v1::ERROR_CODE_AUTH_FAILED, "the credential was withdrawn"));
  }});
  Collected<SessionEvent> events;
  auto client = Connect(server.address(), ListenWith(&events));
  refuses = true;
  server.ExpireSessions();
  CHECK(IsLost(client->Sync()));
  const std::vector<SessionEvent> reported = events.WaitFor(3);
  REQUIRE(TypesOf(reported) == std::vector<Type>{Type::kConnected, Type::kLost, Type::kLost});
  CHECK(!reported[1].is_final);
  CHECK(reported[2].is_final);
  CHECK(ErrorOf(reported[2].reason) == ErrorCode::kAuthFailed);
  CHECK(ErrorOf(client->Create("/a").status()) == ErrorCode::kAuthFailed);
  CHECK(client->state() == Client::State::kLost);
}

TEST_CASE("a client that is closed or destroyed without a session ends") {
  const bool closes = GENERATE(true, false);
  CAPTURE(closes);
  Gate gate;
  ScriptedServer server(gate.Script());
  auto client = Connect(server.address());
  gate.refuses_new = true;
  server.ExpireSessions();
  CHECK(IsLost(client->Sync()));
  auto waits = client->AsyncCreate("/a");
  if (closes) {
    auto closed = std::async(std::launch::async, [&] { return client->Close(); });
    gate.refuses_new = false;
    CHECK(waits.Wait().ok());
    CHECK(closed.get().ok());
    CHECK(client->state() == Client::State::kClosed);
  } else {
    client.reset();
    CHECK(absl::IsCancelled(waits.Wait().status()));
  }
}

TEST_CASE("a session is lost and replaced while a callback blocks, and the events follow it") {
  Gate gate;
  ScriptedServer server(gate.Script());
  Collected<SessionEvent> events;
  ClientOptions options = ListenWith(&events);
  options.session_timeout_ms = 600;  // pings show the loss
  auto client = Connect(server.address(), options);
  REQUIRE(TypesOf(events.WaitFor(1)) == std::vector<Type>{Type::kConnected});
  const int64_t first = client->session_id();
  std::promise<void> blocks, is_blocked;
  client->AsyncExists("/").Then([&](const auto&) {
    is_blocked.set_value();
    blocks.get_future().wait();
  });
  is_blocked.get_future().wait();
  server.ExpireSessions();
  while (client->session_id() == first || client->session_id() == 0) {
    client->AsyncSync().Then([](const auto&) {});
    std::this_thread::yield();
  }
  CHECK(events.WaitFor(0).size() == 1);
  blocks.set_value();
  CHECK(TypesOf(events.WaitFor(3)) ==
        std::vector<Type>{Type::kConnected, Type::kLost, Type::kReplaced});
  CHECK(client->Create("/a").ok());
}

TEST_CASE("servers that end each session at once are not flooded with new ones") {
  Collected<int> opened;
  ScriptedServer server({.at_moment =
                             [&](int, Moment moment) {
                               return moment == Moment::kSent && opened.WaitFor(0).size() > 1
                                          ? grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "ended")
                                          : grpc::Status::OK;
                             },
                         .at_open =
                             [&](const v1::OpenSession&) {
                               opened.Add(0);
                               return grpc::Status::OK;
                             }});
  auto client = Connect(server.address());
  server.ExpireSessions();
  CHECK(IsLost(client->Sync()));
  const auto begun = std::chrono::steady_clock::now();
  CHECK(opened.WaitFor(8).size() >= 8);
  // The pauses are at least 5, 10, 20, 40, 80 and 160 ms.
  CHECK(std::chrono::steady_clock::now() - begun > std::chrono::milliseconds(200));
}

TEST_CASE("no write is made twice or in another session, however often sessions are lost") {
  constexpr int kRounds = 300, kWrites = 20;
  std::mt19937 random(20261127);
  std::atomic<uint32_t> ends{0};  // the number of moments until something ends; 0: nothing ends
  std::atomic<bool> expires{false};
  ScriptedServer* self = nullptr;
  ScriptedServer server({.at_moment = [&](int, Moment) {
    uint32_t left = ends.load();
    while (left > 0 && !ends.compare_exchange_weak(left, left - 1)) {
    }
    if (left != 1) return grpc::Status::OK;
    if (expires) self->ExpireSessions();
    return kBroken;
  }});
  self = &server;
  auto client = Connect(server.address());
  std::map<std::string, absl::Status> outcomes;
  int lost = 0;
  for (int round = 0; round < kRounds; ++round) {
    expires = random() % 4 != 0;
    ends = 1 + random() % 6;
    std::vector<std::pair<std::string, Call<CreateResult>>> calls;
    for (int i = 0; i < kWrites; ++i) {
      const std::string path = "/" + std::to_string(round) + "-" + std::to_string(i);
      calls.emplace_back(path, client->AsyncCreate(path));
      if (random() % 8 == 0) std::this_thread::yield();
    }
    for (auto& [path, call] : calls) {
      outcomes[path] = call.Wait().status();
      lost += IsLost(outcomes[path]) ? 1 : 0;
    }
  }
  ends = 0;
  std::map<std::string, int> made;
  for (const std::string& change : server.changes()) ++made[change.substr(sizeof("create ") - 1)];
  int wrong = 0;
  for (const auto& [path, status] : outcomes) {
    const int count = made[path];
    const bool is_right = status.ok()                              ? count == 1
                          : Says(status, "may or may not be made") ? count <= 1
                                                                   : IsLost(status) && count == 0;
    wrong += is_right ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK(lost > kRounds);
}

TEST_CASE("a client gives up to replace its session after the time of its retry policy") {
  Gate gate;
  ScriptedServer server(gate.Script());
  Collected<SessionEvent> events;
  ClientOptions options = ListenWith(&events);
  options.retry = {.pause_min_ms = 1, .pause_max_ms = 10, .give_up_after_ms = 100};
  auto client = Connect(server.address(), options);
  gate.refuses_new = true;
  server.ExpireSessions();
  CHECK(IsLost(client->Sync()));
  auto waits = client->AsyncCreate("/a");
  const std::vector<SessionEvent> reported = events.WaitFor(3);
  REQUIRE(TypesOf(reported) == std::vector<Type>{Type::kConnected, Type::kLost, Type::kLost});
  CHECK(reported[2].is_final);
  CHECK(absl::IsUnavailable(reported[2].reason));
  const absl::Status status = waits.Wait().status();
  CHECK(absl::IsUnavailable(status));
  CHECK(Says(status, "was not sent, and will not be made"));
  CHECK(client->state() == Client::State::kLost);
}

TEST_CASE("a retry policy that cannot be used makes Connect fail") {
  for (const RetryPolicy& policy :
       {RetryPolicy{0, 10, 0}, RetryPolicy{10, 9, 0}, RetryPolicy{10, 10, -1}}) {
    ClientOptions options;
    options.servers = "127.0.0.1:1";
    options.retry = policy;
    CHECK(absl::IsInvalidArgument(Client::Connect(std::move(options)).status()));
  }
}

TEST_CASE("the log has a line for each connection, and for the loss of the session") {
  ScriptedServer server({});
  Collected<std::string> lines;
  ClientOptions options;
  options.log = [&](LogLevel level, std::string_view line) {
    lines.Add((level == LogLevel::kWarning ? "W " : "I ") + std::string(line));
  };
  auto client = Connect(server.address(), options);
  server.ExpireSessions();
  CHECK(IsLost(client->Sync()));
  const std::vector<std::string> reported = lines.WaitFor(3);
  REQUIRE(reported.size() == 3);
  CHECK(reported[0] == "I connected server=" + server.address() + " session=0x1");
  CHECK(reported[1].starts_with("W session lost session=0x1 reason="));
  CHECK(reported[2] == "I connected server=" + server.address() + " session=0x2");
}

}  // namespace quorate
