// SPDX-License-Identifier: Apache-2.0

// A queue, first in, first out, whose items have ids by which they can be removed before their turn.
//
//   quorate::IdQueue queue(client.get(), "/jobs");
//   queue.Offer("job", "customer-7");
//   queue.RemoveAll("customer-7");     // those that no consumer has taken yet
//
// item_queue.h describes how items are taken, what happens in a crash, and the layout; the names of the
// znodes are `queue-|<id>|<number>`. Interoperates with Curator's DistributedIdQueue. Several items
// can have the same id.
//
// Thread-safety: all functions may be called from any thread except the callback thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "client/recipes/item_queue.h"

namespace quorate {

// A queue whose items can be removed by their ids.
class IdQueue final : public ItemQueue {
 public:
  // REQUIRES: `client` outlives this object.
  IdQueue(Client* client, std::string path) : ItemQueue(client, std::move(path), Format::kFramed) {}

  // Adds an item at the end, exactly once. In `id`, "/" counts as "_", as in Curator.
  // INVALID_ARGUMENT: `id` is empty.
  absl::Status Offer(std::string_view data, std::string_view id);

  // Returns the number of items with this id. INVALID_ARGUMENT as above.
  absl::StatusOr<int64_t> Count(std::string_view id);

  // Removes the items with this id that exist and that no consumer takes meanwhile. Returns their
  // number. After an error, some of them may have been removed. INVALID_ARGUMENT as above.
  absl::StatusOr<int64_t> RemoveAll(std::string_view id);

 private:
  std::optional<Rank> RankOf(std::string_view name) const override;
  bool is_first_in_first_out() const override { return true; }
  absl::StatusOr<std::vector<std::string>> NamesOf(std::string_view id);
};

}  // namespace quorate
