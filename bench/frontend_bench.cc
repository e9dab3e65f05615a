// SPDX-License-Identifier: Apache-2.0

// Measures the work of a member on its clients' bytes, without threads, sockets and log: reads from
// request bytes to answer bytes, and writes from log entries to answers.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/clock.h"
#include "base/random.h"
#include "bench/grown_tree.h"
#include "rpc/config/config.h"
#include "rpc/member/checkpoints/replicated_tree.h"
#include "rpc/zookeeper/connection_loop.h"
#include "rpc/zookeeper/frontend.h"
#include "rpc/zookeeper/testing/test_packets.h"

namespace quorate::bench {
namespace {

using rpc::zk::OpCode;

constexpr uint64_t kStride = 7'368'787;  // a step that visits znodes all over the tree, each once
constexpr size_t kConnections = 30;
constexpr tree::Proposer kProposer{3, 5};
constexpr int64_t kTimeMs = 1'800'000'000'000;

// Counts the bytes that are sent, and drops them.
class CountingSockets final : public rpc::zk::Sockets {
 public:
  void Wake() override {}
  void EndIterationSoon() override {}
  void Receive(uint32_t) override {}
  size_t WaitingBytes(uint32_t) override { return 0; }
  bool HasHungUp(uint32_t) override { return false; }
  std::optional<size_t> Send(uint32_t, std::string_view bytes) override {
    sent += bytes.size();
    return bytes.size();
  }
  void Close(uint32_t) override { ASSERT(false, "no connection fails here"); }

  size_t sent = 0;
};

// A service that turns submitted commands into log entries at once.
class EntryService final : public rpc::Service {
 public:
  explicit EntryService(rpc::ReplicatedTree* replicated) : replicated_(*replicated) {}

  rpc::GuardedTree::ReadGuard ReadTree() const override { return replicated_.ReadTree(); }
  tree::Proposer proposer() const override { return kProposer; }
  uint32_t cluster_version() const override { return consensus::kVersionNewest; }
  void Submit(rpc::CommandBatch batch) override {
    for (const rpc::CommandBatch::Range& range : batch.commands) {
      tree::StampSequence(batch.bytes->data() + range.offset, ++sequence_);
      tree::StampTime(batch.bytes->data() + range.offset, kTimeMs);
      consensus::Entry entry;
      entry.index = consensus::Index(
          static_cast<uint64_t>(replicated_.ReadTree()->last_zxid().value()) + entries_.size() + 1);
      entry.payload = Slice(batch.bytes, range.offset, range.size);
      entries_.push_back(std::move(entry));
    }
  }
  bool congested() const override { return false; }
  bool refuses_data() const override { return false; }
  void Sync(uint32_t, uint64_t) override {}
  void Touch(std::vector<int64_t>) override {}
  rpc::ServerStatus status() const override {
    rpc::ServerStatus status;
    status.leader_known = status.caught_up = status.in_touch = true;
    return status;
  }
  rpc::ServerMetrics metrics() const override { return {}; }

  std::vector<consensus::Entry> TakeEntries() { return std::exchange(entries_, {}); }

 private:
  rpc::ReplicatedTree& replicated_;
  std::vector<consensus::Entry> entries_;
  uint64_t sequence_ = 0;
};

// A member with its clients, and a tree of directories of 20 znodes.
class Member {
 public:
  explicit Member(uint64_t nodes) : nodes_(nodes) {
    config_.my_id = kProposer.member;
    grown_.GrowTo(nodes);
    replicated_.SetFrontend(&frontend_);
    replicated_.Replace(grown_.Release(), consensus::Term(1));
    loop_.OnWake();  // before there are connections, which would end because the tree was replaced
    for (size_t i = 0; i < kConnections; ++i) {
      const std::optional<uint32_t> tag = loop_.Open("10.0.0.1", 7000);
      ASSERT(tag.has_value());
      tags_.push_back(*tag);
      loop_.OnBytes(*tag, rpc::zk::ConnectPacket({}));
    }
    Finish(Begin());
  }

  const std::vector<uint32_t>& tags() const { return tags_; }
  // Returns the path of another znode with each call, all over the tree.
  std::string NextPath() {
    next_ = (next_ + kStride) % nodes_;
    return grown_.PathOf(next_);
  }
  // Receives bytes from a client.
  void Receive(uint32_t tag, std::string_view bytes) { loop_.OnBytes(tag, bytes); }
  // Ends the loop iteration in which requests were received: answers the reads, and returns the
  // writes as log entries.
  std::vector<consensus::Entry> Begin() {
    loop_.EndIteration();
    return service_.TakeEntries();
  }
  // Applies the entries and answers the writes.
  void Finish(const std::vector<consensus::Entry>& entries) {
    replicated_.Apply(entries);
    loop_.OnWake();
    loop_.EndIteration();
    replicated_.TakeNews();
  }
  size_t sent() const { return sockets_.sent; }

 private:
  const uint64_t nodes_;
  uint64_t next_ = 0;
  GrownTree grown_{Shape::kDirectories};
  rpc::Config config_;
  rpc::ReplicatedTree replicated_{kProposer};
  EntryService service_{&replicated_};
  rpc::zk::ZkFrontend frontend_{config_, &service_, Clock::System(), RandomBytes::System()};
  CountingSockets sockets_;
  rpc::zk::ConnectionLoop loop_{&frontend_, &sockets_};
  std::vector<uint32_t> tags_;
};

Member& MemberOf(uint64_t nodes) {
  static std::unique_ptr<Member> member;
  static uint64_t size = 0;
  if (std::exchange(size, nodes) != nodes) {
    member.reset();
    member = std::make_unique<Member>(nodes);
  }
  return *member;
}

// Returns the packets of `depth` requests of one kind, for each connection.
template <typename BodyOf>
std::vector<std::string> Packets(OpCode op, size_t depth, const BodyOf& body_of) {
  std::vector<std::string> packets(kConnections);
  for (std::string& packet : packets) {
    for (size_t i = 0; i < depth; ++i) packet += rpc::zk::RequestPacket(1, op, body_of());
  }
  return packets;
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"nodes", "depth"})->ArgsProduct({{1'000, 1'000'000}, {1, 32}});
}

// Measures getData, from the bytes of the requests to those of the answers.
void BM_ReadThroughFrontend(benchmark::State& state) {
  constexpr size_t kRounds = 64;  // so that the same znodes are not read again at once
  Member& member = MemberOf(static_cast<uint64_t>(state.range(0)));
  const auto depth = static_cast<size_t>(state.range(1));
  std::vector<std::vector<std::string>> rounds;
  for (size_t i = 0; i < kRounds; ++i) {
    rounds.push_back(Packets(OpCode::kGetData, depth, [&member] {
      return rpc::zk::PathAndWatch(member.NextPath(), false);
    }));
  }
  const size_t sent_before = member.sent();
  size_t round = 0;
  for (auto unused : state) {
    const std::vector<std::string>& packets = rounds[round++ % kRounds];
    for (size_t i = 0; i < kConnections; ++i) member.Receive(member.tags()[i], packets[i]);
    const std::vector<consensus::Entry> entries = member.Begin();
    ASSERT(entries.empty());
  }
  const auto requests = state.iterations() * static_cast<int64_t>(kConnections * depth);
  // An answer has 100 bytes of data and a stat.
  ASSERT(member.sent() - sent_before > static_cast<size_t>(requests) * 180);
  state.SetItemsProcessed(requests);
}
BENCHMARK(BM_ReadThroughFrontend)->Apply(Sizes)->Unit(benchmark::kMicrosecond);

void Write(benchmark::State& state, bool measures_apply) {
  Member& member = MemberOf(static_cast<uint64_t>(state.range(0)));
  const auto depth = static_cast<size_t>(state.range(1));
  const std::string data(100, 'x');
  for (auto unused : state) {
    state.PauseTiming();
    const std::vector<std::string> packets = Packets(OpCode::kSetData, depth, [&member, &data] {
      return rpc::zk::SetData(member.NextPath(), data);
    });
    const auto begin = [&member, &packets] {
      for (size_t i = 0; i < kConnections; ++i) member.Receive(member.tags()[i], packets[i]);
      return member.Begin();
    };
    if (!measures_apply) state.ResumeTiming();
    const std::vector<consensus::Entry> entries = begin();
    ASSERT(entries.size() == kConnections * depth);
    if (measures_apply) {
      state.ResumeTiming();
      member.Finish(entries);
    } else {
      state.PauseTiming();
      member.Finish(entries);
      state.ResumeTiming();
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kConnections * depth));
}

// Measures setData, from the bytes of the requests to entries for the log.
void BM_WriteIntoFrontend(benchmark::State& state) { Write(state, false); }
BENCHMARK(BM_WriteIntoFrontend)->Apply(Sizes)->Unit(benchmark::kMicrosecond);

// Measures setData on the clients' server, from committed entries to the bytes of the answers.
void BM_ApplyAndAnswer(benchmark::State& state) { Write(state, true); }
BENCHMARK(BM_ApplyAndAnswer)->Apply(Sizes)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quorate::bench
