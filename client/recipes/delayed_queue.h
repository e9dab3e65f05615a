// SPDX-License-Identifier: Apache-2.0

// A queue whose items have a due time, from which on they can be taken, in the order of that time.
//
// item_queue.h describes how items are taken, what happens in a crash, and the layout. Names are
// `queue-|%08X|` with the due time, and the number. Interoperates with Curator's
// DistributedDelayQueue.
//
// Times are milliseconds since the Unix epoch, by the clocks of the producers and consumers: the
// delay is as exact as these clocks agree. A waiting Take wakes up when the next item is due.
//
// Thread-safety: all functions may be called from any thread except the callback thread.
#pragma once

#include <functional>

#include "client/recipes/item_queue.h"

namespace quorate {

// A queue whose items can be taken from a time on that each of them has.
class DelayedQueue final : public ItemQueue {
 public:
  // `now_ms` returns the current time; null: the system's clock. REQUIRES: `client` outlives this
  // object.
  DelayedQueue(Client* client, std::string path, std::function<int64_t()> now_ms = nullptr);

  // Adds an item, exactly once, that can be taken from `due_ms` on. INVALID_ARGUMENT: due_ms <= 0.
  absl::Status Offer(std::string_view data, int64_t due_ms);

 private:
  std::optional<Rank> RankOf(std::string_view name) const override;
  int64_t WaitMs(int64_t due_ms) const override { return due_ms - now_ms_(); }

  const std::function<int64_t()> now_ms_;
};

}  // namespace quorate
