// SPDX-License-Identifier: Apache-2.0

// Sessions that only the server of their client knows (localSessionsEnabled).
#include <spdlog/fmt/fmt.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "rpc/zookeeper/testing/loop_fixture.h"

namespace quorate::rpc::zk {
namespace {

using tree::ErrorCode;

constexpr int32_t kEphemeral = 1;
// A silent session ends at most this much after its client was last heard from: its timeout, the most
// that one advance of the time may take, one tick, and the time between two reports and checks.
constexpr int64_t kSilentMs = 1200 + 500 + 2000 + 500;

Config LocalConfig(bool upgrades = false) {
  Config config = TestConfig();
  config.local_sessions = true;
  config.local_sessions_upgrading = upgrades;
  config.four_letter_words = {"*"};
  return config;
}

class LocalFixture : public Fixture {
 public:
  explicit LocalFixture(Config c = LocalConfig()) : Fixture(std::move(c)) {}

  int64_t zxid() { return service.ReadTree()->last_zxid().value(); }
  size_t global_sessions() { return service.ReadTree()->session_count(); }
  size_t local_sessions() { return frontend.local_sessions().size(); }
  bool Has(const std::string& path) {
    tree::Stat stat;
    return service.ReadTree()->Exists(path, &stat) == ErrorCode::kOk;
  }
  // Begins to connect again with the session, and returns the tag of the connection.
  uint32_t ConnectAgain(const ConnectResponse& session, bool read_only = false) {
    const uint32_t tag = Connect();
    sockets.Write(tag, ConnectPacket({.session = session.session_id,
                                      .password = session.password,
                                      .read_only = read_only}));
    sockets.RunIterations();
    return tag;
  }
  // Returns the id of the session with which a connection was answered; 0: it was refused.
  int64_t SessionOf(uint32_t tag) {
    ConnectResponse response;
    REQUIRE(DecodeConnectResponse(Frame(tag), true, &response));
    return response.session_id;
  }
  // Lets the time pass in small steps, in which the clients are silent.
  void PassSlowly(int64_t ms) {
    for (; ms > 0; ms -= 250) Pass(250);
  }
  // Returns how long a silent session has lived, in steps of 250 ms.
  int64_t LifeMs() {
    int64_t ms = 0;
    for (; local_sessions() > 0 && ms < 60'000; ms += 250) Pass(250);
    return ms;
  }
};

TEST_CASE("a local session begins and ends without an entry in the log") {
  LocalFixture f;
  ConnectResponse response;
  const uint32_t tag = f.ConnectSession(&response);
  CHECK(static_cast<uint64_t>(response.session_id) >> 56 == 3);
  CHECK(response.timeout_ms == 1200);
  CHECK_FALSE(response.read_only);
  CHECK(f.local_sessions() == 1);
  CHECK(f.frontend.local_session_count() == 1);
  CHECK(f.zxid() == 0);

  // A local session writes and reads as a global one does.
  CHECK(f.Call(tag, OpCode::kCreate, Create("/a", "data")).error == ErrorCode::kOk);
  CHECK(DataOf(f.Call(tag, OpCode::kGetData, PathAndWatch("/a", true))) == "data");
  CHECK(f.zxid() == 1);

  const Packet end = f.Call(tag, OpCode::kCloseSession, "");
  CHECK(end.error == ErrorCode::kOk);
  CHECK(end.zxid == 1);
  CHECK_FALSE(f.sockets.open(tag));
  CHECK(f.zxid() == 1);
  CHECK(f.local_sessions() == 0);
  CHECK(f.global_sessions() == 0);
  CHECK(f.service.touches.empty());
}

TEST_CASE("the end of a local session waits for the writes before it") {
  LocalFixture f;
  const uint32_t tag = f.ConnectSession();
  f.Write(tag, 1, OpCode::kCreate, Create("/a", ""));
  f.Write(tag, 2, OpCode::kCloseSession, "");
  f.sockets.RunIterations();
  CHECK(f.sockets.received(tag).empty());
  CHECK(f.local_sessions() == 1);
  f.Settle();
  CHECK(f.Next(tag).xid == 1);
  CHECK(f.Next(tag).xid == 2);
  CHECK_FALSE(f.sockets.open(tag));
  CHECK(f.local_sessions() == 0);
}

TEST_CASE("a local session that must stay local creates no ephemeral, alone or in a multi") {
  LocalFixture f;
  const uint32_t tag = f.ConnectSession();
  f.Write(tag, 1, OpCode::kCreate, Create("/a", ""));
  f.Write(tag, 2, OpCode::kCreate, Create("/e", "", kEphemeral));
  f.Write(tag, 3, OpCode::kMulti,
          Multi({{OpCode::kCreate, Create("/m", "")},
                 {OpCode::kCreate2, Create("/m/e", "", kEphemeral)}}));
  f.Write(tag, 4, OpCode::kCreate, Create("/b", ""));
  f.Settle();
  CHECK(f.Next(tag).error == ErrorCode::kOk);
  CHECK(f.Next(tag).error == ErrorCode::kEphemeralOnLocalSession);
  const Packet multi = f.Next(tag);
  CHECK(multi.error == ErrorCode::kOk);
  std::string refused(sizeof(int32_t), '\0');
  StoreInt<std::endian::big>(refused.data(), int32_t{-120});
  CHECK_THAT(multi.body, Catch::Matchers::Contains(refused));
  CHECK(f.Next(tag).error == ErrorCode::kOk);
  CHECK(f.sockets.open(tag));
  CHECK(f.zxid() == 4);
  CHECK_FALSE(f.Has("/m"));
}

TEST_CASE("a local session is made global once, in the order of its requests") {
  LocalFixture f(LocalConfig(/*upgrades=*/true));
  ConnectResponse session;
  const uint32_t tag = f.ConnectSession(&session);
  f.Write(tag, 1, OpCode::kCreate, Create("/a", ""));
  f.Write(tag, 2, OpCode::kCreate, Create("/a/e", "", kEphemeral));
  f.Write(tag, 3, OpCode::kCreate, Create("/f", "", kEphemeral));
  f.Write(tag, 4, OpCode::kExists, PathAndWatch("/f", false));
  f.Write(tag, 5, OpCode::kCreate, Create("/b", ""));
  // Before the createSession is applied, only the requests before it are in the log.
  f.sockets.RunIterations();
  f.service.Apply(&f.frontends);
  CHECK(f.zxid() == 2);
  CHECK(f.Has("/a"));
  CHECK(f.global_sessions() == 1);
  CHECK(f.local_sessions() == 0);
  f.Settle();
  const int64_t zxids[] = {1, 3, 4, 4, 5};
  for (int32_t xid = 1; xid <= 5; ++xid) {
    const Packet reply = f.Next(tag);
    CHECK(reply.xid == xid);
    CHECK(reply.error == ErrorCode::kOk);
    CHECK(reply.zxid == zxids[xid - 1]);
  }
  tree::Stat stat;
  REQUIRE(f.service.ReadTree()->Exists("/a/e", &stat) == ErrorCode::kOk);
  CHECK(stat.ephemeral_owner.value() == session.session_id);
  tree::SessionInfo info;
  REQUIRE(f.service.ReadTree()->FindSession(tree::SessionId(session.session_id), &info));
  CHECK(info.timeout_ms == 1200);

  // From now on it is a session like any other.
  f.Pass(1000);
  CHECK(f.service.touches ==
        std::vector<std::vector<int64_t>>{std::vector<int64_t>{session.session_id}});
  CHECK(f.Call(tag, OpCode::kCloseSession, "").zxid == 6);
  CHECK_FALSE(f.Has("/a/e"));
  CHECK(f.global_sessions() == 0);
}

TEST_CASE("a multi that creates an ephemeral makes a local session global") {
  LocalFixture f(LocalConfig(/*upgrades=*/true));
  const uint32_t tag = f.ConnectSession();
  const Packet reply = f.Call(tag, OpCode::kMulti,
                              Multi({{OpCode::kCreate, Create("/m", "")},
                                     {OpCode::kCreate2, Create("/m/e", "", kEphemeral)}}));
  CHECK(reply.error == ErrorCode::kOk);
  CHECK(reply.zxid == 2);
  CHECK(f.Has("/m/e"));
}

TEST_CASE("a client that disconnects while its session is made global keeps the session") {
  LocalFixture f(LocalConfig(/*upgrades=*/true));
  ConnectResponse session;
  const uint32_t tag = f.ConnectSession(&session);
  f.Write(tag, 1, OpCode::kCreate, Create("/e", "", kEphemeral));
  f.Write(tag, 2, OpCode::kCreate, Create("/b", ""));
  f.sockets.RunIterations();
  f.sockets.HangUp(tag);
  // The session is neither local nor global yet.
  const uint32_t again = f.ConnectAgain(session);
  f.Pass(100);
  f.Settle();
  f.Pass(100);
  CHECK(f.SessionOf(again) == session.session_id);
  CHECK(f.local_sessions() == 0);
  CHECK(f.global_sessions() == 1);
  // A later write without an earlier one would be out of order.
  CHECK_FALSE(f.Has("/e"));
  CHECK_FALSE(f.Has("/b"));
  CHECK(f.Call(again, OpCode::kCreate, Create("/e", "", kEphemeral)).error == ErrorCode::kOk);
}

TEST_CASE("the end of a session that is being made global ends it everywhere") {
  LocalFixture f(LocalConfig(/*upgrades=*/true));
  const uint32_t tag = f.ConnectSession();
  const bool is_upgrading = GENERATE(true, false);
  if (is_upgrading) {
    f.Write(tag, 1, OpCode::kCreate, Create("/e", "", kEphemeral));
    f.sockets.RunIterations();
  } else {
    // The server finds that the client takes no more bytes when it answers the ping.
    f.Write(tag, kPingXid, OpCode::kPing, "");
    f.sockets.Break(tag);
    f.sockets.RunIterations();
  }
  f.Write(tag, 2, OpCode::kCreate, Create("/f", "", kEphemeral));
  f.Write(tag, 3, OpCode::kCreate, Create("/g", ""));
  f.Write(tag, 4, OpCode::kCloseSession, "");
  f.sockets.RunIterations();
  if (f.sockets.open(tag)) f.sockets.HangUp(tag);
  f.Settle();
  CHECK(f.local_sessions() == 0);
  CHECK(f.global_sessions() == 0);
  CHECK(f.zxid() == (is_upgrading ? 2 : 0));
  CHECK_FALSE(f.Has("/g"));
}

TEST_CASE("a session that is made global while the tree is replaced does not stay local") {
  LocalFixture f(LocalConfig(/*upgrades=*/true));
  ConnectResponse session;
  const uint32_t tag = f.ConnectSession(&session);
  f.Write(tag, 1, OpCode::kCreate, Create("/e", "", kEphemeral));
  f.sockets.RunIterations();
  f.service.ReplaceTree(&f.frontends);
  f.frontends.OnBatchApplied();
  f.Settle();
  CHECK_FALSE(f.sockets.open(tag));
  CHECK(f.local_sessions() == 0);
  const uint32_t again = f.ConnectAgain(session);
  f.Settle();
  CHECK(f.SessionOf(again) == session.session_id);
}

TEST_CASE("a local session with writes under way ends when the tree is replaced") {
  LocalFixture f;
  ConnectResponse session;
  const uint32_t tag = f.ConnectSession(&session);
  const uint32_t idle = f.ConnectSession();
  f.Write(tag, 1, OpCode::kCreate, Create("/a", ""));
  f.sockets.RunIterations();
  const bool hangs_up_before = GENERATE(true, false);
  if (hangs_up_before) f.sockets.HangUp(tag);
  f.service.ReplaceTree(&f.frontends);
  f.frontends.OnBatchApplied();
  f.Settle();
  CHECK_FALSE(f.sockets.open(tag));
  CHECK_FALSE(f.sockets.open(idle));
  CHECK(f.local_sessions() == 1);  // nothing of the other one is under way
  const uint32_t again = f.ConnectAgain(session);
  f.EndBarrier(1);
  CHECK(f.SessionOf(again) == 0);
}

TEST_CASE("a client gets its local session again if results come while its connection closes") {
  LocalFixture f;
  ConnectResponse session;
  const uint32_t old = f.ConnectSession(&session);
  f.Write(old, 1, OpCode::kCreate, Create("/a", ""));
  f.sockets.RunIterations();
  f.service.Apply(&f.frontends);  // the loop has the result, and has not handled it yet
  f.sockets.HangUp(old);
  f.sockets.RunIterations();
  const uint32_t tag = f.ConnectAgain(session);
  f.Pass(100);
  CHECK(f.SessionOf(tag) == session.session_id);
}

TEST_CASE("a client that connects again to the same server continues its local session") {
  LocalFixture f;
  ConnectResponse session;
  const uint32_t old = f.ConnectSession(&session);
  f.sockets.HangUp(old);
  CHECK(f.local_sessions() == 1);
  const uint32_t tag = f.ConnectAgain(session);
  CHECK(f.SessionOf(tag) == session.session_id);
  CHECK(f.zxid() == 0);
  CHECK(f.Call(tag, OpCode::kCreate, Create("/a", "")).error == ErrorCode::kOk);
}

TEST_CASE("a local session that this server does not know has expired") {
  LocalFixture f;
  ConnectResponse session;
  const uint32_t old = f.ConnectSession(&session);
  f.sockets.HangUp(old);
  if (GENERATE(true, false)) {
    session.session_id += 1;  // such as one of another server
  } else {
    session.password[0] ^= 1;
  }
  const uint32_t tag = f.ConnectAgain(session);
  CHECK(f.sockets.received(tag).empty());
  f.EndBarrier(1);
  CHECK(f.SessionOf(tag) == 0);
  CHECK_FALSE(f.sockets.open(tag));
  CHECK(f.local_sessions() == 1);
  CHECK(f.zxid() == 0);
}

TEST_CASE("a local session moves to a newer connection when the older one is closed") {
  LocalFixture f;
  ConnectResponse session;
  const uint32_t old = f.ConnectSession(&session);
  const uint32_t tag = f.ConnectAgain(session);
  CHECK_FALSE(f.sockets.open(old));
  CHECK(f.sockets.received(tag).empty());
  f.Pass(100);
  CHECK(f.SessionOf(tag) == session.session_id);
  CHECK(f.local_sessions() == 1);
}

TEST_CASE("a client gets its local session again when all that it has written is applied") {
  LocalFixture f;
  ConnectResponse session;
  const uint32_t old = f.ConnectSession(&session);
  f.Write(old, 1, OpCode::kCreate, Create("/a", ""));
  f.Write(old, 2, OpCode::kCreate, Create("/b", ""));
  f.sockets.RunIterations();
  f.sockets.HangUp(old);
  const uint32_t tag = f.ConnectAgain(session);
  f.clock.Advance(100);
  f.loop.OnTimer();
  f.sockets.RunIterations();
  CHECK(f.sockets.received(tag).empty());
  f.Settle();
  f.Pass(100);
  CHECK(f.SessionOf(tag) == session.session_id);
  CHECK(f.Has("/b"));
}

TEST_CASE("a local session ends when its client is silent for its timeout") {
  LocalFixture f;
  ConnectResponse session;
  const uint32_t tag = f.ConnectSession(&session);
  f.PassSlowly(1000);
  f.Write(tag, kPingXid, OpCode::kPing, "");
  f.Settle();
  f.sockets.received(tag).clear();
  SECTION("with a connection, which is closed") {
    const int64_t life_ms = f.LifeMs();
    CHECK(life_ms >= 1200);
    CHECK(life_ms <= kSilentMs);
    CHECK_FALSE(f.sockets.open(tag));
  }
  SECTION("without a connection") {
    f.sockets.HangUp(tag);
    const int64_t life_ms = f.LifeMs();
    CHECK(life_ms >= 1200);
    CHECK(life_ms <= kSilentMs);
  }
  CHECK(f.frontend.local_sessions().expired() == 1);
  CHECK(f.zxid() == 0);
  const uint32_t again = f.ConnectAgain(session);
  f.EndBarrier(1);
  CHECK(f.SessionOf(again) == 0);
}

TEST_CASE("a write that waits when its local session ends is not executed") {
  Config config = LocalConfig();
  config.linearizable_reads = true;
  LocalFixture f(config);
  const uint32_t tag = f.ConnectSession();
  f.Write(tag, 1, OpCode::kExists, PathAndWatch("/a", false));
  f.Write(tag, 2, OpCode::kCreate, Create("/late", ""));  // waits for the read
  f.Settle();
  f.LifeMs();
  CHECK(f.local_sessions() == 0);
  CHECK_FALSE(f.sockets.open(tag));
  CHECK_FALSE(f.Has("/late"));
}

TEST_CASE("a local session lives while its client sends pings, or bytes that are not read yet") {
  LocalFixture f;
  const uint32_t tag = f.ConnectSession();
  for (int i = 0; i < 10; ++i) {
    f.Pass(1000);
    f.Write(tag, kPingXid, OpCode::kPing, "");
    f.Settle();
  }
  CHECK(f.sockets.open(tag));
  // This thread is late: the client has sent a ping, but the sockets are not read.
  f.Write(tag, kPingXid, OpCode::kPing, "");
  for (int i = 0; i < 30; ++i) {
    f.clock.Advance(250);
    f.loop.OnTimer();
    f.loop.OnWake();
  }
  f.Settle();
  CHECK(f.sockets.open(tag));
  CHECK(f.local_sessions() == 1);
}

TEST_CASE("no local session gets older while the process is paused") {
  LocalFixture f;
  const uint32_t tag = f.ConnectSession();
  f.Pass(250);
  f.Pass(100'000);
  CHECK(f.sockets.open(tag));
}

TEST_CASE("sessions are global until every member understands local ones") {
  LocalFixture f;
  f.service.version = tree::kVersionLocalSessions - 1;
  const uint32_t tag = f.ConnectSession();
  CHECK(f.global_sessions() == 1);
  CHECK(f.local_sessions() == 0);
  CHECK(f.Call(tag, OpCode::kCreate, Create("/e", "", kEphemeral)).error == ErrorCode::kOk);
  f.service.version = tree::kVersionLocalSessions;
  f.ConnectSession();
  CHECK(f.global_sessions() == 1);
  CHECK(f.local_sessions() == 1);
}

TEST_CASE("a server without a quorum refuses a new local session") {
  LocalFixture f;
  f.service.current.in_touch = false;
  const uint32_t tag = f.Connect();
  f.sockets.Write(tag, ConnectPacket({}));
  f.Settle();
  CHECK_FALSE(f.sockets.open(tag));
  CHECK(f.local_sessions() == 0);
}

TEST_CASE("a local session can read on at a server without a quorum, and go on afterwards") {
  LocalFixture f;
  ConnectResponse session;
  const uint32_t old = f.ConnectSession(&session);
  f.sockets.HangUp(old);
  f.service.current.in_touch = false;
  f.service.current.read_only = true;
  const uint32_t reader = f.ConnectAgain(session, /*read_only=*/true);
  CHECK(f.SessionOf(reader) == session.session_id);
  CHECK(f.Call(reader, OpCode::kCreate, Create("/a", "")).error == ErrorCode::kNotReadOnly);
  if (GENERATE(true, false)) {
    CHECK(f.Call(reader, OpCode::kCloseSession, "").error == ErrorCode::kOk);
    CHECK(f.local_sessions() == 0);
    return;
  }
  f.service.current.in_touch = true;
  f.service.current.read_only = false;
  f.Pass(100);
  CHECK_FALSE(f.sockets.open(reader));
  const uint32_t tag = f.ConnectAgain(session);
  CHECK(f.SessionOf(tag) == session.session_id);
  CHECK(f.Call(tag, OpCode::kCreate, Create("/a", "")).error == ErrorCode::kOk);
}

TEST_CASE("watches and linearizable reads of local sessions work as those of others") {
  LocalFixture f;
  ConnectResponse session;
  const uint32_t tag = f.ConnectSession(&session);
  const uint32_t other = f.ConnectSession();
  CHECK(f.Call(tag, OpCode::kExists, PathAndWatch("/a", true)).error == ErrorCode::kNoNode);
  CHECK(f.Call(other, OpCode::kCreate, Create("/a", "")).error == ErrorCode::kOk);
  CHECK(f.Next(tag).xid == kNotificationXid);
  CHECK(f.service.syncs.empty());
  f.Write(tag, 1, OpCode::kSync, Path("/a"));
  f.Settle();
  f.EndBarrier(1);
  CHECK(f.Next(tag).xid == 1);

  const std::string parent(LinearizableSessions::kParent);
  f.Call(other, OpCode::kCreate, Create(parent, ""));
  const auto id = static_cast<uint64_t>(session.session_id);
  const std::string name = fmt::format("{}/0x{:x}", parent, id);
  CHECK(f.Call(other, OpCode::kCreate, Create(name, "")).error == ErrorCode::kOk);
  f.Write(tag, 2, OpCode::kExists, PathAndWatch("/a", false));
  f.Settle();
  CHECK(f.sockets.received(tag).empty());
  f.EndBarrier(2);
  CHECK(f.Next(tag).xid == 2);
}

TEST_CASE("dump and mntr show local sessions") {
  LocalFixture f;
  f.service.current.leader_known = true;
  ConnectResponse session;
  f.ConnectSession(&session);
  const auto ask = [&f](const std::string& word) {
    const uint32_t tag = f.Connect();
    f.sockets.Write(tag, word);
    f.sockets.RunIterations();
    return f.sockets.received(tag);
  };
  const auto id = static_cast<uint64_t>(session.session_id);
  CHECK_THAT(ask("dump"), Catch::Matchers::StartsWith(
                              fmt::format("SessionTracker dump:\nLocal Session Sets (1)/(1):\n"
                                          "\t0x{:x}\n"
                                          "Global Sessions(0):\nephemeral nodes dump:\n",
                                          id)));
  CHECK_THAT(ask("mntr"), Catch::Matchers::Contains("zk_global_sessions\t0\n"));
  CHECK_THAT(ask("mntr"), Catch::Matchers::Contains("zk_local_sessions\t1\n"));
}

TEST_CASE("sessions without a connection are bounded") {
  LocalSessions sessions(1000);
  for (size_t i = 1; i <= LocalSessions::kDetachedMax + 1; ++i) {
    const tree::SessionId id(static_cast<int64_t>(i));
    REQUIRE(sessions.Add(id, "p", 10'000, 1));
    sessions.Detach(id, 1, 0);
  }
  CHECK(sessions.size() == LocalSessions::kDetachedMax);
  CHECK(sessions.Take(tree::SessionId(1), "p", 10'000, 2).result == LocalSessions::Taking::kTaken);
}

}  // namespace
}  // namespace quorate::rpc::zk
