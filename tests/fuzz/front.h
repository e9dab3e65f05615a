// SPDX-License-Identifier: Apache-2.0

// The ZooKeeper front end without threads and sockets, in front of a tree that applies at once.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/testing/manual_clock.h"
#include "rpc/zookeeper/connection_loop.h"
#include "rpc/zookeeper/frontend.h"
#include "rpc/zookeeper/testing/manual_sockets.h"
#include "tree/command.h"
#include "tree/tree.h"

namespace quorate::fuzz {

// A service that applies submitted commands to a tree when Work is called.
class TreeService final : public rpc::Service {
 public:
  rpc::GuardedTree::ReadGuard ReadTree() const override { return tree_.Read(); }
  tree::Proposer proposer() const override { return {1, 1}; }
  void Submit(rpc::CommandBatch batch) override { batches_.push_back(std::move(batch)); }
  uint32_t cluster_version() const override { return consensus::kVersionNewest; }
  bool congested() const override { return false; }
  bool refuses_data() const override { return false; }
  void Sync(uint32_t proposer_tag, uint64_t sync_id) override {
    syncs_.emplace_back(proposer_tag, sync_id);
  }
  void Touch(std::vector<int64_t>) override {}
  rpc::ServerStatus status() const override { return status_; }
  rpc::ServerMetrics metrics() const override { return {}; }

  // Applies the submitted commands. Returns whether there were any.
  bool Work(rpc::Frontend* frontend);

 private:
  rpc::GuardedTree tree_;
  std::vector<rpc::CommandBatch> batches_;
  std::vector<std::pair<uint32_t, uint64_t>> syncs_;
  rpc::ServerStatus status_{
      .leader_known = true, .is_leader = true, .caught_up = true, .in_touch = true};
  int64_t zxid_ = 0;
};

rpc::Config FuzzConfig();

class Front {
 public:
  Front();

  // Runs the server until there is nothing left to do.
  void Settle();

  rpc::zk::ManualSockets& sockets() { return sockets_; }
  rpc::zk::ConnectionLoop& loop() { return loop_; }
  ManualClock& clock() { return clock_; }

 private:
  class SameBytes final : public RandomBytes {
   public:
    void Fill(char* bytes, size_t size) override { std::fill_n(bytes, size, 'r'); }
  };

  const rpc::Config config_;
  ManualClock clock_{1'700'000'000'000};
  SameBytes random_;
  TreeService service_;
  rpc::zk::ZkFrontend frontend_{config_, &service_, &clock_, &random_};
  rpc::zk::ManualSockets sockets_;
  rpc::zk::ConnectionLoop loop_{&frontend_, &sockets_};
};

}  // namespace quorate::fuzz
