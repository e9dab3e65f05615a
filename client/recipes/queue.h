// SPDX-License-Identifier: Apache-2.0

// A queue, first in, first out: each item is taken once, by one consumer.
//
//   quorate::Queue queue(client.get(), "/jobs");
//   queue.Offer("job");                                // a producer
//   absl::StatusOr<std::string> job = queue.Take();    // a consumer, which waits
//
// item_queue.h describes how items are taken, what happens in a crash, and the layout.
// Interoperates with Curator's DistributedQueue (kCurator), or with its SimpleDistributedQueue and
// the queue of ZooKeeper's own recipes (kSimple: names `qn-`, data without a frame).
//
// Each consumer takes the items of one producer in the order in which they were added. The listed
// names are kept in memory, so that taking from a long queue costs no more than from a short one.
//
// Thread-safety: all functions may be called from any thread except the callback thread.
#pragma once

#include "client/recipes/item_queue.h"
#include "client/recipes/sequential_names.h"

namespace quorate {

// A queue whose items are taken in the order in which they came.
class Queue final : public ItemQueue {
 public:
  // Which class of Curator can share the path: DistributedQueue, or SimpleDistributedQueue.
  enum class Layout { kCurator, kSimple };

  // REQUIRES: `client` outlives this object.
  Queue(Client* client, std::string path, Layout layout = Layout::kCurator)
      : ItemQueue(client, std::move(path),
                  layout == Layout::kCurator ? Format::kFramed : Format::kRaw),
        prefix_(layout == Layout::kCurator ? "queue-" : "qn-") {}

  // Adds an item at the end, exactly once.
  absl::Status Offer(std::string_view data) { return Add(prefix_, data); }

 private:
  std::optional<Rank> RankOf(std::string_view name) const override {
    const std::optional<int32_t> number = SequenceNumberOf(name, prefix_);
    if (!number.has_value() || !name.starts_with(prefix_)) return std::nullopt;
    return Rank{0, *number};
  }
  bool is_first_in_first_out() const override { return true; }

  const std::string prefix_;
};

}  // namespace quorate
