// The tree of a member together with the lock that guards it. The tree can only be reached through
// a guard, which holds the lock for as long as it lives. A reference that was taken before the lock
// would be one to a tree that a snapshot may have replaced and freed meanwhile.
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

// How long those who write to the tree waited for those who read it, since the start.
struct TreeLockWaits {
  uint64_t count = 0;  // times that the lock was not free
  uint64_t over_1ms = 0;
  uint64_t over_5ms = 0;
  uint64_t longest_us = 0;
};

class GuardedTree {
 public:
  // Holds the read side of the lock. Dereference a named guard only: a reference into a temporary
  // one would outlive the lock.
  class ReadGuard {
   public:
    ReadGuard(ReadGuard&& other) noexcept
        : mutex_(std::exchange(other.mutex_, nullptr)), tree_(other.tree_) {}
    ReadGuard& operator=(ReadGuard&&) = delete;
    ~ReadGuard() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      if (mutex_ != nullptr) mutex_->ReaderUnlock();
    }
    const tree::Tree& operator*() const& { return *tree_; }
    const tree::Tree& operator*() const&& = delete;
    const tree::Tree* operator->() const { return tree_; }

   private:
    friend class GuardedTree;
    ReadGuard(SharedMutex* mutex, const tree::Tree* tree) : mutex_(mutex), tree_(tree) {}

    SharedMutex* mutex_;  // null: moved from
    const tree::Tree* tree_;
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
    // Puts `*tree` in the place of the tree. `*tree` becomes the one that was there, to be freed
    // after the guard, because that takes long. REQUIRES: *tree is not null.
    void Swap(std::unique_ptr<tree::Tree>* tree) { tree_->swap(*tree); }

   private:
    friend class GuardedTree;
    WriteGuard(SharedMutex* mutex, std::unique_ptr<tree::Tree>* tree)
        : mutex_(mutex), tree_(tree) {}

    SharedMutex* mutex_;  // null: moved from
    std::unique_ptr<tree::Tree>* tree_;
  };

  // Holds the read side of the lock, for the thread that reads a delta out: what it may change is
  // the delta alone.
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

  // Each waits for the lock.
  ReadGuard Read() const;
  WriteGuard Write();
  DeltaGuard ReadDelta();
  // Nullopt if another thread holds a side of the lock.
  std::optional<WriteGuard> TryWrite();

  // Of Write().
  TreeLockWaits waits() const;

 private:
  void RecordWait(std::chrono::steady_clock::duration waited);

  mutable SharedMutex mutex_;
  std::unique_ptr<tree::Tree> tree_ ABSL_GUARDED_BY(mutex_) = std::make_unique<tree::Tree>();
  std::atomic<uint64_t> waits_{0};
  std::atomic<uint64_t> waits_over_1ms_{0};
  std::atomic<uint64_t> waits_over_5ms_{0};
  std::atomic<uint64_t> longest_wait_us_{0};
};

}  // namespace quorate::rpc
