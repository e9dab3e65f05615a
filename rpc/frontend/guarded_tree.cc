// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/guarded_tree.h"

#include <algorithm>

namespace quorate::rpc {

// Each function reads tree_ only after it has taken the lock, because the tree may be replaced
// before.

GuardedTree::ReadGuard GuardedTree::Read() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const bool waits = !mutex_.ReaderTryLock();
  if (waits) {
    read_waits_.fetch_add(1, std::memory_order_release);
    mutex_.ReaderLock();
  }
  return {&mutex_, tree_.get(), waits};
}

GuardedTree::WriteGuard GuardedTree::Write() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (!mutex_.TryLock()) {
    const auto began = std::chrono::steady_clock::now();
    mutex_.Lock();
    RecordWait(std::chrono::steady_clock::now() - began);
  }
  return {&mutex_, &tree_};
}

GuardedTree::DeltaGuard GuardedTree::ReadDelta() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  mutex_.ReaderLock();
  return {&mutex_, tree_.get()};
}

std::optional<GuardedTree::WriteGuard> GuardedTree::TryWrite() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (!mutex_.TryLock()) return std::nullopt;
  return WriteGuard(&mutex_, &tree_);
}

// Called with the lock held, so that only one thread updates the counts at a time.
void GuardedTree::RecordWait(std::chrono::steady_clock::duration waited) {
  const auto us =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(waited).count());
  constexpr auto kRelaxed = std::memory_order_relaxed;
  waits_.fetch_add(1, kRelaxed);
  if (us > 1000) waits_over_1ms_.fetch_add(1, kRelaxed);
  if (us > 5000) waits_over_5ms_.fetch_add(1, kRelaxed);
  longest_wait_us_.store(std::max(longest_wait_us_.load(kRelaxed), us), kRelaxed);
}

TreeLockWaits GuardedTree::waits() const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {waits_.load(kRelaxed), waits_over_1ms_.load(kRelaxed), waits_over_5ms_.load(kRelaxed),
          longest_wait_us_.load(kRelaxed)};
}

}  // namespace quorate::rpc
