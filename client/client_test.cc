// SPDX-License-Identifier: Apache-2.0

// Tests of the client against a server that breaks its streams and misbehaves in other ways.

#include "client/client.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <coroutine>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "client/scripted_server.h"
#include "client/testing/collected.h"

namespace quorate {
namespace {

using testing::Collected;
using Moment = ScriptedServer::Moment;

const grpc::Status kBroken(grpc::StatusCode::UNAVAILABLE, "broken by the script");

std::unique_ptr<Client> Connect(const std::string& servers, ClientOptions options = {}) {
  options.servers = servers;
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(std::move(options));
  INFO(client.status().ToString());
  REQUIRE(client.ok());
  return *std::move(client);
}

// A member that accepts connections, and never sends anything.
class SilentMember {
 public:
  SilentMember() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    REQUIRE(bind(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(socket_, 8) == 0);
    REQUIRE(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~SilentMember() {
    was_tried();
    for (const int connection : connections_) close(connection);
    close(socket_);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  // Returns whether a client has connected since the last call.
  bool was_tried() {
    const size_t before = connections_.size();
    for (int accepted = 0; (accepted = accept(socket_, nullptr, nullptr)) >= 0;) {
      connections_.push_back(accepted);
    }
    return connections_.size() > before;
  }

 private:
  const int socket_;
  int port_ = 0;
  std::vector<int> connections_;
};

std::string TextOf(const WatchNotification& notification) {
  if (const Event* event = std::get_if<Event>(&notification)) {
    return event->path + "@" + std::to_string(event->zxid);
  }
  return "reset@" + std::to_string(std::get<WatchReset>(notification).zxid);
}

std::atomic<int> stand_still_ms{0};

// Stops all threads of this process called `name` for `milliseconds`. Returns the number of stopped
// threads.
int StandStill(const std::string& name, int milliseconds) {
  stand_still_ms = milliseconds;
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = [](int) {
    const timespec pause{stand_still_ms / 1000, stand_still_ms % 1000 * 1'000'000L};
    nanosleep(&pause, nullptr);
  };
  REQUIRE(sigaction(SIGUSR1, &action, nullptr) == 0);
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string found;
    std::getline(std::ifstream(task.path() / "comm"), found);
    if (found != name) continue;
    const int thread = std::stoi(task.path().filename().string());
    if (syscall(SYS_tgkill, getpid(), thread, SIGUSR1) == 0) ++count;
  }
  return count;
}

std::vector<std::string> NumberedSets(int count) {
  std::vector<std::string> changes{"create /a"};
  for (int i = 0; i < count; ++i) changes.push_back("set /a=" + std::to_string(i));
  return changes;
}

}  // namespace

TEST_CASE("each write is made once wherever the stream breaks") {
  constexpr int kWrites = 12;
  for (int broken = 1; broken <= 40; ++broken) {
    CAPTURE(broken);
    ScriptedServer server({.at_moment = [broken](int number, Moment) {
      return number == broken || number == broken + 2 ? kBroken : grpc::Status::OK;
    }});
    auto client = Connect(server.address());
    std::vector<Call<Stat>> calls;
    REQUIRE(client->Create("/a").ok());
    for (int i = 0; i < kWrites / 2; ++i) CHECK(client->Set("/a", std::to_string(i)).ok());
    for (int i = kWrites / 2; i < kWrites; ++i) {
      calls.push_back(client->AsyncSet("/a", std::to_string(i)));
    }
    for (Call<Stat>& call : calls) CHECK(call.Wait().ok());
    CHECK(client->Get("/a")->data == std::to_string(kWrites - 1));
    CHECK(server.changes() == NumberedSets(kWrites));
  }
}

TEST_CASE("each write is made once if streams never last") {
  ScriptedServer server(
      {.at_moment = [](int number, Moment) { return number % 9 == 0 ? kBroken : grpc::Status::OK; },
       .sends_single_items = true});
  auto client = Connect(server.address());
  REQUIRE(client->Create("/a").ok());
  for (int i = 0; i < 20; ++i) REQUIRE(client->Set("/a", std::to_string(i)).ok());
  CHECK(server.changes() == NumberedSets(20));
  CHECK(server.streams() > 5);
}

TEST_CASE("a watch reports each event once, in order, wherever the stream breaks") {
  constexpr int kTransactions = 5;
  for (int broken = 1; broken <= 60; ++broken) {
    CAPTURE(broken);
    ScriptedServer server({.at_moment =
                               [broken](int number, Moment) {
                                 return number == broken || number == broken + 7 ? kBroken
                                                                                 : grpc::Status::OK;
                               },
                           .sends_single_items = true});
    Collected<std::string> told;
    auto client = Connect(server.address());
    REQUIRE(client->Create("/a").ok());
    auto watch = client->Watch("/", WatchScope::kSubtree,
                               [&](const WatchNotification& n) { told.Add(TextOf(n)); });
    REQUIRE(watch.ok());
    std::vector<std::string> expected;
    for (int i = 0; i < kTransactions; ++i) {
      // Several events of one zxid.
      const std::string name = "/a/" + std::to_string(i);
      auto result = client->Commit(Transaction().Create(name).Set(name, "1").Set(name, "2"));
      REQUIRE(result.ok());
      for (int k = 0; k < 3; ++k) expected.push_back(name + "@" + std::to_string(result->zxid));
      // All events are delivered before the answer that could show the change.
      CHECK(told.WaitFor(0).size() == expected.size());
    }
    CHECK(told.WaitFor(0) == expected);
  }
}

TEST_CASE("a watch whose events are lost reports one reset, and continues") {
  std::atomic<bool> breaks{false};
  ScriptedServer server({.at_moment = [&](int, Moment moment) {
    return moment == Moment::kDone && breaks.exchange(false) ? kBroken : grpc::Status::OK;
  }});
  Collected<std::string> told;
  auto client = Connect(server.address());
  auto writer = Connect(server.address());
  auto watch = client->Watch("/", WatchScope::kSubtree,
                             [&](const WatchNotification& n) { told.Add(TextOf(n)); });
  REQUIRE(watch.ok());
  REQUIRE(writer->Create("/lost").ok());
  server.ForgetEvents();
  breaks = true;
  REQUIRE(client->Sync().ok());
  // The reset is delivered before any answer that may show the lost changes.
  CHECK(told.WaitFor(0) == std::vector<std::string>{"reset@101"});
  REQUIRE(client->Create("/b").ok());
  CHECK(told.WaitFor(2) == std::vector<std::string>{"reset@101", "/b@102"});

  // A watch whose after_zxid is too old gets a reset, too.
  Collected<std::string> late;
  auto second =
      client->Watch("/", WatchScope::kSubtree,
                    [&](const WatchNotification& n) { late.Add(TextOf(n)); }, {.after_zxid = 100});
  REQUIRE(second.ok());
  CHECK(late.WaitFor(0) == std::vector<std::string>{"reset@102"});
}

TEST_CASE("a watch continues from the last zxid received, even if that was not an event's") {
  std::atomic<bool> breaks{false};
  ScriptedServer server({.at_moment = [&](int, Moment moment) {
    return moment == Moment::kDone && breaks.exchange(false) ? kBroken : grpc::Status::OK;
  }});
  Collected<std::string> told;
  auto client = Connect(server.address());
  auto watch = client->Watch("/quiet", WatchScope::kSubtree,
                             [&](const WatchNotification& n) { told.Add(TextOf(n)); });
  REQUIRE(watch.ok());
  REQUIRE(client->Create("/a").ok());
  REQUIRE(client->Sync().ok());
  server.ForgetEvents();
  breaks = true;
  REQUIRE(client->Create("/quiet").ok());
  CHECK(told.WaitFor(0) == std::vector<std::string>{"/quiet@102"});
}

TEST_CASE("a watch with an earlier after_zxid reports the events since then") {
  ScriptedServer server({});
  auto client = Connect(server.address());
  const int64_t before = client->Create("/a")->zxid;
  REQUIRE(client->Set("/a", "1").ok());
  Collected<std::string> told;
  auto watch = client->Watch("/a", WatchScope::kNode,
                             [&](const WatchNotification& n) { told.Add(TextOf(n)); },
                             {.after_zxid = before});
  REQUIRE(watch.ok());
  CHECK(told.WaitFor(0) == std::vector<std::string>{"/a@102"});
}

TEST_CASE("a handle that is destroyed ends its watch") {
  ScriptedServer server({});
  auto client = Connect(server.address());
  REQUIRE(client->Create("/a").ok());
  Collected<std::string> told;
  {
    auto watch = client->Watch("/a", WatchScope::kNode,
                               [&](const WatchNotification& n) { told.Add(TextOf(n)); });
    REQUIRE(watch.ok());
    REQUIRE(client->Set("/a", "1").ok());
  }
  REQUIRE(client->Set("/a", "2").ok());
  CHECK(told.WaitFor(0).size() == 1);

  // A watch that is ended by its own callback.
  WatchHandle handle;
  auto watch = client->Watch("/a", WatchScope::kNode, [&](const WatchNotification& n) {
    told.Add(TextOf(n));
    handle.End();
  });
  REQUIRE(watch.ok());
  handle = *std::move(watch);
  REQUIRE(client->Set("/a", "3").ok());
  REQUIRE(client->Set("/a", "4").ok());
  CHECK(told.WaitFor(0).size() == 2);
}

TEST_CASE("with kStop the loss of the session fails every call, and is reported") {
  std::atomic<bool> is_silent{false};
  std::atomic<bool> breaks{false};
  ScriptedServer server(
      {.at_moment = [&](int, Moment) { return breaks ? kBroken : grpc::Status::OK; },
       .is_silent = [&] { return is_silent.load(); }});
  Collected<SessionEvent::Type> events;
  ClientOptions options;
  options.on_session_loss = SessionLoss::kStop;
  options.on_session_event = [&](const SessionEvent& event) { events.Add(event.type); };
  auto client = Connect(server.address(), options);
  breaks = true;
  auto call = client->AsyncCreate("/a");
  REQUIRE(events.WaitFor(2).back() == SessionEvent::Type::kSuspended);
  CHECK(client->state() == Client::State::kSuspended);
  server.ExpireSessions();
  breaks = false;
  const absl::Status status = call.Wait().status();
  CHECK(status.code() == absl::StatusCode::kUnauthenticated);
  CHECK(ErrorOf(status) == ErrorCode::kSessionExpired);
  CHECK(events.WaitFor(3) == std::vector<SessionEvent::Type>{SessionEvent::Type::kConnected,
                                                             SessionEvent::Type::kSuspended,
                                                             SessionEvent::Type::kLost});
  CHECK(ErrorOf(client->Get("/a").status()) == ErrorCode::kSessionExpired);
  CHECK(client->state() == Client::State::kLost);
}

TEST_CASE("session events are reported in order, before the outcomes of the calls they concern") {
  using Type = SessionEvent::Type;
  std::atomic<bool> breaks{false};
  ScriptedServer server(
      {.at_moment = [&](int, Moment) { return breaks ? kBroken : grpc::Status::OK; }});
  Collected<SessionEvent> events;
  const auto types = [&events](size_t count) {
    std::vector<Type> told;
    for (const SessionEvent& event : events.WaitFor(count)) told.push_back(event.type);
    return told;
  };
  ClientOptions options;
  options.on_session_loss = SessionLoss::kStop;
  options.on_session_event = [&](const SessionEvent& event) { events.Add(event); };
  auto client = Connect(server.address(), options);
  CHECK(types(1) == std::vector<Type>{Type::kConnected});
  breaks = true;
  auto waits = client->AsyncCreate("/a");
  REQUIRE(types(2) == std::vector<Type>{Type::kConnected, Type::kSuspended});
  CHECK(client->state() == Client::State::kSuspended);
  breaks = false;
  REQUIRE(waits.Wait().ok());
  REQUIRE(types(0) == std::vector<Type>{Type::kConnected, Type::kSuspended, Type::kReconnected});
  CHECK(client->state() == Client::State::kConnected);
  server.ExpireSessions();
  REQUIRE(!client->Create("/b").ok());
  REQUIRE(types(0) ==
          std::vector<Type>{Type::kConnected, Type::kSuspended, Type::kReconnected, Type::kLost});
  const std::vector<SessionEvent> told = events.WaitFor(0);
  CHECK(told[0].server == server.address());
  CHECK(told[1].reason.code() == absl::StatusCode::kUnavailable);
  CHECK(told[2].server == server.address());
  CHECK(told[2].reason.ok());
  CHECK(ErrorOf(told[3].reason) == ErrorCode::kSessionExpired);
}

TEST_CASE("a session listener gets the current state, and then events until its handle ends") {
  using Type = SessionEvent::Type;
  std::atomic<bool> breaks{false};
  ScriptedServer server(
      {.at_moment = [&](int, Moment) { return breaks ? kBroken : grpc::Status::OK; }});
  ClientOptions options;
  options.on_session_loss = SessionLoss::kStop;
  auto client = Connect(server.address(), options);
  Collected<Type> first, second, late, last;
  auto listen = [&](Collected<Type>* heard) {
    return client->ListenToSession([heard](const SessionEvent& event) { heard->Add(event.type); });
  };
  auto first_handle = listen(&first);
  std::optional<WatchHandle> ends_itself;
  ends_itself = client->ListenToSession([&](const SessionEvent& event) {
    second.Add(event.type);
    ends_itself->End();
  });
  REQUIRE(client->Sync().ok());
  breaks = true;
  auto call = client->AsyncCreate("/a");
  REQUIRE(first.WaitFor(1) == std::vector<Type>{Type::kSuspended});
  auto late_handle = listen(&late);
  REQUIRE(late.WaitFor(1) == std::vector<Type>{Type::kSuspended});
  server.ExpireSessions();
  breaks = false;
  REQUIRE(!call.Wait().ok());
  // kLost was reported before the call failed.
  CHECK(first.WaitFor(0) == std::vector<Type>{Type::kSuspended, Type::kLost});
  CHECK(late.WaitFor(0) == std::vector<Type>{Type::kSuspended, Type::kLost});
  CHECK(second.WaitFor(0) == std::vector<Type>{Type::kSuspended});
  auto last_handle = listen(&last);
  CHECK(last.WaitFor(1) == std::vector<Type>{Type::kLost});
  client.reset();
  CHECK(first.WaitFor(0).size() == 2);
}

TEST_CASE("session listeners get kLost when the client is closed or destroyed") {
  const bool closes = GENERATE(false, true);
  CAPTURE(closes);
  std::atomic<bool> is_silent{false};
  ScriptedServer server({.is_silent = [&] { return is_silent.load(); }});
  auto client = Connect(server.address());
  Collected<SessionEvent::Type> heard;
  auto handle = client->ListenToSession([&](const SessionEvent& event) { heard.Add(event.type); });
  if (closes) {
    REQUIRE(client->Close().ok());
    CHECK(heard.WaitFor(0).size() == 1);
  }
  is_silent = true;
  client.reset();
  CHECK(heard.WaitFor(0) == std::vector<SessionEvent::Type>{SessionEvent::Type::kLost});
}

TEST_CASE("kSuspended is reported in time, although some members were not tried yet") {
  using Clock = std::chrono::steady_clock;
  // A silent member is left after a fifth of the timeout. kSuspended is reported after a quarter of
  // the timeout, or when all members of a round were tried. So at most two members are tried before
  // it.
  constexpr int kSessionTimeoutMs = 2000;
  constexpr std::chrono::milliseconds kAttempt{kSessionTimeoutMs / 5}, kTold{kSessionTimeoutMs / 4};
  constexpr ptrdiff_t kSilent = 5, kTriedMax = 2;
  struct Suspension {
    Clock::time_point time;
    ptrdiff_t tried;
  };
  std::atomic<bool> breaks{false};
  ScriptedServer server(
      {.at_moment = [&](int, Moment) { return breaks ? kBroken : grpc::Status::OK; }});
  std::vector<std::unique_ptr<SilentMember>> silent;
  std::string servers = server.address();
  for (int i = 0; i < kSilent; ++i) {
    silent.push_back(std::make_unique<SilentMember>());
    servers += "," + silent.back()->address();
  }
  const auto count_tried = [&silent] {
    return std::count_if(silent.begin(), silent.end(),
                         [](const auto& member) { return member->was_tried(); });
  };
  // The number of members after the serving one in its round: set before `breaks`.
  ptrdiff_t left = 0;
  Collected<Suspension> told;
  ClientOptions options;
  options.session_timeout_ms = kSessionTimeoutMs;
  options.connect_timeout_ms = 20'000;
  options.on_session_event = [&](const SessionEvent& event) {
    if (!breaks || event.type != SessionEvent::Type::kSuspended) return;
    Suspension suspension{Clock::now(), count_tried()};
    // The first connection that the client has begun may not have arrived yet: wait for it.
    const Clock::time_point end = Clock::now() + std::chrono::seconds(10);
    while (suspension.tried == 0 && left > 0 && Clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      suspension.tried = count_tried();
    }
    told.Add(suspension);
  };
  auto client = Connect(servers, options);
  left = kSilent - count_tried();
  const Clock::time_point broken = Clock::now();
  breaks = true;
  auto call = client->AsyncSync();
  const std::vector<Suspension> suspensions = told.WaitFor(1);
  REQUIRE(suspensions.size() == 1);
  CHECK(suspensions[0].time - broken >= std::min(left * kAttempt, kTold));
  CHECK(suspensions[0].tried >= std::min<ptrdiff_t>(left, 1));
  CHECK(suspensions[0].tried <= kTriedMax);
  breaks = false;
  CHECK(call.Wait().ok());
}

TEST_CASE("the status of a missed deadline says whether a write may have been made") {
  std::atomic<bool> is_silent{false};
  ScriptedServer server({.is_silent = [&] { return is_silent.load(); }});
  auto client = Connect(server.address());
  REQUIRE(client->Create("/a").ok());
  is_silent = true;
  auto sent = client->Set("/a", "1", {.deadline_ms = 30});
  CHECK(sent.status().code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(std::string(sent.status().message()).find("may or may not be made") != std::string::npos);
  auto read = client->Get("/a", {.deadline_ms = 1});
  CHECK(read.status().code() == absl::StatusCode::kDeadlineExceeded);
}

TEST_CASE("an unsent write is not made after its deadline or its cancellation") {
  std::atomic<bool> breaks{false};
  ScriptedServer server(
      {.at_moment = [&](int, Moment) { return breaks ? kBroken : grpc::Status::OK; }});
  Collected<SessionEvent::Type> events;
  ClientOptions options;
  options.on_session_event = [&](const SessionEvent& event) { events.Add(event.type); };
  auto client = Connect(server.address(), options);
  REQUIRE(client->Create("/a").ok());
  breaks = true;
  auto read = client->AsyncGet("/a");
  REQUIRE(events.WaitFor(2).back() == SessionEvent::Type::kSuspended);
  auto late = client->AsyncSet("/a", "late", {.deadline_ms = 1});
  auto cancelled = client->AsyncSet("/a", "cancelled");
  cancelled.Cancel();
  const absl::Status late_status = late.Wait().status();
  const absl::Status cancelled_status = cancelled.Wait().status();
  CHECK(late_status.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(cancelled_status.code() == absl::StatusCode::kCancelled);
  for (const absl::Status& status : {late_status, cancelled_status}) {
    CHECK(std::string(status.message()).find("will not be made") != std::string::npos);
  }
  breaks = false;
  CHECK(read.Wait().ok());
  CHECK(client->Set("/a", "made").ok());
  CHECK(server.changes() == std::vector<std::string>{"create /a", "set /a=made"});
}

TEST_CASE("calls beyond the limit fail at once, and the pending ones succeed") {
  std::atomic<bool> is_silent{false};
  ScriptedServer server({.is_silent = [&] { return is_silent.load(); }});
  Collected<SessionEvent::Type> events;
  ClientOptions options;
  options.pending_calls_max = 2;
  options.session_timeout_ms = 600;
  options.on_session_event = [&](const SessionEvent& event) { events.Add(event.type); };
  auto client = Connect(server.address(), options);
  is_silent = true;
  auto first = client->AsyncCreate("/a");
  auto second = client->AsyncCreate("/b");
  CHECK(client->Get("/a").status().code() == absl::StatusCode::kResourceExhausted);
  // The client leaves the silent stream, and further streams while they are silent.
  REQUIRE(events.WaitFor(2).back() == SessionEvent::Type::kSuspended);
  is_silent = false;
  CHECK(first.Wait().ok());
  CHECK(second.Wait().ok());
  CHECK(client->Get("/a").ok());
  // There may be more than two if the machine was slow.
  CHECK(server.streams() >= 2);
}

TEST_CASE("writes that fail with TOO_MANY_UNACKNOWLEDGED are sent again and succeed") {
  std::atomic<int> refusals{0};
  ScriptedServer server(
      {.at_moment = nullptr, .at_answer = [&](const v1::Request& request, v1::Response* response) {
         if (!request.has_write() || request.write().sequence() != 5) return;
         if (refusals.fetch_add(1) >= 3) return;
         response->Clear();
         response->set_error(v1::ERROR_CODE_TOO_MANY_UNACKNOWLEDGED);
       }});
  auto client = Connect(server.address());
  REQUIRE(client->Create("/a").ok());
  std::vector<Call<Stat>> calls;
  for (int i = 0; i < 10; ++i) calls.push_back(client->AsyncSet("/a", std::to_string(i)));
  for (Call<Stat>& call : calls) CHECK(call.Wait().ok());
  CHECK(server.changes() == NumberedSets(10));
}

TEST_CASE("received answers are acknowledged with the next message") {
  ScriptedServer server({});
  auto client = Connect(server.address());
  REQUIRE(client->Create("/a").ok());
  REQUIRE(client->Set("/a", "1").ok());
  REQUIRE(client->Sync().ok());
  CHECK(server.acknowledged() == 2);
}

TEST_CASE("blocking in a callback is an error instead of a deadlock") {
  ScriptedServer server({});
  auto client = Connect(server.address());
  std::promise<absl::Status> blocked;
  client->AsyncCreate("/a").Then([&](const absl::StatusOr<CreateResult>& created) {
    CHECK(created.ok());
    blocked.set_value(client->Get("/a").status());
  });
  CHECK(blocked.get_future().get().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("callbacks run in the order of the calls, and may make calls") {
  ScriptedServer server({});
  auto client = Connect(server.address());
  REQUIRE(client->Create("/a").ok());
  Collected<int> order;
  for (int i = 0; i < 100; ++i) {
    client->AsyncSet("/a", "").Then([&, i](const auto&) {
      order.Add(i);
      if (i == 99) client->AsyncSync().Then([&](const auto&) { order.Add(100); });
    });
  }
  const std::vector<int> told = order.WaitFor(101);
  REQUIRE(told.size() == 101);
  CHECK(std::is_sorted(told.begin(), told.end()));
}

TEST_CASE("credentials are presented again on the next stream") {
  std::atomic<bool> breaks{false};
  ScriptedServer server({.at_moment = [&](int, Moment) {
    return breaks.exchange(false) ? kBroken : grpc::Status::OK;
  }});
  ClientOptions options;
  options.credentials = {{.secret = "one:1"}};
  auto client = Connect(server.address(), options);
  REQUIRE(client->AddCredential({.secret = "two:2"}).ok());
  REQUIRE(client->AddCredential({.secret = "two:2"}).ok());
  breaks = true;
  REQUIRE(client->Sync().ok());
  CHECK(server.shown_credentials() ==
        std::vector<std::string>{"digest b25lOjE=", "digest dHdvOjI="});
}

TEST_CASE("a member that does not serve is left for another one") {
  std::atomic<int> refused{0};
  ScriptedServer bad({.at_moment = [&](int, Moment) {
    ++refused;
    return kBroken;
  }});
  ScriptedServer good({});
  // The client tries the members in random order.
  int clients = 0;
  while (clients < 8 || refused == 0) {
    auto client = Connect(bad.address() + "," + good.address());
    CHECK(client->Sync().ok());
    ++clients;
  }
  CHECK(good.streams() == clients);
}

TEST_CASE("members that are slow to open a stream get more time with each round") {
  // Longer than the time limit of a first attempt with this session timeout, and shorter than that
  // of a later one.
  constexpr std::chrono::milliseconds kSlow{700};
  std::promise<void> never;
  const std::shared_future<void> end = never.get_future().share();
  std::atomic<bool> is_slow{true};
  ScriptedServer server({.at_moment = [&](int, Moment moment) {
    if (is_slow && moment == Moment::kReceived) end.wait_for(kSlow);
    return grpc::Status::OK;
  }});
  ClientOptions options;
  options.session_timeout_ms = 1500;
  options.connect_timeout_ms = 20'000;
  auto client = Connect(server.address(), options);
  is_slow = false;
  CHECK(client->Sync().ok());
}

TEST_CASE("the time limit of an attempt is the initial one again after a member has served") {
  // With this session timeout the third round takes 1,200 ms, and each later one 2,000 ms.
  constexpr int kSessionTimeoutMs = 1500, kSilentRounds = 3;
  // Longer than two first attempts, and shorter than one attempt after the silent rounds.
  constexpr int kDeadlineMs = 1800;
  std::atomic<int> unanswered_left{kSilentRounds}, unanswered{0};
  std::atomic<bool> breaks{false};
  ScriptedServer server({.at_moment =
                             [&](int, Moment) {
                               if (!breaks.exchange(false)) return grpc::Status::OK;
                               unanswered_left = 1'000'000;
                               return kBroken;
                             },
                         .is_silent =
                             [&] {
                               if (unanswered_left == 0) return false;
                               --unanswered_left;
                               ++unanswered;
                               return true;
                             }});
  ClientOptions options;
  options.session_timeout_ms = kSessionTimeoutMs;
  options.connect_timeout_ms = 20'000;
  auto client = Connect(server.address(), options);
  REQUIRE(unanswered == kSilentRounds);
  breaks = true;
  CHECK(absl::IsDeadlineExceeded(client->Sync({.deadline_ms = kDeadlineMs})));
  CHECK(unanswered >= kSilentRounds + 2);
  unanswered_left = 0;
  CHECK(client->Sync().ok());
}

TEST_CASE("answers that arrived during a standstill are handled before the member is left") {
  // Longer than the client waits for a silent member with this timeout, and shorter than the
  // session timeout.
  constexpr int kStandsStillMs = 700;
  // On a busy machine the member itself may answer that late, so try several times.
  constexpr int kAttempts = 3;
  bool is_kept = false;
  for (int attempt = 0; attempt < kAttempts && !is_kept; ++attempt) {
    ScriptedServer server({.sends_single_items = true});
    ClientOptions options;
    options.session_timeout_ms = 1500;
    auto client = Connect(server.address(), options);
    REQUIRE(client->Sync().ok());
    auto call = client->AsyncExists("/a");
    REQUIRE(StandStill("quorate-client", kStandsStillMs) == 1);
    CHECK(call.Wait().ok());
    CHECK(client->Sync().ok());
    is_kept = server.streams() == 1;
  }
  CHECK(is_kept);
}

TEST_CASE("kSuspended and then kReconnected follow a standstill longer than the session timeout") {
  using Type = SessionEvent::Type;
  constexpr int kSessionTimeoutMs = 3000, kStandsStillMs = kSessionTimeoutMs * 3 / 2;
  // The client keeps its member, which went on serving, unless that is late on a busy machine.
  constexpr int kAttempts = 3;
  bool is_kept = false;
  for (int attempt = 0; attempt < kAttempts && !is_kept; ++attempt) {
    ScriptedServer server({});
    Collected<SessionEvent> events;
    ClientOptions options;
    options.session_timeout_ms = kSessionTimeoutMs;
    options.on_session_event = [&](const SessionEvent& event) { events.Add(event); };
    auto client = Connect(server.address(), options);
    REQUIRE(client->Sync().ok());
    REQUIRE(StandStill("quorate-client", kStandsStillMs) == 1);
    const std::vector<SessionEvent> told = events.WaitFor(3);
    REQUIRE(told.size() >= 3);
    CHECK(told[0].type == Type::kConnected);
    CHECK(told[1].type == Type::kSuspended);
    CHECK(told[1].server.empty());
    CHECK(std::string(told[1].reason.message()).find("nothing was received") != std::string::npos);
    CHECK(told[2].type == Type::kReconnected);
    CHECK(told[2].server == server.address());
    CHECK(client->Sync().ok());
    is_kept = server.streams() == 1;
  }
  CHECK(is_kept);
}

TEST_CASE("an answer from before a standstill does not show that the session lives after it") {
  using Type = SessionEvent::Type;
  constexpr int kSessionTimeoutMs = 3000, kStandsStillMs = kSessionTimeoutMs * 3 / 2;
  std::atomic<bool> is_watched{false}, is_silent{false}, was_answered{false};
  ScriptedServer server({.at_moment =
                             [&](int, Moment moment) {
                               // The client stands still while the answer waits in its socket.
                               if (moment == Moment::kDone && is_watched.exchange(false)) {
                                 if (StandStill("quorate-client", kStandsStillMs) != 1) {
                                   return kBroken;
                                 }
                                 is_silent = true;
                               }
                               if (moment == Moment::kSent && is_silent) was_answered = true;
                               return grpc::Status::OK;
                             },
                         .is_silent = [&] { return is_silent.load(); }});
  Collected<SessionEvent> events;
  ClientOptions options;
  options.session_timeout_ms = kSessionTimeoutMs;
  options.on_session_event = [&](const SessionEvent& event) { events.Add(event); };
  auto client = Connect(server.address(), options);
  REQUIRE(client->Sync().ok());
  is_watched = true;
  auto call = client->AsyncSync();
  std::vector<SessionEvent> told = events.WaitFor(2);
  REQUIRE(told.size() >= 2);
  CHECK(was_answered);
  CHECK(told[1].type == Type::kSuspended);
  CHECK(std::string(told[1].reason.message()).find("nothing was received") != std::string::npos);
  // The server has not answered since then, so there is no further event.
  CHECK(events.WaitFor(0).size() == 2);
  CHECK(client->state() == Client::State::kSuspended);
  is_silent = false;
  CHECK(call.Wait().ok());
  told = events.WaitFor(3);
  REQUIRE(told.size() >= 3);
  CHECK(told[2].type == Type::kReconnected);
}

TEST_CASE("a client that a standstill suspended reports that its session has ended") {
  using Type = SessionEvent::Type;
  constexpr int kSessionTimeoutMs = 3000, kStandsStillMs = kSessionTimeoutMs * 3 / 2;
  // The server is silent until the client is suspended. Otherwise the answer to the first message
  // after the standstill could already report the end of the session.
  std::atomic<bool> is_silent{false};
  ScriptedServer server({.is_silent = [&] { return is_silent.load(); }});
  Collected<Type> events;
  ClientOptions options;
  options.session_timeout_ms = kSessionTimeoutMs;
  options.on_session_loss = SessionLoss::kStop;
  options.on_session_event = [&](const SessionEvent& event) { events.Add(event.type); };
  auto client = Connect(server.address(), options);
  REQUIRE(client->Sync().ok());
  is_silent = true;
  REQUIRE(StandStill("quorate-client", kStandsStillMs) == 1);
  REQUIRE(events.WaitFor(2) == std::vector<Type>{Type::kConnected, Type::kSuspended});
  server.ExpireSessions();
  is_silent = false;
  CHECK(events.WaitFor(3) == std::vector<Type>{Type::kConnected, Type::kSuspended, Type::kLost});
}

TEST_CASE("the error of Connect says for each member why it did not serve") {
  ScriptedServer bad({.at_moment = [&](int, Moment) { return kBroken; }});
  ClientOptions options;
  options.servers = bad.address() + ",127.0.0.1:1";
  std::string text;
  const auto has = [&text](const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  // On a busy machine it may take long until both members were tried.
  for (int ms = 200; ms <= 12'800 && !(has(bad.address() + ": UNAVAILABLE") && has(":1: UNAV"));
       ms *= 2) {
    options.connect_timeout_ms = ms;
    const absl::Status status = Client::Connect(options).status();
    CHECK(status.code() == absl::StatusCode::kDeadlineExceeded);
    text = std::string(status.message());
  }
  INFO(text);
  CHECK(has(bad.address() + ": UNAVAILABLE: broken by the script"));
  CHECK(has("127.0.0.1:1: UNAVAILABLE"));
}

TEST_CASE("Close succeeds although its answer is lost, and later calls fail") {
  for (const Moment moment : {Moment::kReceived, Moment::kDone}) {
    std::atomic<bool> breaks{false};
    ScriptedServer server({.at_moment = [&](int, Moment at) {
      return at == moment && breaks.exchange(false) ? kBroken : grpc::Status::OK;
    }});
    auto client = Connect(server.address());
    breaks = true;
    CHECK(client->Close().ok());
    CHECK(client->state() == Client::State::kClosed);
    CHECK(!client->Get("/").ok());
    CHECK(!client->Close().ok());
  }
}

TEST_CASE("a create with parents that was called before Close is completed") {
  ScriptedServer server({});
  auto client = Connect(server.address());
  auto created = client->AsyncCreate("/a/b/c", "", {.create_parents = true});
  CHECK(client->Close().ok());
  CHECK(created.Wait().ok());
  CHECK(server.changes() == std::vector<std::string>{"create /a", "create /a/b", "create /a/b/c"});
  CHECK(client->AsyncCreate("/b/c", "", {.create_parents = true}).Wait().status().code() ==
        absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("pending calls are cancelled when the client is destroyed") {
  std::atomic<bool> is_silent{false};
  ScriptedServer server({.is_silent = [&] { return is_silent.load(); }});
  auto client = Connect(server.address());
  is_silent = true;
  auto call = client->AsyncGet("/");
  Collected<std::string> told;
  auto watch = client->AsyncWatch("/", WatchScope::kNode, [](const auto&) {});
  client.reset();
  CHECK(call.Wait().status().code() == absl::StatusCode::kCancelled);
  CHECK(watch.Wait().status().code() == absl::StatusCode::kCancelled);
}

TEST_CASE("idle clients use no CPU time, whether a member serves them or not") {
  constexpr size_t kClients = 2;
  const bool has_member = GENERATE(false, true);
  CAPTURE(has_member);
  std::atomic<bool> breaks{false};
  ScriptedServer server(
      {.at_moment = [&](int, Moment) { return breaks ? kBroken : grpc::Status::OK; }});
  Collected<SessionEvent::Type> events;
  std::vector<std::unique_ptr<Client>> clients;
  for (size_t i = 0; i < kClients; ++i) {
    clients.push_back(Connect(server.address(), {.on_session_event = [&](const auto& event) {
                                events.Add(event.type);
                              }}));
  }
  if (!has_member) {
    breaks = true;
    for (const auto& client : clients) client->AsyncSync().Then([](const auto&) {});
    REQUIRE(events.WaitFor(2 * kClients).size() == 2 * kClients);
  }
  const std::clock_t before = std::clock();
  std::promise<void> never;
  never.get_future().wait_for(std::chrono::milliseconds(600));
  // A single thread that polled without waiting would use the whole 600 ms as CPU time.
  CHECK(std::clock() - before < CLOCKS_PER_SEC / 8);
}

TEST_CASE("a client that is destroyed leaves no thread and no connection behind") {
  constexpr int kClients = 40;
  const auto count = [](const char* what) {
    const std::filesystem::directory_iterator all(std::string("/proc/self/") + what);
    return std::distance(begin(all), end(all));
  };
  ScriptedServer server({});
  Connect(server.address());  // starts gRPC's own threads
  const auto threads = count("task"), files = count("fd");
  for (int i = 0; i < kClients; ++i) CHECK(Connect(server.address())->Sync().ok());
  // The number of threads and connections of the server and of gRPC itself varies.
  CHECK(count("task") < threads + kClients / 2);
  CHECK(count("fd") < files + kClients / 2);
}

TEST_CASE("paths are below the chroot, and are checked before anything is sent") {
  ScriptedServer server({});
  auto plain = Connect(server.address());
  auto client = Connect(server.address() + "/app");
  auto created = client->Create("/a/b", "x", {.create_parents = true});
  REQUIRE(created.ok());
  CHECK(created->path == "/a/b");
  CHECK(plain->Get("/app/a/b")->data == "x");
  CHECK(ErrorOf(client->Create("/a/b").status()) == ErrorCode::kNodeExists);
  CHECK(ErrorOf(client->Create("/c/d").status()) == ErrorCode::kNoNode);
  for (const char* path : {"", "a", "/a/", "//", "/a/../b", "/\x01", "/\xff"}) {
    CHECK(client->Get(path).status().code() == absl::StatusCode::kInvalidArgument);
  }
  for (const char* servers : {"", "host", "host:0", "host:1,", "host:1/a/", ":1"}) {
    ClientOptions options;
    options.servers = servers;
    CHECK(Client::Connect(options).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("a failed transaction names the operation that failed, and can be committed again") {
  ScriptedServer server({});
  auto client = Connect(server.address());
  const Transaction transaction = Transaction().Create("/a").Create("/a/b");
  CHECK(client->Commit(transaction)->results.at(1).path == "/a/b");
  const absl::Status again = client->Commit(transaction).status();
  CHECK(ErrorOf(again) == ErrorCode::kNodeExists);
  CHECK(FailedOperationOf(again) == 0);
  CHECK(!client->Commit(Transaction()).ok());
}

namespace {

struct Task {
  struct promise_type {
    Task get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

Task CopyNode(Client* client, std::string from, std::string to,
              std::promise<absl::StatusOr<std::string>>* done) {
  absl::StatusOr<GetResult> read = co_await client->AsyncGet(from);
  if (!read.ok()) {
    done->set_value(read.status());
    co_return;
  }
  absl::StatusOr<CreateResult> created = co_await client->AsyncCreate(to, read->data);
  if (!created.ok()) {
    done->set_value(created.status());
  } else {
    done->set_value(created->path);
  }
}

// A coroutine that its owner can destroy.
struct OwnedTask {
  struct promise_type {
    OwnedTask get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

OwnedTask WaitForExists(Client* client, std::atomic<bool>* was_resumed) {
  co_await client->AsyncExists("/");
  *was_resumed = true;
}

TEST_CASE("each stream of a client with a token sends it") {
  ScriptedServer server(ScriptedServer::Script{});
  const std::vector<std::string> expected = {"Bearer 0123456789abcdef"};
  const auto client = Connect(server.address(), {.token = "0123456789abcdef"});
  CHECK(server.shown_authorizations() == expected);
  const int before = server.streams();
  client->ChangeMember();
  while (server.streams() == before) REQUIRE(client->Sync().ok());
  CHECK(server.shown_authorizations() == expected);
  Connect(server.address());
  CHECK(server.shown_authorizations().empty());
}

TEST_CASE("a token that cannot be used makes Connect fail before it is sent") {
  const auto problem = [](ClientOptions options) {
    return std::string(Client::Connect(std::move(options)).status().message());
  };
  CHECK(problem({.servers = "192.0.2.1:1", .token = "0123456789abcdef"})
            .find("unencrypted to 192.0.2.1:1") != std::string::npos);
  CHECK(problem({.servers = "127.0.0.1:1", .token_file = "/missing"}).find("/missing") !=
        std::string::npos);
}

}  // namespace

TEST_CASE("a coroutine that was destroyed while it waited is not resumed") {
  std::atomic<bool> is_silent{false};
  ScriptedServer server({.is_silent = [&] { return is_silent.load(); }});
  auto client = Connect(server.address());
  is_silent = true;
  std::atomic<bool> was_resumed{false};
  const OwnedTask task = WaitForExists(client.get(), &was_resumed);
  task.handle.destroy();
  is_silent = false;
  client->ChangeMember();
  CHECK(client->Sync().ok());
  CHECK(!was_resumed);
}

TEST_CASE("a coroutine awaits calls") {
  ScriptedServer server({});
  auto client = Connect(server.address());
  REQUIRE(client->Create("/a", "x").ok());
  std::promise<absl::StatusOr<std::string>> copied, failed;
  CopyNode(client.get(), "/a", "/b", &copied);
  CHECK(*copied.get_future().get() == "/b");
  CHECK(client->Get("/b")->data == "x");
  CopyNode(client.get(), "/none", "/c", &failed);
  CHECK(ErrorOf(failed.get_future().get().status()) == ErrorCode::kNoNode);
}

TEST_CASE("a server that violates the protocol does not crash the client") {
  const bool other_id = GENERATE(true, false);
  std::atomic<int> answers{0};
  ScriptedServer server({.at_answer = [&](const v1::Request& request, v1::Response* response) {
    if (!request.has_write() || ++answers > 3) return;
    if (other_id) {
      response->set_error(v1::ERROR_CODE_OUT_OF_SEQUENCE);
    } else {
      response->clear_write();
    }
  }});
  auto client = Connect(server.address());
  CHECK(client->Create("/a").ok());
  CHECK(server.changes() == std::vector<std::string>{"create /a"});
}

}  // namespace quorate
