// SPDX-License-Identifier: Apache-2.0

// A server without a quorum, in read-only mode.
#include <catch2/catch.hpp>
#include <string>

#include "rpc/zookeeper/testing/loop_fixture.h"

namespace quorate::rpc::zk {
namespace {

using tree::ErrorCode;

class ReadOnlyFixture : public Fixture {
 public:
  void LoseQuorum() {
    service.current.in_touch = false;
    service.current.leader_known = false;
    service.current.read_only = true;
    service.current.leader_contact_age_ms = 60'000;
  }
  void FindQuorum() {
    service.current = {};
    service.current.in_touch = true;
    service.current.leader_known = true;
  }
};

TEST_CASE("only clients that accept it are served by a server that serves reads only") {
  ReadOnlyFixture f;
  f.Call(f.ConnectSession(), OpCode::kCreate, Create("/a", "data"));
  f.LoseQuorum();
  const uint32_t other = f.Connect();
  f.sockets.Write(other, ConnectPacket({}));
  f.Settle();
  CHECK_FALSE(f.sockets.open(other));
  CHECK(f.sockets.received(other).empty());

  ConnectResponse response;
  const uint32_t tag = f.ConnectSession(&response, {.read_only = true});
  CHECK(response.read_only);
  CHECK(response.timeout_ms == 1200);
  CHECK(f.frontend.read_only_sessions() == 1);
  CHECK(f.service.batches.empty());
  CHECK(DataOf(f.Call(tag, OpCode::kGetData, PathAndWatch("/a", true))) == "data");
  CHECK(f.Call(tag, OpCode::kGetChildren, PathAndWatch("/", false)).error == ErrorCode::kOk);
  CHECK(f.Call(tag, OpCode::kCreate, Create("/b", "")).error == ErrorCode::kNotReadOnly);
  CHECK(f.Call(tag, OpCode::kCreate, "").error == ErrorCode::kNotReadOnly);
  CHECK(f.Call(tag, OpCode::kSetData, SetData("/a", "")).error == ErrorCode::kNotReadOnly);
  CHECK(f.Call(tag, OpCode::kMulti, "").error == ErrorCode::kNotReadOnly);
  CHECK(f.Call(tag, OpCode::kSync, Path("/")).error == ErrorCode::kNotReadOnly);
  CHECK(f.Call(tag, OpCode::kReconfig, "").error == ErrorCode::kNotReadOnly);
  CHECK(f.service.batches.empty());
  CHECK(f.service.syncs.empty());
  CHECK(f.Call(tag, OpCode::kCloseSession, "").error == ErrorCode::kOk);
  CHECK_FALSE(f.sockets.open(tag));
  CHECK(f.frontend.read_only_sessions() == 0);
}

TEST_CASE("a client that may only read is sent away when the quorum is back") {
  ReadOnlyFixture f;
  f.LoseQuorum();
  ConnectResponse response;
  const uint32_t tag = f.ConnectSession(&response, {.read_only = true});
  f.Pass(50);
  CHECK(f.sockets.open(tag));
  f.FindQuorum();
  f.Pass(50);
  CHECK_FALSE(f.sockets.open(tag));
  // If there is a quorum, a client that accepts read-only mode can write.
  const uint32_t again = f.ConnectSession(&response, {.read_only = true});
  CHECK_FALSE(response.read_only);
  CHECK(f.Call(again, OpCode::kCreate, Create("/b", "")).error == ErrorCode::kOk);
}

TEST_CASE("a client that may only read is forgotten when it is silent for its timeout") {
  ReadOnlyFixture f;
  f.LoseQuorum();
  ConnectResponse response;
  const uint32_t tag = f.ConnectSession(&response, {.timeout_ms = 2000, .read_only = true});
  f.Pass(1500);
  f.Write(tag, kPingXid, OpCode::kPing, "");
  f.Settle();
  f.Pass(1500);
  CHECK(f.sockets.open(tag));
  f.Pass(600);
  CHECK_FALSE(f.sockets.open(tag));
  CHECK(f.frontend.read_only_sessions() == 0);
  CHECK(f.service.touches.empty());
}

TEST_CASE("a session of the cluster can read on at a server that has lost the others") {
  ReadOnlyFixture f;
  ConnectResponse session;
  const uint32_t old = f.ConnectSession(&session);
  f.sockets.HangUp(old);
  f.LoseQuorum();
  ConnectResponse response;
  const uint32_t tag = f.ConnectSession(
      &response, {.session = session.session_id, .password = session.password, .read_only = true});
  CHECK(response.session_id == session.session_id);
  CHECK(response.read_only);
  CHECK(f.frontend.read_only_sessions() == 0);
  // A server without a quorum cannot end the session.
  CHECK(f.Call(tag, OpCode::kCloseSession, "").error == ErrorCode::kNotReadOnly);
  CHECK(f.sockets.open(tag));

  const uint32_t wrong = f.Connect();
  f.sockets.Write(wrong, ConnectPacket({.session = session.session_id, .read_only = true}));
  f.Settle();
  CHECK(DecodeConnectResponse(f.Frame(wrong), true, &response));
  CHECK(response.session_id == 0);
  CHECK_FALSE(f.sockets.open(wrong));

  // The session may exist although this server does not know it.
  const uint32_t unknown = f.Connect();
  f.sockets.Write(unknown, ConnectPacket({.session = 4711, .read_only = true}));
  f.Settle();
  CHECK(f.sockets.received(unknown).empty());
  CHECK_FALSE(f.sockets.open(unknown));
}

}  // namespace
}  // namespace quorate::rpc::zk
