// A queue of which the items with the lowest priority number are taken first, and those with the
// same in the order in which they were added.
//
// item_queue.h says how items are taken, what happens in a crash, and the layout. Names are
// `queue-1%08X` with the priority, or `queue-0%08X` with a negative one, and the number.
// Interoperates with Curator's DistributedPriorityQueue.
//
// Each take lists the queue, for something more urgent may have come: its cost grows with the
// length.
//
// Thread-safety: all functions from any thread but that of callbacks.
#pragma once

#include "client/recipes/item_queue.h"

namespace quorate {

class PriorityQueue final : public ItemQueue {
 public:
  // REQUIRES: `client` lives longer.
  PriorityQueue(Client* client, std::string path)
      : ItemQueue(client, std::move(path), Format::kFramed) {}

  // Adds an item, once. Lower priorities are taken first.
  absl::Status Offer(std::string_view data, int32_t priority);

 private:
  std::optional<Rank> RankOf(std::string_view name) const override;
};

}  // namespace quorate
