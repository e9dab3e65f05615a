// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/handshakes.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "rpc/zookeeper/testing/loop_fixture.h"

namespace quorate::rpc::zk {
namespace {

constexpr size_t kMax = Handshakes::kUnderWayMax;

TEST_CASE("handshakes wait beyond the limit, and those with a session come first") {
  Handshakes handshakes;
  for (uint32_t tag = 0; tag < kMax; ++tag) CHECK(handshakes.Begin(tag, tag % 2 == 0));
  CHECK_FALSE(handshakes.has_waiting());
  const auto end = [&handshakes](uint32_t tag) { handshakes.End(tag); };
  for (uint32_t tag = 2000; tag < 2020; ++tag) CHECK_FALSE(handshakes.Begin(tag, false));
  for (uint32_t tag = 3000; tag < 3020; ++tag) CHECK_FALSE(handshakes.Begin(tag, true));
  CHECK_FALSE(handshakes.TakeNext().has_value());

  std::vector<uint32_t> taken;
  for (uint32_t tag = 0; tag < 16; ++tag) {
    end(tag);
    end(tag);  // ends only once
    const std::optional<uint32_t> next = handshakes.TakeNext();
    REQUIRE(next.has_value());
    taken.push_back(*next);
    CHECK_FALSE(handshakes.TakeNext().has_value());
  }
  CHECK(taken == std::vector<uint32_t>{3000, 3001, 3002, 3003, 3004, 3005, 3006, 2000, 3007, 3008,
                                       3009, 3010, 3011, 3012, 3013, 2001});
  // Whoever comes while others wait does not overtake them.
  end(17);
  CHECK_FALSE(handshakes.Begin(5000, true));
  CHECK(handshakes.TakeNext() == 3014);
  handshakes.EndAll();
  for (int i = 0; i < 24; ++i) CHECK(handshakes.TakeNext().has_value());
  CHECK_FALSE(handshakes.has_waiting());
}

Config ForMany() {
  Config config = TestConfig();
  config.max_client_connections = 0;
  return config;
}

// Many clients that connect at once, before anything of that is applied.
class Herd : public Fixture {
 public:
  explicit Herd(size_t count) : Fixture(ForMany()) {
    for (size_t i = 0; i < count; ++i) {
      tags.push_back(Connect());
      sockets.Write(tags.back(), ConnectPacket({}));
    }
    sockets.RunIterations();
  }
  // Returns the number of commands that were submitted and are not applied yet.
  size_t Submitted() const {
    size_t count = 0;
    for (const CommandBatch& batch : service.batches) count += batch.commands.size();
    return count;
  }
  size_t Up() {
    size_t up = 0;
    for (const uint32_t tag : tags) up += sockets.received(tag).empty() ? 0 : 1;
    return up;
  }

  std::vector<uint32_t> tags;
};

TEST_CASE("of very many clients that connect at once, all get a session, some at a time") {
  Herd f(3 * kMax + 10);
  CHECK(f.Submitted() == kMax);
  for (const size_t up : {kMax, 2 * kMax, 3 * kMax}) {
    f.service.Apply(&f.frontends);
    f.sockets.RunIterations();
    CHECK(f.Up() == up);
    CHECK(f.Submitted() <= kMax);
  }
  f.Settle();
  CHECK(f.Up() == 3 * kMax + 10);
}

TEST_CASE("a client that has a session is served before clients that have none") {
  Fixture f(ForMany());
  ConnectResponse session;
  f.sockets.HangUp(f.ConnectSession(&session));
  std::vector<uint32_t> tags;
  for (size_t i = 0; i < 2 * kMax; ++i) {
    tags.push_back(f.Connect());
    f.sockets.Write(tags.back(), ConnectPacket({}));
  }
  const uint32_t returning = f.Connect();
  ConnectPacketOptions options;
  options.session = session.session_id;
  options.password = session.password;
  f.sockets.Write(returning, ConnectPacket(options) +
                                 RequestPacket(1, OpCode::kExists, PathAndWatch("/", false)));
  f.sockets.RunIterations();
  CHECK(f.sockets.received(returning).empty());
  f.service.Apply(&f.frontends);  // the first handshakes; the next ones begin
  f.sockets.RunIterations();
  CHECK(f.sockets.received(tags.back()).empty());
  f.service.Apply(&f.frontends);
  f.sockets.RunIterations();
  // What it has sent behind its connect request is answered, too.
  ConnectResponse again;
  REQUIRE(DecodeConnectResponse(f.Frame(returning), true, &again));
  CHECK(again.session_id == session.session_id);
  CHECK(f.Next(returning).xid == 1);
  CHECK(f.sockets.received(tags.back()).empty());
}

TEST_CASE("a client that waits for its turn keeps its session alive, if it is its own") {
  Fixture f(ForMany());
  ConnectResponse session;
  f.sockets.HangUp(f.ConnectSession(&session));
  f.Pass(1000);
  f.service.touches.clear();
  for (size_t i = 0; i < kMax; ++i) f.sockets.Write(f.Connect(), ConnectPacket({}));
  f.sockets.RunIterations();
  const bool is_own = GENERATE(true, false);
  ConnectPacketOptions options;
  options.session = session.session_id;
  options.password = is_own ? session.password : std::string(tree::kPasswordBytes, 'x');
  const uint32_t waiting = f.Connect();
  f.sockets.Write(waiting, ConnectPacket(options));
  f.sockets.RunIterations();
  for (int period = 0; period < 3; ++period) {
    f.service.touches.clear();
    f.clock.Advance(1000);
    f.loop.OnTimer();
    CHECK(f.service.touches.empty() == !is_own);
    if (is_own) CHECK(f.service.touches.back() == std::vector<int64_t>{session.session_id});
  }
}

TEST_CASE("clients that give up while they wait cost no entry in the log") {
  Herd f(3 * kMax);
  // Of those whose handshakes are under way, too: their places are free when the results come.
  for (const uint32_t tag : f.tags) {
    if (tag != f.tags.back()) f.sockets.HangUp(tag);
  }
  f.service.Apply(&f.frontends);
  f.sockets.RunIterations();
  CHECK(f.Submitted() == 1);
  f.Settle();
  CHECK(f.Up() == 1);
}

TEST_CASE("handshakes go on after the tree was replaced, which ends those under way") {
  Herd f(2 * kMax);
  f.service.ReplaceTree(&f.frontends);
  f.frontends.OnBatchApplied();
  f.sockets.RunIterations();
  f.Settle();
  for (const uint32_t tag : f.tags) CHECK_FALSE(f.sockets.open(tag));
  const uint32_t tag = f.Connect();
  f.sockets.Write(tag, ConnectPacket({}));
  f.Settle();
  CHECK_FALSE(f.sockets.received(tag).empty());
}

TEST_CASE("a read-only client does not wait for handshakes that need a quorum") {
  Herd f(kMax + 1);
  f.service.current.in_touch = false;  // none of these is committed any more
  f.service.current.read_only = true;
  const uint32_t tag = f.Connect();
  ConnectPacketOptions options;
  options.read_only = true;
  f.sockets.Write(tag, ConnectPacket(options));
  f.sockets.RunIterations();
  ConnectResponse response;
  REQUIRE_FALSE(f.sockets.received(tag).empty());
  REQUIRE(DecodeConnectResponse(f.Frame(tag), true, &response));
  CHECK(response.read_only);
}

TEST_CASE("a client that waits for its turn cannot fill the server's memory") {
  Herd f(kMax);
  const uint32_t tag = f.Connect();
  f.sockets.Write(tag, ConnectPacket({}));
  f.sockets.RunIterations();
  CHECK(f.sockets.receiving(tag));  // so that the server sees if it hangs up
  f.sockets.Write(tag, std::string(1 << 20, '\0'));
  f.sockets.RunIterations();
  CHECK_FALSE(f.sockets.receiving(tag));
}

}  // namespace
}  // namespace quorate::rpc::zk
