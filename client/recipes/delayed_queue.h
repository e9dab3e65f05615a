// A queue of which each item can be taken from a time on: the one that is due first is first.
//
// item_queue.h says how items are taken, what happens in a crash, and the layout. Names are
// `queue-|%08X|` with the time, and the number. Interoperates with Curator's DistributedDelayQueue.
//
// Times are milliseconds since the epoch, by the clocks of those who add and take: it is as exact
// as these agree. Who waits wakes up by itself when the next item is due.
//
// Thread-safety: all functions from any thread but that of callbacks.
#pragma once

#include <functional>

#include "client/recipes/item_queue.h"

namespace quorate {

class DelayedQueue final : public ItemQueue {
 public:
  // `now_ms` is the clock; none: the system's. REQUIRES: `client` lives longer.
  DelayedQueue(Client* client, std::string path, std::function<int64_t()> now_ms = nullptr);

  // Adds an item, once, that can be taken from `due_ms` on. INVALID_ARGUMENT: due_ms <= 0.
  absl::Status Offer(std::string_view data, int64_t due_ms);

 private:
  std::optional<Rank> RankOf(std::string_view name) const override;
  int64_t WaitMs(int64_t due_ms) const override { return due_ms - now_ms_(); }

  const std::function<int64_t()> now_ms_;
};

}  // namespace quorate
