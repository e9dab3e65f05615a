// SPDX-License-Identifier: Apache-2.0

// The limits of tenants, as connections of ZooKeeper clients keep them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rpc/frontend/tenant_limits.h"
#include "rpc/zookeeper/testing/loop_fixture.h"

namespace quorate::rpc::zk {
namespace {

using tree::ErrorCode;

constexpr int32_t kEphemeral = 1;
constexpr int32_t kTimeoutMs = 4000;

// A configuration without limits, except for one.
Config With(int Config::*limit, int max) {
  Config config = TestConfig();
  config.max_client_connections = 0;
  config.connections_per_identity_max = 0;
  config.new_sessions_per_second_max = 0;
  config.requests_per_second_max = 0;
  config.outstanding_requests_max = 0;
  config.outstanding_bytes_max = 0;
  config.watches_max = 0;
  config.ephemerals_max = 0;
  config.*limit = max;
  return config;
}

struct Limited : Fixture {
  explicit Limited(Config c) : Fixture(std::move(c)) {}
  Limited(int Config::*limit, int max) : Fixture(With(limit, max)) {}

  uint32_t Open() {
    ConnectResponse response;
    const uint32_t tag = ConnectSession(&response, {.timeout_ms = kTimeoutMs});
    sessions[tag] = response;
    return tag;
  }
  uint32_t OpenFrom(const std::string& address) {
    const auto tag = sockets.Connect(address);
    REQUIRE(tag.has_value());
    sockets.Write(*tag, ConnectPacket({.timeout_ms = kTimeoutMs}));
    Settle();
    ConnectResponse response;
    REQUIRE(DecodeConnectResponse(Frame(*tag), true, &response));
    sessions[*tag] = response;
    return *tag;
  }
  // Returns whether the client is served after it has proved to be this user.
  bool Authenticate(uint32_t tag, const std::string& user) {
    std::string body;
    BigEndianWriter writer(&body);
    writer.Int(int32_t{0});
    writer.String("digest");
    writer.String(user + ":password");
    Write(tag, -4, OpCode::kAuth, body);
    Settle();
    return sockets.open(tag);
  }
  // Returns the number of replies that have come, and discards them.
  int Replies(uint32_t tag) {
    int count = 0;
    std::string frame;
    for (; TakeFrame(&sockets.received(tag), &frame); ++count) {
      const Packet packet = DecodePacket(frame);
      CHECK(packet.error == ErrorCode::kOk);
    }
    return count;
  }
  void SendReads(uint32_t tag, int count) {
    for (int i = 0; i < count; ++i) {
      Write(tag, ++xid, OpCode::kGetData, PathAndWatch("/", false));
    }
    Settle();
  }
  ErrorCode Try(uint32_t tag, OpCode op, const std::string& body) {
    return Call(tag, op, body).error;
  }
  ErrorCode WatchPath(uint32_t tag, const std::string& path) {
    return Try(tag, OpCode::kExists, PathAndWatch(path, true));
  }
  int64_t reached(Limit limit) { return service.tenants().reached(limit); }
  bool IsTouched(uint32_t tag) const {
    const int64_t session = sessions.at(tag).session_id;
    return std::ranges::any_of(service.touches, [session](const std::vector<int64_t>& touched) {
      return std::ranges::count(touched, session) > 0;
    });
  }

  int32_t xid = 0;
  std::map<uint32_t, ConnectResponse> sessions;
};

// --- Rates ---------------------------------------------------------------------------------------

TEST_CASE("requests above the rate wait, none is lost, and they are answered in order") {
  Limited f(&Config::requests_per_second_max, 100);
  const uint32_t tag = f.Open();
  f.SendReads(tag, 350);
  const int at_once = f.Replies(tag);
  CHECK(at_once == 100);
  f.Pass(1000);
  const int in_a_second = f.Replies(tag);
  CHECK(in_a_second > 0);
  CHECK(in_a_second <= 100);
  int total = at_once + in_a_second;
  for (int i = 0; i < 30 && total < 350; ++i) {
    f.Pass(100);
    total += f.Replies(tag);
  }
  CHECK(total == 350);
  CHECK(f.sockets.open(tag));
  CHECK(f.reached(Limit::kRequests) > 0);
  // Afterwards the client is as fast as before.
  f.Pass(3000);
  f.SendReads(tag, 50);
  CHECK(f.Replies(tag) == 50);
}

TEST_CASE("a rate so high that clients may owe tokens is kept") {
  Limited f(&Config::requests_per_second_max, 10'000);
  const uint32_t tag = f.Open();
  f.SendReads(tag, 12'000);
  const int at_once = f.Replies(tag);
  CHECK(at_once >= 10'000);
  CHECK(at_once < 10'010);
  f.Pass(1000);
  CHECK(at_once + f.Replies(tag) == 12'000);
  CHECK(f.reached(Limit::kRequests) > 0);
}

TEST_CASE("by default the rate of requests is limited") {
  Fixture f(TestConfig());
  CHECK(f.service.tenants().limit(Limit::kRequests) == 1'000'000);
}

TEST_CASE("clients of one address share its rate, others are not slowed") {
  Limited f(&Config::requests_per_second_max, 100);
  const uint32_t one = f.OpenFrom("10.0.0.1");
  const uint32_t two = f.OpenFrom("10.0.0.1");
  const uint32_t other = f.OpenFrom("10.0.0.2");
  f.SendReads(one, 150);
  f.SendReads(two, 50);
  f.SendReads(other, 100);
  CHECK(f.Replies(one) == 100);
  CHECK(f.Replies(two) == 0);
  CHECK(f.Replies(other) == 100);
  // Both get tokens.
  f.Pass(100);
  f.Pass(100);
  CHECK(f.Replies(one) > 5);
  CHECK(f.Replies(two) > 5);
}

TEST_CASE("each of the clients that wait for the same tokens gets its turn") {
  const size_t clients = GENERATE(3, 5, 61, 105);
  CAPTURE(clients);
  Config config = With(&Config::requests_per_second_max, 10);  // one in each turn
  // A client that has got no token for a quarter of it would get a request done without its turn.
  constexpr int32_t kLongTimeoutMs = 4'000'000;
  config.max_session_timeout_ms = kLongTimeoutMs;
  Limited f(config);
  std::vector<uint32_t> tags;
  for (size_t i = 0; i < clients; ++i) {
    ConnectResponse response;
    tags.push_back(f.ConnectSession(&response, {.timeout_ms = kLongTimeoutMs}));
  }
  for (const uint32_t tag : tags) f.SendReads(tag, 400);
  for (const uint32_t tag : tags) f.Replies(tag);
  std::vector<int> replies(clients);
  for (size_t turn = 0; turn < 2 * clients; ++turn) {
    f.Pass(100);
    for (size_t i = 0; i < clients; ++i) replies[i] += f.Replies(tags[i]);
  }
  for (const int count : replies) CHECK(count >= 1);
}

TEST_CASE("a slowed client whose tenant has no tokens gets a request done before it gives up") {
  Limited f(&Config::requests_per_second_max, 10);
  const uint32_t greedy = f.Open();
  const uint32_t quiet = f.Open();
  f.SendReads(greedy, 4000);
  f.Write(quiet, -2, OpCode::kPing, "");
  f.Settle();
  f.Replies(greedy);
  int waited_ms = 0;
  while (f.Replies(quiet) == 0) {
    f.Pass(100);
    waited_ms += 100;
    REQUIRE(waited_ms <= kTimeoutMs / 2);
  }
  CHECK(f.sockets.open(greedy));
}

TEST_CASE(
    "a slowed client keeps its session while it waits for replies, and not when it has gone") {
  Limited f(&Config::requests_per_second_max, 10);
  const uint32_t tag = f.Open();
  f.SendReads(tag, 4000);
  const auto pass = [&f] {
    for (int i = 0; i < 30; ++i) f.Pass(100);
  };
  pass();
  f.service.touches.clear();
  // It sends no ping, because replies come.
  pass();
  CHECK(f.IsTouched(tag));
  f.sockets.HangUpLater(tag);
  pass();
  f.service.touches.clear();
  const int before = f.Replies(tag);
  CHECK(before > 0);
  pass();
  CHECK(f.Replies(tag) > 0);
  CHECK_FALSE(f.IsTouched(tag));
}

TEST_CASE("writes that a client leaves behind take tokens of its tenant") {
  Limited f(&Config::requests_per_second_max, 10);
  const uint32_t one = f.Open();
  const uint32_t two = f.Open();
  for (int i = 0; i < 30; ++i) f.Write(one, i, OpCode::kSetData, SetData("/zookeeper", "x"));
  f.Settle();
  f.sockets.HangUp(one);
  f.Settle();
  f.Pass(500);  // 5 tokens have come
  f.SendReads(two, 1);
  CHECK(f.Replies(two) == 0);
  for (int i = 0; i < 10; ++i) f.Pass(100);
  CHECK(f.Replies(two) == 1);
}

TEST_CASE("a slowed client may close its session at once") {
  Limited f(&Config::requests_per_second_max, 10);
  const uint32_t one = f.Open();
  const uint32_t two = f.Open();
  f.SendReads(one, 30);
  f.Write(two, 1, OpCode::kCloseSession, "");
  f.Settle();
  CHECK(f.Replies(two) == 1);
  CHECK_FALSE(f.sockets.open(two));
}

TEST_CASE("new sessions above the rate wait, and sessions that come back do not") {
  Limited f(&Config::new_sessions_per_second_max, 2);
  const uint32_t first = f.Open();
  f.Open();
  const uint32_t waits = f.Connect();
  f.sockets.Write(waits, ConnectPacket({.timeout_ms = kTimeoutMs}));
  f.Settle();
  CHECK(f.sockets.received(waits).empty());
  CHECK(f.reached(Limit::kNewSessions) == 1);
  // A session that comes back needs no token.
  f.sockets.HangUp(first);
  const uint32_t back = f.Connect();
  f.sockets.Write(back, ConnectPacket({.session = f.sessions[first].session_id,
                                       .password = f.sessions[first].password,
                                       .timeout_ms = kTimeoutMs}));
  f.Settle();
  CHECK_FALSE(f.sockets.received(back).empty());
  // Neither does a client of another address.
  f.OpenFrom("10.0.0.2");
  f.Pass(500);
  ConnectResponse response;
  REQUIRE(DecodeConnectResponse(f.Frame(waits), true, &response));
  CHECK(response.session_id != 0);
  CHECK(f.Try(waits, OpCode::kGetData, PathAndWatch("/", false)) == ErrorCode::kOk);
}

TEST_CASE("a client that hangs up while its new session waits leaves nothing behind") {
  Limited f(&Config::new_sessions_per_second_max, 1);
  f.Open();
  const uint32_t waits = f.Connect();
  f.sockets.Write(waits, ConnectPacket({}));
  f.Settle();
  f.sockets.HangUp(waits);
  f.Pass(5000);
  CHECK(f.loop.client_count() == 1);
  CHECK(f.service.ReadTree()->session_count() == 1);
}

TEST_CASE("a new session that would wait for longer than its timeout is refused") {
  Limited f(&Config::new_sessions_per_second_max, 1);
  std::vector<uint32_t> waiting;
  for (int i = 0; i < 20; ++i) {
    waiting.push_back(f.Connect());
    f.sockets.Write(waiting.back(), ConnectPacket({.timeout_ms = 1200}));
  }
  for (int i = 0; i < 30; ++i) f.Pass(100);
  const auto open =
      std::ranges::count_if(waiting, [&](uint32_t tag) { return f.sockets.open(tag); });
  CHECK(open >= 2);
  CHECK(open <= 4);
}

// --- Counts --------------------------------------------------------------------------------------

TEST_CASE("an identity has a limit of connections, and the connection above it is closed") {
  Limited f(&Config::connections_per_identity_max, 2);
  const uint32_t one = f.OpenFrom("10.0.0.1");
  const uint32_t two = f.OpenFrom("10.0.0.2");
  const uint32_t three = f.OpenFrom("10.0.0.3");
  CHECK(f.Authenticate(one, "app"));
  CHECK(f.Authenticate(two, "app"));
  CHECK_FALSE(f.Authenticate(three, "app"));
  CHECK(f.reached(Limit::kConnections) == 1);
  CHECK(f.frontend.statistics().connections_refused.load() == 1);
  CHECK(f.Authenticate(f.OpenFrom("10.0.0.3"), "other"));
  f.sockets.HangUp(two);
  CHECK(f.Authenticate(f.OpenFrom("10.0.0.3"), "app"));
}

TEST_CASE("an identity of a certificate counts from the beginning") {
  Limited f(&Config::connections_per_identity_max, 1);
  const uint32_t one = f.sockets.ConnectWithCertificate("CN=app");
  f.Settle();
  const uint32_t two = f.sockets.ConnectWithCertificate("CN=app");
  f.Settle();
  CHECK(f.sockets.open(one));
  CHECK_FALSE(f.sockets.open(two));
}

TEST_CASE("a tenant with its limit of outstanding requests is read from as they are answered") {
  Limited f(&Config::outstanding_requests_max, 10);
  const uint32_t one = f.Open();
  const uint32_t two = f.Open();
  const uint32_t other = f.OpenFrom("10.0.0.2");
  f.Write(one, 1, OpCode::kCreate, Create("/a", ""));
  f.Settle();
  REQUIRE(f.Replies(one) == 1);
  const auto write = [&f](uint32_t tag, int count) {
    for (int i = 0; i < count; ++i) f.Write(tag, ++f.xid, OpCode::kSetData, SetData("/a", "x"));
    f.sockets.RunIterations();
  };
  const auto commands = [&f] {
    size_t count = 0;
    for (const CommandBatch& batch : f.service.batches) count += batch.commands.size();
    return count;
  };
  write(one, 30);
  CHECK(commands() == 10);
  write(two, 30);
  // A client that waits for nothing is served, so that each gets something done.
  CHECK(commands() == 11);
  write(other, 5);
  CHECK(commands() == 16);
  CHECK(f.reached(Limit::kOutstandingRequests) >= 1);
  f.Settle();
  for (int i = 0; i < 20; ++i) f.Pass(100);
  CHECK(f.Replies(one) == 30);
  CHECK(f.Replies(two) == 30);
  CHECK(f.Replies(other) == 5);
}

TEST_CASE("each time that a client is held back counts") {
  Limited f(&Config::outstanding_requests_max, 10);
  const uint32_t tag = f.Open();
  int64_t before = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 15; ++i) {
      f.Write(tag, ++f.xid, OpCode::kSetData, SetData("/", "x"));
    }
    f.Settle();
    f.Pass(100);
    CHECK(f.Replies(tag) == 15);
    CHECK(f.reached(Limit::kOutstandingRequests) > before);
    before = f.reached(Limit::kOutstandingRequests);
  }
}

TEST_CASE("connections that send in the same iteration share the limit of outstanding requests") {
  Limited f(&Config::outstanding_requests_max, 10);
  const uint32_t one = f.Open();
  const uint32_t two = f.Open();
  for (int i = 0; i < 30; ++i) {
    f.Write(one, ++f.xid, OpCode::kSetData, SetData("/zookeeper", "x"));
    f.Write(two, ++f.xid, OpCode::kSetData, SetData("/zookeeper", "x"));
  }
  f.sockets.RunIterations();
  REQUIRE(f.service.batches.size() == 1);
  CHECK(f.service.batches[0].commands.size() == 11);
}

TEST_CASE("incomplete requests far above the limit of bytes end connections, and others go on") {
  Limited f(&Config::outstanding_bytes_max, 500'000);
  const std::string whole =
      RequestPacket(1, OpCode::kCreate, Create("/a", std::string(900'000, 'x')));
  const std::string half = whole.substr(0, 400'000);
  const uint32_t one = f.Open();
  const uint32_t two = f.Open();
  const uint32_t three = f.Open();
  const uint32_t other = f.OpenFrom("10.0.0.2");
  for (const uint32_t tag : {one, two, three, other}) {
    f.sockets.Write(tag, half);
    f.Settle();
  }
  // Two halves are below twice the limit; each is read to its end.
  CHECK(f.sockets.open(one));
  CHECK(f.sockets.open(two));
  f.sockets.Write(other, whole.substr(400'000));
  f.Settle();
  CHECK(f.Replies(other) == 1);
  f.sockets.Write(three, whole.substr(400'000, 300'000));
  f.Settle();
  CHECK_FALSE(f.sockets.open(three));
  CHECK(f.sockets.open(one));
  CHECK(f.reached(Limit::kOutstandingBytes) == 1);
  f.sockets.HangUp(two);
  f.sockets.Write(one, whole.substr(400'000));
  f.Settle();
  CHECK(f.Next(one).error == ErrorCode::kNodeExists);
}

TEST_CASE("watches above the limit are refused with an error, and the client goes on") {
  Limited f(&Config::watches_max, 3);
  const uint32_t one = f.Open();
  const uint32_t two = f.Open();
  CHECK(f.WatchPath(one, "/a") == ErrorCode::kNoNode);
  CHECK(f.WatchPath(one, "/b") == ErrorCode::kNoNode);
  CHECK(f.Try(two, OpCode::kGetData, PathAndWatch("/", true)) == ErrorCode::kOk);
  CHECK(f.Try(two, OpCode::kGetData, PathAndWatch("/zookeeper", true)) == ErrorCode::kSystemError);
  CHECK(f.Try(one, OpCode::kGetChildren, PathAndWatch("/", true)) == ErrorCode::kSystemError);
  CHECK(f.Try(one, OpCode::kAddWatch, Path("/") + std::string(4, '\0')) == ErrorCode::kSystemError);
  CHECK(f.Try(two, OpCode::kGetData, PathAndWatch("/zookeeper", false)) == ErrorCode::kOk);
  CHECK(f.reached(Limit::kWatches) == 3);
  CHECK(f.WatchPath(f.OpenFrom("10.0.0.2"), "/c") == ErrorCode::kNoNode);
  // A watch that fires makes room.
  CHECK(f.Try(two, OpCode::kCreate, Create("/a", "")) == ErrorCode::kOk);
  CHECK(f.Next(one).xid == -1);
  CHECK(f.WatchPath(one, "/d") == ErrorCode::kNoNode);
  CHECK(f.WatchPath(one, "/e") == ErrorCode::kSystemError);
  // So does a client that goes.
  f.sockets.HangUp(two);
  CHECK(f.WatchPath(one, "/e") == ErrorCode::kNoNode);
}

TEST_CASE("a watch of another client that fires makes room before long") {
  Limited f(&Config::watches_max, 1);
  const uint32_t one = f.Open();
  const uint32_t two = f.Open();
  CHECK(f.WatchPath(one, "/a") == ErrorCode::kNoNode);
  CHECK(f.WatchPath(two, "/b") == ErrorCode::kSystemError);
  CHECK(f.Try(two, OpCode::kCreate, Create("/a", "")) == ErrorCode::kOk);
  f.Pass(2000);
  f.Pass(2000);
  CHECK(f.WatchPath(two, "/b") == ErrorCode::kNoNode);
}

TEST_CASE("a watch that fires for what its client may not read makes room before long") {
  Limited f(&Config::watches_max, 1);
  const uint32_t one = f.Open();
  const uint32_t two = f.Open();
  REQUIRE(f.Authenticate(two, "owner"));
  f.Replies(two);
  CHECK(f.WatchPath(one, "/a") == ErrorCode::kNoNode);
  CHECK(f.WatchPath(two, "/b") == ErrorCode::kSystemError);
  std::string create;
  BigEndianWriter writer(&create);
  writer.String("/a");
  writer.String("");
  WriteAcl(std::vector<tree::Acl>{{tree::permission::kAll, {"auth", ""}}}, writer);
  writer.Int(int32_t{0});
  CHECK(f.Try(two, OpCode::kCreate, create) == ErrorCode::kOk);
  CHECK(f.sockets.received(one).empty());
  f.Pass(2000);
  f.Pass(2000);
  CHECK(f.WatchPath(two, "/b") == ErrorCode::kNoNode);
}

std::string SetWatchesOf(int first, int count) {
  std::string body;
  BigEndianWriter writer(&body);
  writer.Int(int64_t{0});
  writer.Int(int32_t{0});
  writer.Int(int32_t{count});  // of exists
  for (int i = first; i < first + count; ++i) writer.String("/w" + std::to_string(i));
  writer.Int(int32_t{0});
  return body;
}

TEST_CASE("watches that come from another server may be twice as many as the limit") {
  Limited f(&Config::watches_max, 10);
  const uint32_t one = f.Open();
  CHECK(f.Try(one, OpCode::kSetWatches, SetWatchesOf(0, 20)) == ErrorCode::kOk);
  CHECK(f.WatchPath(one, "/more") == ErrorCode::kSystemError);
  const uint32_t two = f.Open();
  f.Write(two, -8, OpCode::kSetWatches, SetWatchesOf(100, 1));
  f.Settle();
  CHECK_FALSE(f.sockets.open(two));
  CHECK(f.sockets.open(one));
}

TEST_CASE("ephemerals above the limit are refused, and make room when they go") {
  Limited f(&Config::ephemerals_max, 3);
  const uint32_t one = f.Open();
  const uint32_t two = f.Open();
  const auto create = [&f](uint32_t tag, const std::string& path) {
    return f.Try(tag, OpCode::kCreate, Create(path, "", kEphemeral));
  };
  CHECK(create(one, "/1") == ErrorCode::kOk);
  CHECK(create(one, "/1") == ErrorCode::kNodeExists);  // does not count
  CHECK(create(one, "/2") == ErrorCode::kOk);
  CHECK(create(two, "/3") == ErrorCode::kOk);
  CHECK(create(two, "/4") == ErrorCode::kSystemError);
  CHECK(create(one, "/4") == ErrorCode::kSystemError);
  CHECK(f.Try(one, OpCode::kMulti, Multi({{OpCode::kCreate, Create("/4", "", kEphemeral)}})) ==
        ErrorCode::kSystemError);
  CHECK(f.Try(one, OpCode::kCreate, Create("/persistent", "")) == ErrorCode::kOk);
  CHECK(f.reached(Limit::kEphemerals) == 3);
  CHECK(create(f.OpenFrom("10.0.0.2"), "/other") == ErrorCode::kOk);
  CHECK(f.Try(one, OpCode::kDelete, Path("/1") + std::string(4, '\xFF')) == ErrorCode::kOk);
  CHECK(create(two, "/4") == ErrorCode::kOk);
  CHECK(create(two, "/5") == ErrorCode::kSystemError);
  // Another client deletes one: it takes a moment.
  CHECK(f.Try(one, OpCode::kDelete, Path("/4") + std::string(4, '\xFF')) == ErrorCode::kOk);
  f.Pass(2000);
  f.Pass(2000);
  CHECK(create(one, "/5") == ErrorCode::kOk);
}

TEST_CASE("a session that loses its connection keeps its ephemerals counted until it ends") {
  Limited f(&Config::ephemerals_max, 2);
  const uint32_t one = f.Open();
  const uint32_t two = f.Open();
  for (const auto* path : {"/1", "/2"}) {
    CHECK(f.Try(one, OpCode::kCreate, Create(path, "", kEphemeral)) == ErrorCode::kOk);
  }
  f.sockets.HangUp(one);
  f.Settle();
  CHECK(f.Try(two, OpCode::kCreate, Create("/3", "", kEphemeral)) == ErrorCode::kSystemError);
  // The session comes back, still with two.
  const uint32_t back = f.Connect();
  f.sockets.Write(back, ConnectPacket({.session = f.sessions[one].session_id,
                                       .password = f.sessions[one].password,
                                       .timeout_ms = kTimeoutMs}));
  f.Settle();
  f.Frame(back);
  CHECK(f.Try(back, OpCode::kCreate, Create("/3", "", kEphemeral)) == ErrorCode::kSystemError);
  CHECK(f.Try(back, OpCode::kCloseSession, "") == ErrorCode::kOk);
  CHECK(f.Try(two, OpCode::kCreate, Create("/3", "", kEphemeral)) == ErrorCode::kOk);
}

TEST_CASE("ephemerals of a session that has ended within a snapshot do not stay counted") {
  Limited f(&Config::ephemerals_max, 2);
  const uint32_t one = f.Open();
  for (const auto* path : {"/1", "/2"}) {
    CHECK(f.Try(one, OpCode::kCreate, Create(path, "", kEphemeral)) == ErrorCode::kOk);
  }
  f.Write(one, 1, OpCode::kCloseSession, "");
  f.sockets.RunIterations();
  f.service.ReplaceTree(&f.frontends);
  f.frontends.OnBatchApplied();
  f.Pass(3000);
  REQUIRE_FALSE(f.sockets.open(one));
  const uint32_t two = f.Open();
  CHECK(f.Try(two, OpCode::kCreate, Create("/1", "", kEphemeral)) == ErrorCode::kOk);
}

TEST_CASE("creates in flight that fail after their client has gone do not stay counted") {
  Limited f(&Config::ephemerals_max, 2);
  const uint32_t one = f.Open();
  const uint32_t two = f.Open();
  for (int i = 0; i < 2; ++i) {
    f.Write(one, i, OpCode::kCreate, Create("/zookeeper", "", kEphemeral));
  }
  f.sockets.RunIterations();
  f.sockets.HangUp(one);
  f.Settle();
  CHECK(f.Try(two, OpCode::kCreate, Create("/1", "", kEphemeral)) == ErrorCode::kOk);
}

TEST_CASE("many creates in flight do not exceed the limit of ephemerals") {
  Limited f(&Config::ephemerals_max, 10);
  const uint32_t tag = f.Open();
  for (int i = 0; i < 50; ++i) {
    f.Write(tag, i, OpCode::kCreate, Create("/n" + std::to_string(i), "", kEphemeral));
  }
  f.Settle();
  CHECK(f.service.ReadTree()->ephemeral_count() == 10);
}

// --- Clients without a session -------------------------------------------------------------------

TEST_CASE("a connect request that is too long ends the connection before it is received") {
  Fixture f;
  const uint32_t tag = f.Connect();
  std::string packet = ConnectPacket({.password = std::string(5000, 'x')});
  f.sockets.Write(tag, packet.substr(0, 10));
  f.Settle();
  CHECK_FALSE(f.sockets.open(tag));
}

TEST_CASE("clients that have asked for nothing are counted, and can be closed") {
  Fixture f;
  const uint32_t silent = f.Connect();
  const uint32_t half = f.Connect();
  f.sockets.Write(half, ConnectPacket({}).substr(0, 20));
  f.Settle();
  CHECK(f.loop.newcomers() == 2);
  const uint32_t served = f.ConnectSession();
  CHECK(f.loop.newcomers() == 2);
  CHECK_FALSE(f.loop.CloseNewcomer(served));
  CHECK(f.loop.CloseNewcomer(silent));
  CHECK_FALSE(f.sockets.open(silent));
  CHECK_FALSE(f.loop.CloseNewcomer(silent));
  f.sockets.HangUp(half);
  CHECK(f.loop.newcomers() == 0);
  CHECK(f.service.tenants().reached(Limit::kFirstRequest) == 1);
}

TEST_CASE("a limit of no time lets a client wait for as long as it likes") {
  Limited f(&Config::first_request_timeout_ms, 0);
  const uint32_t tag = f.Connect();
  f.Pass(3'600'000);
  CHECK(f.sockets.open(tag));
}

}  // namespace
}  // namespace quorate::rpc::zk
