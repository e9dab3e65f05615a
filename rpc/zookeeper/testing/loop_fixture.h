// SPDX-License-Identifier: Apache-2.0

// One loop of the front end with its clients, driven by hand, in front of a tree that applies
// commands when the test says so.
//
// Thread-safety: none.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>

#include "base/testing/manual_clock.h"
#include "rpc/frontend/frontends.h"
#include "rpc/frontend/testing/fake_service.h"
#include "rpc/zookeeper/connection_loop.h"
#include "rpc/zookeeper/frontend.h"
#include "rpc/zookeeper/testing/manual_sockets.h"
#include "rpc/zookeeper/testing/test_packets.h"

namespace quorate::rpc::zk {

class Fixture {
 public:
  explicit Fixture(Config c = TestConfig()) : config(std::move(c)) {
    service.current.caught_up = service.current.in_touch = true;
    sockets.SetLoop(&loop);
  }

  // Runs iterations, and applies their batches, until nothing is left.
  void Settle() {
    sockets.RunIterations();
    while (!service.batches.empty()) {
      service.Apply(&frontends);
      sockets.RunIterations();
    }
  }
  uint32_t Connect() {
    const auto tag = sockets.Connect();
    REQUIRE(tag.has_value());
    return *tag;
  }
  // Connects and opens a session. Returns the tag of the connection; `*response` has the session.
  uint32_t ConnectSession(ConnectResponse* response, ConnectPacketOptions options = {}) {
    const uint32_t tag = Connect();
    sockets.Write(tag, ConnectPacket(options));
    Settle();
    REQUIRE(DecodeConnectResponse(Frame(tag), true, response));
    REQUIRE(response->session_id != 0);
    return tag;
  }
  uint32_t ConnectSession() {
    ConnectResponse ignored;
    return ConnectSession(&ignored);
  }
  void Write(uint32_t tag, int32_t xid, OpCode op, const std::string& body) {
    sockets.Write(tag, RequestPacket(xid, op, body));
  }
  std::string Frame(uint32_t tag) {
    std::string frame;
    REQUIRE(TakeFrame(&sockets.received(tag), &frame));
    return frame;
  }
  Packet Next(uint32_t tag) { return DecodePacket(Frame(tag)); }
  Packet Call(uint32_t tag, OpCode op, const std::string& body) {
    Write(tag, 77, op, body);
    Settle();
    const Packet packet = Next(tag);
    CHECK(packet.xid == 77);
    return packet;
  }
  // Ends the `number`th barrier that the loop has begun, with everything applied.
  void EndBarrier(size_t number) {
    REQUIRE(service.syncs.size() >= number);
    const auto [loop_tag, barrier] = service.syncs[number - 1];
    frontend.OnSyncDone(loop_tag, barrier, service.ReadTree()->last_zxid());
    Settle();
  }
  void Pass(int64_t ms) {
    clock.Advance(ms);
    loop.OnTimer();
    Settle();
  }

  const Config config;
  ManualClock clock{kStartMs};
  CountingBytes random;
  FakeService service;
  EventHistory history{static_cast<size_t>(config.event_history_bytes)};
  ZkFrontend frontend{config, &service, &clock, &random, &history};
  Frontends frontends{{{&frontend, kZooKeeperTags}}, &history};
  ManualSockets sockets;
  ConnectionLoop loop{&frontend, &sockets};
};

}  // namespace quorate::rpc::zk
