// What other threads leave for the one thread that serves a group of clients: a queue, and whether
// that thread has to be woken for it, so that there is one wake-up for all that queues meanwhile.
//
// Thread-safety: Push and WantsWake from any thread; the rest from the thread that takes.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace quorate::rpc {

template <class Item>
class Inbox {
 public:
  // Queues, and wakes nobody.
  void Push(Item item) {
    MutexLock lock(&mutex_);
    items_.push_back(std::move(item));
    filled_.store(true, std::memory_order_release);
  }
  // Whether the taking thread is to be woken now: something is queued, and it was not told. True
  // once until OnWake.
  bool WantsWake() {
    return filled_.load(std::memory_order_acquire) && !wake_pending_.exchange(true);
  }

  // The thread was woken; before it takes.
  void OnWake() { wake_pending_.store(false); }
  // Swaps what is queued for `*items`, which is empty. False if there is nothing; cheap then.
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
