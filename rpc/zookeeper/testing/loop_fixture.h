// One loop of the front end with its clients, driven by hand, in front of a tree that applies
// commands when the test says so.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/manual_clock.h"
#include "base/random.h"
#include "rpc/zookeeper/connection_loop.h"
#include "rpc/zookeeper/frontend.h"
#include "rpc/zookeeper/testing/manual_sockets.h"
#include "rpc/zookeeper/testing/test_packets.h"

namespace quorate::rpc::zk {

inline constexpr int64_t kStartMs = 1'700'000'000'000;

class CountingBytes : public RandomBytes {
 public:
  void Fill(char* bytes, size_t size) override {
    ++count_;
    std::fill_n(bytes, size, static_cast<char>('a' + count_));
  }

 private:
  int count_ = 0;
};

// Keeps submitted batches until Apply.
class FakeService : public Service {
 public:
  GuardedTree::ReadGuard ReadTree() const override {
    ++tree_reads;
    return tree_.Read();
  }
  tree::Proposer proposer() const override { return {3, incarnation}; }
  uint32_t cluster_version() const override { return version; }
  void Submit(CommandBatch batch) override { batches.push_back(std::move(batch)); }
  bool congested() const override { return is_congested; }
  bool refuses_data() const override { return is_refusing_data; }
  void Sync(uint32_t proposer_tag, uint64_t sync_id) override {
    syncs.emplace_back(proposer_tag, sync_id);
  }
  void Touch(std::vector<int64_t> sessions) override { touches.push_back(std::move(sessions)); }
  ServerStatus status() const override { return current; }
  ServerMetrics metrics() const override { return shown; }

  void Apply(Frontend* frontend) {
    {
      const GuardedTree::WriteGuard tree = tree_.Write();
      ApplyAll(&*tree, frontend);
    }
    frontend->OnBatchApplied();
  }

  // Does what the installation of a snapshot does: applies everything submitted without telling
  // `frontend` the results and events, and then tells it that the tree was replaced.
  void ReplaceTree(Frontend* frontend) {
    Unheard unheard;
    const GuardedTree::WriteGuard tree = tree_.Write();
    ApplyAll(&*tree, &unheard);
    frontend->OnTreeReplaced(*tree);
  }

  std::vector<CommandBatch> batches;
  std::vector<std::pair<uint32_t, uint64_t>> syncs;
  std::vector<std::vector<int64_t>> touches;
  ServerStatus current;
  ServerMetrics shown;
  bool is_congested = false;
  uint32_t version = consensus::kVersionNewest;
  bool is_refusing_data = false;
  uint64_t incarnation = 5;
  mutable size_t tree_reads = 0;  // times that the tree was locked for reading

 private:
  class Unheard final : public tree::ApplyListener {
    void OnNodeEvent(tree::EventType, std::string_view, tree::Zxid,
                     const tree::EventAcls&) override {}
    void OnSessionAttached(const tree::SessionInfo&) override {}
    void OnSessionClosed(tree::SessionId, tree::Zxid) override {}
    void OnResult(tree::ApplyResult) override {}
  };

  void ApplyAll(tree::Tree* tree, tree::ApplyListener* listener) {
    for (CommandBatch& batch : std::exchange(batches, {})) {
      for (const CommandBatch::Range& range : batch.commands) {
        tree::StampSequence(batch.bytes->data() + range.offset, ++sequence_);
        tree::StampTime(batch.bytes->data() + range.offset, kStartMs);
        tree->Apply(tree::Zxid(static_cast<int64_t>(sequence_)), batch.view(range), proposer(),
                    listener);
      }
    }
  }

  GuardedTree tree_;
  uint64_t sequence_ = 0;
};

inline Config TestConfig() {
  Config config;
  config.my_id = 3;
  config.tick_time_ms = 2000;
  config.min_session_timeout_ms = 1200;
  config.max_session_timeout_ms = 6000;
  return config;
}

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
      service.Apply(&frontend);
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
  void Pass(int64_t ms) {
    clock.Advance(ms);
    loop.OnTimer();
    Settle();
  }

  const Config config;
  ManualClock clock{kStartMs};
  CountingBytes random;
  FakeService service;
  ZkFrontend frontend{config, &service, &clock, &random};
  ManualSockets sockets;
  ConnectionLoop loop{&frontend, &sockets};
};

}  // namespace quorate::rpc::zk
