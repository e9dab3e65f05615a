// SPDX-License-Identifier: Apache-2.0

// Collects what callbacks and listeners receive, in order, so that a test can wait for it.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace quorate::testing {

template <class T>
class Collected {
 public:
  // The default time limit, which is longer than any expected item takes to arrive.
  static constexpr std::chrono::seconds kPatience{20};

  void Add(T item) {
    std::lock_guard<std::mutex> lock(mutex_);
    items_.push_back(std::move(item));
    changed_.notify_all();
  }
  // Waits until there are `count` items, but at most for `patience`. Returns all items that were
  // added.
  std::vector<T> WaitFor(size_t count, std::chrono::milliseconds patience = kPatience) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return items_.size() >= count; });
    return items_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<T> items_;
};

}  // namespace quorate::testing
