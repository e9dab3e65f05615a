// SPDX-License-Identifier: Apache-2.0

// Measures the Raft core alone: up to five members in memory, whose disks and network take no time.

#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "consensus/core/raft.h"

namespace quorate::bench {
namespace {

using consensus::Message;
using consensus::Raft;

class NoRandom : public consensus::RandomSource {
 public:
  uint64_t Next() override { return 0; }
};

class Cluster {
 public:
  explicit Cluster(uint32_t members) {
    consensus::RaftOptions options;
    options.cluster_id_if_new = "0123456789abcdef";
    for (uint32_t id = 1; id <= members; ++id) {
      options.membership.voters.push_back(consensus::MemberId(id));
    }
    for (uint32_t id = 1; id <= members; ++id) {
      options.self = consensus::MemberId(id);
      rafts_.push_back(std::make_unique<Raft>(options, consensus::InitialState{}, &random_));
    }
    // Only the first member gets ticks, so that it wins the election.
    while (rafts_.front()->role() != consensus::Role::kLeader) {
      rafts_.front()->Tick();
      Run();
    }
  }

  Raft& leader() { return *rafts_.front(); }

  // Runs until no member has anything to do.
  void Run() {
    for (bool busy = true; busy;) {
      busy = false;
      for (const std::unique_ptr<Raft>& raft : rafts_) {
        while (raft->HasOutput()) {
          busy = true;
          Handle(raft.get(), raft->TakeOutput());
        }
      }
    }
  }

 private:
  void Handle(Raft* raft, consensus::Output output) {
    Deliver(std::move(output.messages_now));
    Deliver(std::move(output.messages_after_persist));
    if (output.persist_id.has_value()) raft->Persisted(*output.persist_id);
    if (output.apply.has_value()) raft->Applied(output.apply->last);
  }
  void Deliver(std::vector<Message> messages) {
    for (Message& message : messages) {
      Raft& to = *rafts_[message.to.value() - 1];
      to.Step(std::move(message));
    }
  }

  NoRandom random_;
  std::vector<std::unique_ptr<Raft>> rafts_;
};

// Arguments: members; proposals per batch.
void BM_ProposeToApplied(benchmark::State& state) {
  Cluster cluster(static_cast<uint32_t>(state.range(0)));
  const auto together = static_cast<size_t>(state.range(1));
  const Slice payload(std::string(200, 'p'));
  for (auto unused : state) {
    ASSERT(cluster.leader().Propose(std::vector<Slice>(together, payload)).ok());
    cluster.Run();
  }
  state.SetItemsProcessed(state.iterations() * state.range(1));
}
BENCHMARK(BM_ProposeToApplied)
    ->ArgNames({"members", "together"})
    ->Args({1, 1})
    ->Args({1, 100})
    ->Args({3, 1})
    ->Args({3, 100})
    ->Args({5, 100});

void BM_HeartbeatRound(benchmark::State& state) {
  Cluster cluster(3);
  for (auto unused : state) {
    cluster.leader().Tick();
    cluster.Run();
  }
}
BENCHMARK(BM_HeartbeatRound);

}  // namespace
}  // namespace quorate::bench
