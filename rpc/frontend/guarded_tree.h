// SPDX-License-Identifier: Apache-2.0

// The tree of a member together with the lock that guards it. The tree can only be reached through
// a guard, which holds the lock as long as it exists. A reference taken before the lock is held
// could refer to a tree that a snapshot has replaced and freed meanwhile.
//
// Thread-safety: GuardedTree may be used from any thread. A guard belongs to the thread that made
// it. A thread that holds one guard must not ask for another.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "tree/tree.h"

namespace quorate::rpc {

// How long writers of the tree waited for its readers, since the start.
struct TreeLockWaits {
  uint64_t count = 0;  // how often the lock was not free
  uint64_t over_1ms = 0;
  uint64_t over_5ms = 0;
  uint64_t longest_us = 0;
};

class GuardedTree {
 public:
  // Holds the read side of the lock. Only a named guard can be dereferenced with *, because a
  // reference into a temporary guard would outlive the lock.
  class ReadGuard {
   public:
    ReadGuard(ReadGuard&& other) noexcept
        : mutex_(std::exchange(other.mutex_, nullptr)),
          tree_(other.tree_),
          has_waited_(other.has_waited_) {}
    ReadGuard& operator=(ReadGuard&&) = delete;
    ~ReadGuard() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      if (mutex_ != nullptr) mutex_->ReaderUnlock();
    }
    const tree::Tree& operator*() const& { return *tree_; }
    const tree::Tree& operator*() const&& = delete;
    const tree::Tree* operator->() const { return tree_; }
    // Returns whether the lock was not free, so that time has passed until it was taken.
    bool has_waited() const { return has_waited_; }

   private:
    friend class GuardedTree;
    ReadGuard(SharedMutex* mutex, const tree::Tree* tree, bool has_waited)
        : mutex_(mutex), tree_(tree), has_waited_(has_waited) {}

    SharedMutex* mutex_;  // null: moved from
    const tree::Tree* tree_;
    bool has_waited_;
  };

  // Holds the write side of the lock.
  class WriteGuard {
   public:
    WriteGuard(WriteGuard&& other) noexcept
        : mutex_(std::exchange(other.mutex_, nullptr)), tree_(other.tree_) {}
    WriteGuard& operator=(WriteGuard&&) = delete;
    ~WriteGuard() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      if (mutex_ != nullptr) mutex_->Unlock();
    }
    tree::Tree& operator*() const& { return **tree_; }
    tree::Tree& operator*() const&& = delete;
    tree::Tree* operator->() const { return tree_->get(); }
    // Replaces the tree by `*tree`. `*tree` becomes the old tree, which the caller frees after the
    // guard is gone, because that takes long. REQUIRES: *tree is not null.
    void Swap(std::unique_ptr<tree::Tree>* tree) { tree_->swap(*tree); }

   private:
    friend class GuardedTree;
    WriteGuard(SharedMutex* mutex, std::unique_ptr<tree::Tree>* tree)
        : mutex_(mutex), tree_(tree) {}

    SharedMutex* mutex_;  // null: moved from
    std::unique_ptr<tree::Tree>* tree_;
  };

  // Holds the read side of the lock, for the thread that writes a checkpoint delta. It may change
  // only the delta of the tree.
  class DeltaGuard {
   public:
    DeltaGuard(DeltaGuard&& other) noexcept
        : mutex_(std::exchange(other.mutex_, nullptr)), tree_(other.tree_) {}
    DeltaGuard& operator=(DeltaGuard&&) = delete;
    ~DeltaGuard() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      if (mutex_ != nullptr) mutex_->ReaderUnlock();
    }
    // As the functions of tree::Tree with these names.
    bool NextDeltaRecords(size_t bytes_max, const tree::Tree::RecordFunction& record) {
      return tree_->NextDeltaRecords(bytes_max, record);
    }
    bool EndDelta(bool durable, size_t bytes_max) { return tree_->EndDelta(durable, bytes_max); }

   private:
    friend class GuardedTree;
    DeltaGuard(SharedMutex* mutex, tree::Tree* tree) : mutex_(mutex), tree_(tree) {}

    SharedMutex* mutex_;  // null: moved from
    tree::Tree* tree_;
  };

  // Each function waits for the lock, and returns a guard that holds it.
  ReadGuard Read() const;
  WriteGuard Write();
  DeltaGuard ReadDelta();
  // Returns nullopt if another thread holds either side of the lock.
  std::optional<WriteGuard> TryWrite();

  // Returns the waits of Write().
  TreeLockWaits waits() const;
  // Returns how often Read() found that the lock was not free, the calls that wait now included.
  uint64_t read_waits() const { return read_waits_.load(std::memory_order_acquire); }

 private:
  void RecordWait(std::chrono::steady_clock::duration waited);

  mutable SharedMutex mutex_;
  std::unique_ptr<tree::Tree> tree_ ABSL_GUARDED_BY(mutex_) = std::make_unique<tree::Tree>();
  std::atomic<uint64_t> waits_{0};
  mutable std::atomic<uint64_t> read_waits_{0};
  std::atomic<uint64_t> waits_over_1ms_{0};
  std::atomic<uint64_t> waits_over_5ms_{0};
  std::atomic<uint64_t> longest_wait_us_{0};
};

}  // namespace quorate::rpc
