// SPDX-License-Identifier: Apache-2.0

// A queue of items from other threads for its consumer, the thread that serves a group of clients.
// It also tracks whether the consumer has to be woken, so that there is one wake-up for all items
// that are queued meanwhile.
//
// Thread-safety: Push and WantsWake may be called from any thread; the other functions only from
// the consumer.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace quorate::rpc {

template <class Item>
class Inbox {
 public:
  // Queues `item` without waking the consumer.
  void Push(Item item) {
    MutexLock lock(&mutex_);
    items_.push_back(std::move(item));
    filled_.store(true, std::memory_order_release);
  }
  // Returns whether the caller has to wake the consumer: true if an item is queued and no call has
  // returned true since the last OnWake.
  bool WantsWake() {
    return filled_.load(std::memory_order_acquire) && !wake_pending_.exchange(true);
  }

  // Called when the consumer was woken, before it takes items.
  void OnWake() { wake_pending_.store(false); }
  // Moves the queued items to `*items`. Returns false, at little cost, if there are none. REQUIRES:
  // `*items` is empty.
  bool Take(std::vector<Item>* items) {
    if (!filled_.load(std::memory_order_acquire)) return false;
    MutexLock lock(&mutex_);
    items->swap(items_);
    filled_.store(false, std::memory_order_release);
    return true;
  }

 private:
  Mutex mutex_;
  std::vector<Item> items_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> filled_{false};
  std::atomic<bool> wake_pending_{false};
};

}  // namespace quorate::rpc
