// SPDX-License-Identifier: Apache-2.0

// A queue whose items with the lowest priority number are taken first; items with the same priority
// are taken in the order in which they were added.
//
// item_queue.h describes how items are taken, what happens in a crash, and the layout. Names are
// `queue-1%08X` with the priority, or `queue-0%08X` with a negative one, and the number.
// Interoperates with Curator's DistributedPriorityQueue.
//
// Each take lists the queue, because a more urgent item may have been added: the cost of a take
// grows with the length of the queue.
//
// Thread-safety: all functions may be called from any thread except the callback thread.
#pragma once

#include "client/recipes/item_queue.h"

namespace quorate {

// A queue whose items are taken in the order of a number.
class PriorityQueue final : public ItemQueue {
 public:
  // REQUIRES: `client` outlives this object.
  PriorityQueue(Client* client, std::string path)
      : ItemQueue(client, std::move(path), Format::kFramed) {}

  // Adds an item, exactly once. Lower priority numbers are taken first.
  absl::Status Offer(std::string_view data, int32_t priority);

 private:
  std::optional<Rank> RankOf(std::string_view name) const override;
};

}  // namespace quorate
