// SPDX-License-Identifier: Apache-2.0

// A Service for the tests of front ends, with a tree that applies commands when the test calls
// Apply; and a configuration for such tests.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <semaphore>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "rpc/config/config.h"
#include "rpc/frontend/service.h"

namespace quorate::rpc {

inline constexpr int64_t kStartMs = 1'700'000'000'000;

// Fills with one byte that is another each time; after 255 times, with two different bytes in turns.
class CountingBytes : public RandomBytes {
 public:
  void Fill(char* bytes, size_t size) override {
    ++count_;
    if (count_ > 255 && count_ % 256 == count_ / 256) ++count_;
    std::fill_n(bytes, size, static_cast<char>('a' + count_));
    for (size_t i = 1; i < size && count_ > 255; i += 2) {
      bytes[i] = static_cast<char>('a' + count_ / 256);
    }
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
  // Calls `hold(wait)` on another thread, with the tree's lock held. `wait()` waits until a reader waits
  // for the lock.
  template <class Hold>
  std::thread HoldTree(Hold hold) {
    std::binary_semaphore held(0);
    std::thread holder([this, hold, &held] {
      const uint64_t before = tree_.read_waits();
      const GuardedTree::WriteGuard tree = tree_.Write();
      held.release();
      hold([this, before] {
        while (tree_.read_waits() == before) std::this_thread::yield();
      });
    });
    held.acquire();
    return holder;
  }
  // Returns whether either side of the tree's lock is held. REQUIRES: called on a thread that does not
  // hold it.
  bool is_tree_locked() { return !tree_.TryWrite().has_value(); }
  tree::Proposer proposer() const override { return {member, incarnation}; }
  uint32_t cluster_version() const override { return version; }
  void Submit(CommandBatch batch) override { batches.push_back(std::move(batch)); }
  bool congested() const override { return is_congested; }
  bool refuses_data() const override { return is_refusing_data; }
  void Sync(uint32_t proposer_tag, uint64_t sync_id) override {
    syncs.emplace_back(proposer_tag, sync_id);
  }
  void Touch(std::vector<int64_t> sessions) override { touches.push_back(std::move(sessions)); }
  void Reconfigure(Reconfiguration request,
                   std::function<void(ReconfigurationOutcome)> done) override {
    if (!holds_reconfigurations) return Service::Reconfigure(std::move(request), std::move(done));
    reconfigurations.emplace_back(std::move(request), std::move(done));
  }
  ServerStatus status() const override { return current; }
  ServerMetrics metrics() const override { return shown; }

  void Apply(Frontend* frontend) {
    {
      const GuardedTree::WriteGuard tree = tree_.Write();
      ApplyAll(&*tree, frontend);
    }
    frontend->OnBatchApplied();
  }

  // Acts as the installation of a snapshot does: applies everything submitted without reporting the
  // results and events to `frontend`, and then notifies it that the tree was replaced.
  void ReplaceTree(Frontend* frontend) {
    Unheard unheard;
    const GuardedTree::WriteGuard tree = tree_.Write();
    ApplyAll(&*tree, &unheard);
    frontend->OnTreeReplaced(*tree);
  }

  std::vector<CommandBatch> batches;
  std::vector<std::pair<uint32_t, uint64_t>> syncs;
  std::vector<std::vector<int64_t>> touches;
  std::vector<std::pair<Reconfiguration, std::function<void(ReconfigurationOutcome)>>>
      reconfigurations;
  bool holds_reconfigurations = false;  // for the test to end them; else they are refused
  ServerStatus current;
  ServerMetrics shown;
  bool is_congested = false;
  uint32_t version = consensus::kVersionNewest;
  bool is_refusing_data = false;
  uint16_t member = 3;
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

}  // namespace quorate::rpc
