// SPDX-License-Identifier: Apache-2.0

// The connections of one loop, driven by hand in front of a tree that applies on request.
#include "rpc/zookeeper/connection_loop.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rpc/frontend/client_identities.h"
#include "rpc/frontend/frontends.h"
#include "rpc/frontend/session_ids.h"
#include "rpc/zookeeper/testing/loop_fixture.h"

namespace quorate::rpc::zk {
namespace {

using tree::ErrorCode;

bool IsThere(Fixture& f, const std::string& path) {
  tree::Stat stat;
  return f.service.ReadTree()->Exists(path, &stat) == ErrorCode::kOk;
}

TEST_CASE("a session is there once its entry is applied, with the password that it was given") {
  Fixture f;
  const uint32_t tag = f.Connect();
  const std::string packet = ConnectPacket({.timeout_ms = 10'000});
  f.sockets.Write(tag, packet.substr(0, 9));
  f.sockets.RunIterations();
  CHECK(f.service.batches.empty());
  f.sockets.Write(tag, packet.substr(9));
  f.sockets.RunIterations();
  REQUIRE(f.service.batches.size() == 1);
  CHECK(f.sockets.received(tag).empty());
  CHECK_FALSE(f.sockets.receiving(tag));
  f.service.Apply(&f.frontends);
  CHECK(f.sockets.received(tag).empty());
  f.sockets.RunIterations();
  ConnectResponse response;
  REQUIRE(DecodeConnectResponse(f.Frame(tag), true, &response));
  CHECK(response.session_id >> 56 == 3);
  CHECK(response.password == std::string(tree::kPasswordBytes, 'c'));
  CHECK(response.timeout_ms == 6000);
  CHECK(
      f.service.ReadTree()->CheckPassword(tree::SessionId(response.session_id), response.password));
  CHECK(f.sockets.receiving(tag));
}

// If the clock goes back at a restart, the new incarnation may be only one above the last one.
// Everything else is the same in this test, regardless of the number of earlier sessions.
TEST_CASE("session ids do not come again after a restart with a clock that went back") {
  Fixture f;
  class Random : public RandomBytes {
   public:
    void Fill(char* bytes, size_t size) override {
      for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(random_());
    }

   private:
    std::mt19937_64 random_{1};
  } random_bytes;
  std::set<int64_t> ids;
  for (int start = 0; start < 2; ++start) {
    ZkFrontend frontend(f.config, &f.service, &f.clock, &random_bytes);
    for (int i = 0; i < 70'000; ++i) {
      const int64_t id = frontend.NewSessionId().value();
      REQUIRE(id >> 56 == 3);
      REQUIRE(ids.insert(id).second);
    }
    ++f.service.incarnation;
  }
}

TEST_CASE("the id of a new session that is in use is drawn again") {
  Fixture f;
  std::string command;
  tree::CommandHeader header;
  CountingBytes same;
  header.proposer = f.service.proposer();
  header.proposer_tag = 1'000'000;  // not the tag of a connection
  header.session = DrawSessionId(3, &same);
  tree::AppendCreateSession(header, 4000, std::string(tree::kPasswordBytes, 'p'), &command);
  CommandBatch batch;
  *batch.bytes += command;
  batch.commands.push_back({0, command.size()});
  f.service.Submit(std::move(batch));
  f.service.Apply(&f.frontends);
  ConnectResponse response;
  f.ConnectSession(&response);
  CHECK(response.session_id != header.session.value());
}

TEST_CASE("the tag of an open connection is not given to another one, when tags begin again") {
  Fixture f;
  f.frontend.SetTagsHandedOut(kZooKeeperTags.count - 2);
  const uint32_t last = f.Connect();
  const uint32_t first = f.Connect();
  CHECK(first == kZooKeeperTags.first + 1);
  f.frontend.SetTagsHandedOut(kZooKeeperTags.count - 2);
  const uint32_t third = f.Connect();
  CHECK(third != last);
  CHECK(third != first);
  CHECK(f.sockets.open(last));
}

// A client without the password leaves no entry in the log.
TEST_CASE("a session is taken over with its password alone, or it is refused before the log") {
  Fixture f;
  ConnectResponse session;
  f.ConnectSession(&session);
  const auto is_refused = [&f](const ConnectPacketOptions& options) {
    const uint32_t tag = f.Connect();
    f.sockets.Write(tag, ConnectPacket(options));
    f.sockets.RunIterations();
    CHECK(f.service.batches.empty());
    ConnectResponse response;
    REQUIRE(DecodeConnectResponse(f.Frame(tag), true, &response));
    return response.session_id == 0 && !f.sockets.open(tag);
  };
  std::string wrong = session.password;
  ++wrong.back();
  CHECK(is_refused({.session = session.session_id, .password = wrong}));
  CHECK(is_refused({.session = session.session_id, .password = ""}));
  CHECK(is_refused({.session = session.session_id, .password = std::string(3'000, 'x')}));
  CHECK(is_refused({.session = session.session_id + 1, .password = std::string(3'000, 'x')}));
  CHECK(f.service.syncs.empty());

  SECTION("one that is not known here does not exist, if the leader knows no more") {
    const uint32_t tag = f.Connect();
    f.sockets.Write(tag, ConnectPacket({.session = session.session_id + 1, .password = wrong}));
    f.sockets.RunIterations();
    CHECK(f.service.batches.empty());
    REQUIRE(f.service.syncs.size() == 1);
    CHECK(f.sockets.open(tag));
    f.EndBarrier(1);
    CHECK(f.service.batches.empty());
    ConnectResponse response;
    REQUIRE(DecodeConnectResponse(f.Frame(tag), true, &response));
    CHECK(response.session_id == 0);
    CHECK_FALSE(f.sockets.open(tag));
  }
  SECTION("with the right password it goes on") {
    ConnectResponse again;
    f.ConnectSession(&again, {.session = session.session_id, .password = session.password});
    CHECK(again.session_id == session.session_id);
  }
}

TEST_CASE("credentials are bounded, and a scheme that is not known is shown in part") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  std::string body;
  BigEndianWriter writer(&body);
  writer.Int<int32_t>(0);
  writer.String("digest");
  writer.String("user:" + std::string(ClientIdentities::kCredentialsBytesMax, 'x'));
  f.sockets.Write(tag, RequestPacket(kAuthXid, OpCode::kAuth, body));
  f.Settle();
  CHECK(f.Next(tag).error == ErrorCode::kAuthFailed);
  CHECK_FALSE(f.sockets.open(tag));
}

TEST_CASE("pipelined requests are answered in order, and a read waits for what came before it") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  f.Write(tag, 1, OpCode::kCreate, Create("/a", "0"));
  f.Write(tag, 2, OpCode::kSetData, SetData("/a", "1"));
  f.Write(tag, 3, OpCode::kGetData, PathAndWatch("/a", false));
  f.Write(tag, 4, OpCode::kSync, Path("/a"));
  f.Write(tag, 5, OpCode::kSetData, SetData("/a", "2"));
  f.Write(tag, 6, OpCode::kGetData, PathAndWatch("/a", false));
  f.sockets.RunIterations();
  REQUIRE(f.service.batches.size() == 1);
  CHECK(f.service.batches[0].commands.size() == 2);  // the third write waits for the read
  CHECK(f.sockets.received(tag).empty());
  f.service.Apply(&f.frontends);
  f.sockets.RunIterations();
  CHECK(f.Next(tag).xid == 1);
  CHECK(f.Next(tag).xid == 2);
  CHECK(DataOf(f.Next(tag)) == "1");
  CHECK(f.sockets.received(tag).empty());
  REQUIRE(f.service.batches.size() == 1);
  f.service.Apply(&f.frontends);
  f.sockets.RunIterations();
  CHECK(f.Next(tag).xid == 4);  // the write after the sync answers it too
  CHECK(f.Next(tag).xid == 5);
  CHECK(DataOf(f.Next(tag)) == "2");
}

TEST_CASE("a sync is done at the latest with a write behind it, which has its own zxid") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  const uint32_t other = f.ConnectSession();
  f.Write(tag, 1, OpCode::kSync, Path("/"));
  f.Settle();
  CHECK(f.sockets.received(tag).empty());
  f.EndBarrier(1);
  CHECK(f.Next(tag).xid == 1);

  f.Write(tag, 2, OpCode::kSync, Path("/"));
  f.Write(tag, 3, OpCode::kSync, Path("/"));
  f.Write(tag, 4, OpCode::kCreate, Create("/a", ""));
  f.Write(tag, 5, OpCode::kSync, Path("/"));
  f.sockets.RunIterations();
  CHECK(f.sockets.received(tag).empty());
  f.service.Apply(&f.frontends);
  const int64_t written = f.service.ReadTree()->last_zxid().value();
  f.Call(other, OpCode::kCreate, Create("/b", ""));
  for (int32_t xid = 2; xid <= 4; ++xid) {
    const Packet packet = f.Next(tag);
    CHECK(packet.xid == xid);
    CHECK(packet.zxid == written);
  }
  CHECK(f.sockets.received(tag).empty());
  f.EndBarrier(2);
  const Packet last = f.Next(tag);
  CHECK(last.xid == 5);
  CHECK(last.zxid == written + 1);
}

TEST_CASE(
    "the writes that came in one iteration, of any connection, are one batch in their order") {
  Fixture f;
  const uint32_t first = f.ConnectSession();
  const uint32_t second = f.ConnectSession();
  f.Write(second, 1, OpCode::kCreate, Create("/b", ""));
  f.Write(first, 1, OpCode::kCreate, Create("/a", ""));
  f.Write(first, 2, OpCode::kCreate, Create("/a/a", ""));
  f.sockets.RunIterations();
  REQUIRE(f.service.batches.size() == 1);
  const CommandBatch& batch = f.service.batches[0];
  std::vector<uint32_t> tags;
  for (const auto& range : batch.commands) {
    tags.push_back(tree::DecodeHeader(batch.view(range))->proposer_tag);
  }
  CHECK(tags == std::vector<uint32_t>{first, first, second});
}

TEST_CASE("a watch event comes before the read that would show the change") {
  Fixture f;
  const uint32_t writer = f.ConnectSession();
  const uint32_t reader = f.ConnectSession();
  REQUIRE(f.Call(writer, OpCode::kCreate, Create("/w", "0")).error == ErrorCode::kOk);
  REQUIRE(f.Call(reader, OpCode::kGetData, PathAndWatch("/w", true)).error == ErrorCode::kOk);
  f.Write(writer, 1, OpCode::kSetData, SetData("/w", "1"));
  f.sockets.RunIterations();
  f.service.Apply(&f.frontends);
  // The loop has a wake-up pending, but handles the read first.
  f.Write(reader, 9, OpCode::kGetData, PathAndWatch("/w", false));
  REQUIRE(f.sockets.HandIn(reader));
  f.sockets.RunIterations();
  const Packet event = f.Next(reader);
  CHECK(event.xid == kNotificationXid);
  const Packet reply = f.Next(reader);
  CHECK(reply.xid == 9);
  CHECK(DataOf(reply) == "1");
  CHECK(f.Next(writer).xid == 1);
}

TEST_CASE("who missed what a snapshot has skipped is told nothing that came after it") {
  Fixture f;
  const uint32_t writer = f.ConnectSession();
  const uint32_t watcher = f.ConnectSession();
  REQUIRE(f.Call(writer, OpCode::kCreate, Create("/w", "0")).error == ErrorCode::kOk);
  REQUIRE(f.Call(watcher, OpCode::kGetData, PathAndWatch("/w", true)).error == ErrorCode::kOk);
  f.Write(writer, 1, OpCode::kSetData, SetData("/w", "1"));
  f.sockets.RunIterations();
  std::vector<CommandBatch> behind_snapshot = std::exchange(f.service.batches, {});
  f.service.ReplaceTree(&f.frontends);
  f.service.batches = std::move(behind_snapshot);
  f.service.Apply(&f.frontends);
  f.sockets.RunIterations();
  for (const uint32_t tag : {writer, watcher}) {
    CHECK(f.sockets.received(tag).empty());
    CHECK_FALSE(f.sockets.open(tag));
  }
}

TEST_CASE("a read that meets a snapshot hides nothing of what its client has missed") {
  Fixture f;
  const uint32_t writer = f.ConnectSession();
  ConnectResponse session;
  const uint32_t watcher = f.ConnectSession(&session);
  f.Call(writer, OpCode::kCreate, Create("/w", "0"));
  const Packet seen = f.Call(watcher, OpCode::kGetData, PathAndWatch("/w", true));
  f.Write(writer, 1, OpCode::kSetData, SetData("/w", "1"));
  f.sockets.RunIterations();
  f.service.ReplaceTree(&f.frontends);
  // The read comes after the snapshot, but before the loop has handled TreeReplaced.
  const OpCode op = GENERATE(OpCode::kGetData, OpCode::kExists, OpCode::kGetChildren);
  f.Write(watcher, 2, op, PathAndWatch("/", true));
  REQUIRE(f.sockets.HandIn(watcher));
  f.Settle();
  CHECK(f.sockets.received(watcher).empty());
  CHECK_FALSE(f.sockets.open(watcher));
  {
    MutexLock lock(&f.frontend.watches().mutex);
    CHECK(f.frontend.watches().table.empty());
  }
  // The client reconnects with its last seen zxid and sets its watch again.
  const uint32_t again =
      f.ConnectSession(&session, {session.session_id, session.password, /*last_zxid=*/seen.zxid});
  std::string body;
  BigEndianWriter body_writer(&body);
  body_writer.Int(seen.zxid);
  body_writer.Int<int32_t>(1);
  body_writer.String("/w");
  body_writer.Int<int32_t>(0);
  body_writer.Int<int32_t>(0);
  f.Write(again, -8, OpCode::kSetWatches, body);
  f.Settle();
  const Packet event = f.Next(again);
  CHECK(event.xid == kNotificationXid);
}

TEST_CASE("a connect request that meets a snapshot is not answered") {
  Fixture f;
  const uint32_t tag = f.Connect();
  f.service.ReplaceTree(&f.frontends);
  f.sockets.Write(tag, ConnectPacket({}));
  REQUIRE(f.sockets.HandIn(tag));
  f.Settle();
  CHECK(f.sockets.received(tag).empty());
  CHECK_FALSE(f.sockets.open(tag));
}

TEST_CASE("touches name each session once, in ascending order, and only those heard from") {
  Fixture f;
  std::vector<ConnectResponse> sessions(40);
  std::vector<uint32_t> tags(sessions.size());
  for (size_t i = 0; i < sessions.size(); ++i) tags[i] = f.ConnectSession(&sessions[i]);
  // The clients reconnect in another order.
  for (uint32_t tag : tags) f.sockets.HangUp(tag);
  CHECK(f.loop.client_count() == 0);
  for (size_t i = sessions.size(); i-- > 0;) {
    ConnectResponse ignored;
    tags[i] = f.ConnectSession(
        &ignored, {.session = sessions[i].session_id, .password = sessions[i].password});
  }
  f.Pass(199);  // a sixth of the shortest timeout, 1200 ms, has not passed yet
  CHECK(f.service.touches.empty());
  f.Pass(1);
  REQUIRE(f.service.touches.size() == 1);
  std::vector<int64_t> all;
  for (const ConnectResponse& session : sessions) all.push_back(session.session_id);
  CHECK(f.service.touches[0] == all);
  f.Pass(200);
  CHECK(f.service.touches.size() == 1);
  f.Write(tags[7], kPingXid, OpCode::kPing, "");
  f.Pass(199);
  CHECK(f.service.touches.size() == 1);
  f.Pass(1);
  REQUIRE(f.service.touches.size() == 2);
  CHECK(f.service.touches[1] == std::vector<int64_t>{sessions[7].session_id});
}

TEST_CASE("bytes that a congested server leaves in a socket are a sign of life") {
  Fixture f;
  ConnectResponse session;
  const uint32_t tag = f.ConnectSession(&session);
  f.Pass(200);
  f.service.touches.clear();
  f.service.is_congested = true;
  f.Write(tag, 1, OpCode::kCreate, Create("/a", ""));
  f.sockets.RunIterations();
  CHECK_FALSE(f.sockets.receiving(tag));
  const auto pass = [&](int64_t ms) {  // without applying anything
    f.clock.Advance(ms);
    f.loop.OnTimer();
  };
  pass(200);
  REQUIRE(f.service.touches.size() == 1);  // the write
  pass(200);
  CHECK(f.service.touches.size() == 1);  // no touch: the client is silent
  f.Write(tag, kPingXid, OpCode::kPing, "");
  for (size_t periods = 2; periods < 5; ++periods) {
    pass(200);
    REQUIRE(f.service.touches.size() == periods);
    CHECK(f.service.touches.back() == std::vector<int64_t>{session.session_id});
  }
}

TEST_CASE("a client that reads nothing is alive as long as more comes from it") {
  Fixture f;
  ConnectResponse session;
  const uint32_t tag = f.ConnectSession(&session);
  const std::string data(1'000'000, 'd');
  f.Call(tag, OpCode::kCreate, Create("/large", data));
  f.Pass(200);
  f.service.touches.clear();
  f.sockets.SetRoom(tag, 0);
  for (int i = 0; i < 10; ++i) f.Write(tag, i, OpCode::kGetData, PathAndWatch("/large", false));
  f.sockets.RunIterations();
  CHECK_FALSE(f.sockets.receiving(tag));
  f.Pass(200);
  REQUIRE(f.service.touches.size() == 1);
  f.Pass(200);
  CHECK(f.service.touches.size() == 1);
  f.Write(tag, kPingXid, OpCode::kPing, "");
  f.Pass(200);
  CHECK(f.service.touches.size() == 2);
  f.Pass(200);  // the client's machine may be off: no further touch
  CHECK(f.service.touches.size() == 2);
}

TEST_CASE("sessions of a loop that is held up are named as long as that lasts") {
  Fixture f;
  ConnectResponse session;
  f.ConnectSession(&session);
  CHECK(f.frontend.HeldUpSessions().empty());
  f.clock.Advance(600);
  CHECK(f.frontend.HeldUpSessions().empty());
  f.clock.Advance(1);
  CHECK(f.frontend.HeldUpSessions() == std::vector<int64_t>{session.session_id});
  f.loop.OnTimer();
  CHECK(f.frontend.HeldUpSessions().empty());
}

TEST_CASE("what was heard last before a connection ended counts for its session") {
  Fixture f;
  ConnectResponse session;
  const uint32_t tag = f.ConnectSession(&session);
  f.Pass(200);
  REQUIRE(f.service.touches.size() == 1);
  f.Write(tag, kPingXid, OpCode::kPing, "");
  f.Pass(1);
  SECTION("it broke") { f.sockets.HangUp(tag); }
  SECTION("the server closes it") {
    f.sockets.Write(tag, "\xff\xff\xff\xff");  // an invalid length
    f.Settle();
  }
  CHECK(f.loop.client_count() == 0);
  f.Pass(200);
  REQUIRE(f.service.touches.size() == 2);
  CHECK(f.service.touches[1] == std::vector<int64_t>{session.session_id});
  f.Pass(400);
  CHECK(f.service.touches.size() == 2);
}

TEST_CASE("a client that sends no connect request is closed after limits.firstRequestTimeoutMs") {
  Fixture f;
  const uint32_t silent = f.Connect();
  f.Pass(5'000);
  const uint32_t later = f.Connect();
  f.Pass(5'000);
  CHECK(f.sockets.open(silent));
  f.Pass(1);
  CHECK_FALSE(f.sockets.open(silent));
  CHECK(f.sockets.open(later));
}

TEST_CASE("a client is closed before its session ends at a leader that this server has lost") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  f.service.current.leader_contact_age_ms = 700;
  f.Pass(50);
  CHECK(f.sockets.open(tag));
  f.service.current.leader_contact_age_ms = 1200;
  f.Pass(50);
  CHECK_FALSE(f.sockets.open(tag));
}

TEST_CASE("a client that has seen more than the server is served once the server is as far") {
  Fixture f;
  const uint32_t writer = f.ConnectSession();
  const uint32_t ahead = f.Connect();
  const uint32_t far_ahead = f.Connect();
  f.sockets.Write(ahead, ConnectPacket({.last_zxid = 2}));
  f.sockets.Write(far_ahead, ConnectPacket({.last_zxid = 1000}));
  f.Pass(50);
  CHECK(f.service.batches.empty());
  f.Call(writer, OpCode::kCreate, Create("/a", ""));
  f.Pass(50);
  ConnectResponse response;
  CHECK(DecodeConnectResponse(f.Frame(ahead), true, &response));
  f.Pass(1899);
  CHECK(f.sockets.open(far_ahead));
  f.Pass(1);
  CHECK_FALSE(f.sockets.open(far_ahead));
  CHECK(f.sockets.open(ahead));
}

TEST_CASE("what does not fit into a socket is sent when there is room, and all of it") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  const std::string data(1000, 'd');
  f.Call(tag, OpCode::kCreate, Create("/a", data));
  f.sockets.SetRoom(tag, 10);
  for (int32_t xid = 1; xid <= 3; ++xid) {
    f.Write(tag, xid, OpCode::kGetData, PathAndWatch("/a", false));
  }
  f.Settle();
  CHECK(f.sockets.received(tag).size() == 10);
  f.Write(tag, 4, OpCode::kGetData, PathAndWatch("/a", false));
  for (int sends = 0; sends < 7; ++sends) {
    f.sockets.SetRoom(tag, 700);
    f.Settle();
  }
  f.sockets.SetRoom(tag, ManualSockets::kNoLimit);
  f.Settle();
  for (int32_t xid = 1; xid <= 4; ++xid) {
    const Packet packet = f.Next(tag);
    CHECK(packet.xid == xid);
    CHECK(DataOf(packet) == data);
  }
  CHECK(f.sockets.received(tag).empty());
}

TEST_CASE("clients that take large answers in turns, some slowly, are each sent their own") {
  Fixture f;
  const uint32_t slow = f.ConnectSession();
  const uint32_t fast = f.ConnectSession();
  const std::string large(600'000, 'l');
  f.Call(slow, OpCode::kCreate, Create("/large", large));
  f.Call(slow, OpCode::kCreate, Create("/small", "s"));
  const auto get = [&f](uint32_t tag, int32_t xid, const std::string& path) {
    f.Write(tag, xid, OpCode::kGetData, PathAndWatch(path, false));
    f.Settle();
  };
  int32_t xid = 0;
  for (int i = 0; i < 3; ++i) {
    get(fast, ++xid, "/large");
    CHECK(DataOf(f.Next(fast)) == large);
    // First much of the reply is unsent, then little, then nothing.
    f.sockets.SetRoom(slow, 1'000);
    get(slow, ++xid, "/large");
    get(fast, ++xid, "/small");
    CHECK(DataOf(f.Next(fast)) == "s");
    f.sockets.SetRoom(slow, 500'000);
    get(fast, ++xid, "/large");
    CHECK(DataOf(f.Next(fast)) == large);
    f.Settle();
    CHECK(f.sockets.received(slow).size() == 501'000);
    get(slow, ++xid, "/small");
    get(fast, ++xid, "/large");
    CHECK(DataOf(f.Next(fast)) == large);
    f.sockets.SetRoom(slow, ManualSockets::kNoLimit);
    f.Settle();
    CHECK(DataOf(f.Next(slow)) == large);
    CHECK(DataOf(f.Next(slow)) == "s");
  }
}

TEST_CASE("a connection that is to be closed is given 2 s to take its last answer") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  f.sockets.SetRoom(tag, 0);
  f.Write(tag, 1, OpCode::kCloseSession, "");
  f.Settle();
  for (int i = 0; i < 40; ++i) f.Pass(50);
  CHECK(f.sockets.open(tag));
  f.Pass(50);
  CHECK_FALSE(f.sockets.open(tag));
  CHECK(f.loop.client_count() == 0);
}

TEST_CASE("what a client had asked for when it went is done, without the reads between") {
  // How the connection ends. A protocol error is answered before the connection is closed.
  enum class Way { kHangUp, kBreak, kBadLength, kBadAuth };
  const Way way = GENERATE(Way::kHangUp, Way::kBreak, Way::kBadLength, Way::kBadAuth);
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  const auto create = [&](const std::string& name) {
    f.Write(tag, 1, OpCode::kCreate, Create(name, ""));
    f.Write(tag, 2, OpCode::kExists, PathAndWatch("/", false));
  };
  if (way == Way::kBreak) f.sockets.Break(tag);
  for (const std::string name : {"/a", "/b", "/c"}) create(name);
  f.Write(tag, 3, OpCode::kCreate, "?");  // this write is rejected; its error is dropped
  create("/d");
  if (way == Way::kBadLength) f.sockets.Write(tag, std::string(4, '\xff'));
  if (way == Way::kBadAuth) f.Write(tag, kAuthXid, OpCode::kAuth, "?");
  if (way == Way::kBadLength || way == Way::kBadAuth) create("/behind");
  if (way == Way::kBreak) {
    f.sockets.RunIterations();
    f.service.Apply(&f.frontends);  // the reply cannot be sent
    f.sockets.RunIterations();
    CHECK(f.sockets.open(tag));
    create("/e");  // this request was still in the network
  }
  f.sockets.RunIterations();
  if (way == Way::kHangUp || way == Way::kBreak) f.sockets.HangUp(tag);
  f.Settle();
  CHECK_FALSE(f.sockets.open(tag));
  for (const std::string name : {"/a", "/b", "/c", "/d"}) {
    INFO(name);
    CHECK(IsThere(f, name));
  }
  CHECK(IsThere(f, "/e") == (way == Way::kBreak));
  CHECK_FALSE(IsThere(f, "/behind"));
}

TEST_CASE("a connection that ends while it is read from has its packets until they are done") {
  Fixture f;
  ConnectResponse session;
  const uint32_t tag = f.ConnectSession(&session);
  const std::string path = "/" + std::string(5000, 'p');  // too long for the string's inline buffer
  f.Call(tag, OpCode::kCreate, Create(path, "data"));
  const std::string read = RequestPacket(5, OpCode::kGetData, PathAndWatch(path, false));
  f.sockets.Write(tag, read.substr(0, 10));
  f.sockets.RunIterations();
  const bool is_replaced = GENERATE(true, false);
  if (is_replaced) {
    f.service.ReplaceTree(&f.frontends);
  } else {
    const uint32_t other = f.Connect();
    f.sockets.Write(other, ConnectPacket({session.session_id, session.password}));
    f.sockets.RunIterations();
    f.service.Apply(&f.frontends);
  }
  // The read finds the replaced tree, or the moved session, in the inbox.
  f.sockets.Write(tag, read.substr(10));
  f.Write(tag, 6, OpCode::kCreate, Create("/b", ""));
  REQUIRE(f.sockets.HandIn(tag));
  f.Settle();
  CHECK_FALSE(f.sockets.open(tag));
  // The read's answer could show more than the events that the client was sent.
  CHECK(f.sockets.received(tag).empty());
  CHECK(IsThere(f, "/b") == is_replaced);  // if the tree was not replaced, the session has moved
}

TEST_CASE("a client that takes nothing any more is not answered, and its writes do not wait") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  f.Call(tag, OpCode::kCreate, Create("/a", ""));
  f.sockets.Break(tag);
  f.Write(tag, 1, OpCode::kExists, PathAndWatch("/", false));
  f.sockets.RunIterations();
  CHECK(f.sockets.open(tag));
  for (int i = 0; i < 10; ++i) {
    f.Write(tag, 2, OpCode::kGetData, PathAndWatch("/a", false));
    f.Write(tag, 3, OpCode::kSetData, SetData("/a", ""));
  }
  const std::string last = RequestPacket(4, OpCode::kCreate, Create("/b", ""));
  f.sockets.Write(tag, last.substr(0, 7));
  f.sockets.RunIterations();
  REQUIRE(f.service.batches.size() == 1);
  CHECK(f.service.batches[0].commands.size() == 10);
  f.sockets.Write(tag, last.substr(7));
  f.Write(tag, 5, OpCode::kCloseSession, "");
  f.Write(tag, 6, OpCode::kCreate, Create("/behind", ""));
  f.Settle();
  CHECK_FALSE(f.sockets.open(tag));
  CHECK(IsThere(f, "/b"));
  CHECK_FALSE(IsThere(f, "/behind"));
  CHECK(f.service.ReadTree()->session_count() == 0);
}

TEST_CASE("a session that its client closed and did not wait for ends, whatever was before") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  f.Write(tag, 1, OpCode::kCreate, Create("/a", ""));
  f.Write(tag, 2, OpCode::kExists, PathAndWatch("/", false));
  f.Write(tag, 3, OpCode::kCloseSession, "");
  f.Write(tag, 4, OpCode::kCreate, Create("/behind", ""));
  f.sockets.RunIterations();
  CHECK(f.service.ReadTree()->session_count() == 1);
  f.sockets.HangUp(tag);
  f.Settle();
  CHECK(f.service.ReadTree()->session_count() == 0);
  CHECK(IsThere(f, "/a"));
  CHECK_FALSE(IsThere(f, "/behind"));
}

TEST_CASE("what was received and not looked at is done too when the client goes") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  f.Write(tag, 1, OpCode::kCreate, Create("/a", ""));
  constexpr int kReads = 5000;  // more than a connection's pipeline may hold
  for (int i = 0; i < kReads; ++i) f.Write(tag, 2, OpCode::kExists, PathAndWatch("/", false));
  f.Write(tag, 3, OpCode::kCreate, Create("/b", ""));
  f.Write(tag, 4, OpCode::kCloseSession, "");
  f.sockets.RunIterations();
  f.sockets.HangUp(tag);
  f.Settle();
  CHECK(IsThere(f, "/b"));
  CHECK(f.service.ReadTree()->session_count() == 0);
}

TEST_CASE("nothing that came behind an operation that does not exist is done") {
  Fixture f;
  const uint32_t tag = f.ConnectSession();
  f.Write(tag, 1, OpCode::kCreate, Create("/a", ""));
  f.Write(tag, 2, OpCode::kExists, PathAndWatch("/", false));
  f.Write(tag, 3, static_cast<OpCode>(999), "");
  f.Write(tag, 4, OpCode::kCreate, Create("/behind", ""));
  f.sockets.RunIterations();
  if (GENERATE(true, false)) f.sockets.HangUp(tag);
  f.Settle();
  CHECK_FALSE(f.sockets.open(tag));
  CHECK(IsThere(f, "/a"));
  CHECK_FALSE(IsThere(f, "/behind"));
}

TEST_CASE("an idle loop sleeps, but short sessions are touched in time") {
  using std::chrono::milliseconds;
  const auto [min_session_timeout_ms, period] =
      GENERATE(std::pair(6000, milliseconds(250)), std::pair(900, milliseconds(150)),
               std::pair(1, milliseconds(100)));
  Config config = TestConfig();
  config.tick_time_ms = 2000;
  config.min_session_timeout_ms = min_session_timeout_ms;
  Fixture f(config);
  CHECK(f.loop.OnTimer() == period);
}

TEST_CASE("a server with too much on its way reads on only from clients that wait for nothing") {
  Fixture f;
  const uint32_t writer = f.ConnectSession();
  const uint32_t reader = f.ConnectSession();
  f.service.is_congested = true;
  f.Write(writer, 1, OpCode::kCreate, Create("/a", ""));
  f.Write(reader, 1, OpCode::kExists, PathAndWatch("/", false));
  f.sockets.RunIterations();
  CHECK_FALSE(f.sockets.receiving(writer));
  CHECK(f.sockets.receiving(reader));
  f.service.is_congested = false;
  f.loop.OnTimer();
  CHECK(f.sockets.receiving(writer));
}

TEST_CASE("above the limit of outstanding requests, clients that wait are read from no more") {
  Config config = TestConfig();
  config.global_outstanding_limit = 3;
  Fixture f(config);
  const uint32_t first = f.ConnectSession();
  const uint32_t second = f.ConnectSession();
  for (int i = 1; i <= 2; ++i) {
    f.Write(first, i, OpCode::kCreate, Create("/f" + std::to_string(i), ""));
    f.Write(second, i, OpCode::kCreate, Create("/s" + std::to_string(i), ""));
  }
  f.sockets.RunIterations();
  CHECK(f.frontend.statistics().outstanding() == 4);
  f.Write(first, 3, OpCode::kCreate, Create("/f3", ""));
  f.sockets.RunIterations();
  CHECK_FALSE(f.sockets.receiving(second));
  CHECK(f.frontend.statistics().outstanding() <= 5);
  CHECK(f.frontend.statistics().Sum().throttle_waits > 0);
  const uint32_t idle = f.ConnectSession();
  CHECK(f.sockets.receiving(idle));
  f.Settle();
  CHECK(f.frontend.statistics().outstanding() == 0);
  for (int i = 1; i <= 3; ++i) CHECK(f.Next(first).xid == i);
  for (int i = 1; i <= 2; ++i) CHECK(f.Next(second).xid == i);
  CHECK(f.sockets.receiving(first));
  CHECK(f.sockets.receiving(second));
}

TEST_CASE("there is a limit to all connections together") {
  Config config = TestConfig();
  config.max_connections = 2;
  Fixture f(config);
  const uint32_t first = f.Connect();
  CHECK(f.sockets.Connect("10.0.0.2").has_value());
  CHECK_FALSE(f.sockets.Connect("10.0.0.3").has_value());
  CHECK(f.frontend.statistics().connections_refused == 1);
  f.sockets.HangUp(first);
  CHECK(f.sockets.Connect("10.0.0.3").has_value());
}

TEST_CASE("more connections of one address than allowed are refused, until one has gone") {
  Config config = TestConfig();
  config.max_client_connections = 2;
  Fixture f(config);
  const uint32_t first = f.Connect();
  f.Connect();
  CHECK_FALSE(f.sockets.Connect().has_value());
  CHECK(f.sockets.Connect("10.0.0.2").has_value());
  f.sockets.HangUp(first);
  CHECK(f.sockets.Connect().has_value());
}

TEST_CASE("events for a client that does not read are bounded, far below what replies may take") {
  Fixture f;
  const uint32_t writer = f.ConnectSession();
  const uint32_t watcher = f.ConnectSession();
  const std::string path = "/" + std::string(500'000, 'p');
  std::string add = Path(path);
  BigEndianWriter(&add).Int<int32_t>(0);
  REQUIRE(f.Call(watcher, OpCode::kAddWatch, add).error == ErrorCode::kOk);
  REQUIRE(f.Call(writer, OpCode::kCreate, Create(path, "")).error == ErrorCode::kOk);
  REQUIRE(f.Next(watcher).xid == kNotificationXid);
  f.sockets.SetRoom(watcher, 0);
  const auto change = [&](int times) {
    for (; times > 0; --times) f.Call(writer, OpCode::kSetData, SetData(path, ""));
  };
  // 15 MB of unsent events, and then more than 16 MiB.
  change(30);
  f.Pass(1100);
  CHECK(f.sockets.open(watcher));
  change(10);
  f.Pass(100);
  CHECK_FALSE(f.sockets.open(watcher));
  CHECK(f.service.memory().used(MemoryUse::kUnsent) == 0);
}

TEST_CASE("a client that takes its events is not closed for how many there were") {
  Fixture f;
  const uint32_t writer = f.ConnectSession();
  const uint32_t watcher = f.ConnectSession();
  const std::string path = "/" + std::string(500'000, 'p');
  std::string add = Path(path);
  BigEndianWriter(&add).Int<int32_t>(0);
  REQUIRE(f.Call(watcher, OpCode::kAddWatch, add).error == ErrorCode::kOk);
  REQUIRE(f.Call(writer, OpCode::kCreate, Create(path, "")).error == ErrorCode::kOk);
  // The client always lacks half an event, so that the buffer is never empty.
  f.sockets.received(watcher).clear();
  f.sockets.SetRoom(watcher, 250'000);
  for (int i = 0; i < 60; ++i) {
    f.Call(writer, OpCode::kSetData, SetData(path, ""));
    f.Pass(100);
    f.sockets.received(watcher).clear();
    f.sockets.SetRoom(watcher, 500'000);
    f.Settle();
  }
  CHECK(f.sockets.open(watcher));
}

TEST_CASE("a client that does not read a large reply is closed when replies exceed their share") {
  Config config = TestConfig();
  config.max_reply_bytes = 32 << 20;
  Fixture f(config);
  f.service.memory().SetLimit(80u << 20);
  const uint32_t slow = f.ConnectSession();
  const uint32_t other = f.ConnectSession();
  REQUIRE(f.Call(other, OpCode::kCreate, Create("/d", std::string(900'000, 'x'))).error ==
          ErrorCode::kOk);
  std::string reads;
  BigEndianWriter to(&reads);
  for (int i = 0; i < 12; ++i) {
    WriteMultiResultHeader(OpCode::kGetData, to);
    to.String("/d");
    to.Int<uint8_t>(0);
  }
  WriteMultiEnd(to);
  f.sockets.SetRoom(slow, 0);
  f.Write(slow, 1, OpCode::kMultiRead, reads);
  f.Settle();
  CHECK(f.sockets.open(slow));
  CHECK(f.service.memory().used(MemoryUse::kUnsent) > 10'000'000);
  const uint32_t second = f.ConnectSession();
  f.sockets.SetRoom(second, 0);
  f.Write(second, 1, OpCode::kMultiRead, reads);
  f.Settle();
  // Neither client is closed yet, because both may have just begun to read.
  CHECK(f.sockets.open(second));
  f.Pass(1100);
  CHECK(f.sockets.open(slow) != f.sockets.open(second));
  CHECK(f.service.memory().closed() == 1);
  // The connection of a client that reads is not closed.
  f.Write(other, 1, OpCode::kMultiRead, reads);
  f.Settle();
  CHECK(f.Next(other).error == ErrorCode::kOk);
}

TEST_CASE(
    "when memory is low, the connection that takes the most is closed, and no new session begins") {
  Fixture f;
  MemoryBudget& memory = f.service.memory();
  memory.SetLimit(800u << 20);
  const uint32_t light = f.ConnectSession();
  const uint32_t heavy = f.ConnectSession();
  const uint32_t heavier = f.ConnectSession();
  for (const auto& [tag, watches] : {std::pair(heavy, 10'000), std::pair(heavier, 20'000)}) {
    std::string body(8, '\x7f');
    BigEndianWriter to(&body);
    to.Int<int32_t>(0);
    to.Int<int32_t>(watches);
    for (int i = 0; i < watches; ++i) to.String("/none" + std::to_string(i));
    to.Int<int32_t>(0);
    REQUIRE(f.Call(tag, OpCode::kSetWatches, body).error == ErrorCode::kOk);
  }
  f.Pass(300);
  CHECK(memory.OnMeasured(750u << 20));
  f.Pass(300);
  CHECK_FALSE(f.sockets.open(heavier));
  f.Pass(300);  // no new measurement came
  CHECK(f.sockets.open(heavy));
  ConnectResponse response;
  const std::optional<uint32_t> fresh = f.sockets.Connect();
  REQUIRE(fresh.has_value());
  f.sockets.Write(*fresh, ConnectPacket({}));
  f.Settle();
  CHECK_FALSE(f.sockets.open(*fresh));
  memory.OnMeasured(740u << 20);
  f.Pass(300);
  CHECK_FALSE(f.sockets.open(heavy));
  memory.OnMeasured(730u << 20);
  f.Pass(300);
  CHECK(f.sockets.open(light));
  // The memory is not used by clients: no client is closed or refused.
  memory.OnMeasured(750u << 20, 700u << 20);
  CHECK(memory.low());
  f.Pass(300);
  f.ConnectSession(&response);
  CHECK(response.timeout_ms > 0);
  CHECK(memory.closed() == 2);
}

}  // namespace
}  // namespace quorate::rpc::zk
