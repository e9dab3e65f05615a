// SPDX-License-Identifier: Apache-2.0

// A queue whose items stay until the work on them is done: a consumer takes a lease on an item, and
// removes the item by acknowledging it. The item of a consumer that dies comes back.
//
//   quorate::LeasedQueue queue(client.get(), "/jobs");
//   absl::StatusOr<quorate::LeasedItem> job = queue.Take(10'000);
//   if (!job.ok()) return job.status();
//   Work(job->data());
//   absl::Status done = job->Acknowledge();  // ABORTED: another consumer may have done the work, too
//
// Layout:
//   PATH/items/item-<10 digits>    persistent sequential, with the data of an item
//   PATH/leases/item-<10 digits>   ephemeral, while a consumer has a lease on the item of this name
//   PATH-line                      waiting consumers, as those of a lock
//
// Each item is acknowledged once: its znode and the lease are deleted in one transaction, on condition
// that the lease is still the one that was taken. But the work on it can be done more than once, by
// consumers that lost their leases in between; it has to bear that.
//
// Fair: waiting consumers are served in the order of their calls of Take, and items are taken in the
// order in which they were added; an item that comes back is the first again. No herd: only the first
// consumer in line watches the queue. Each Take lists the items, so a queue should not be longer than
// some ten thousand items.
//
// If the session is lost, its leases are lost: the listener is called, the items can be taken by
// others, and Acknowledge returns ABORTED. Calls in flight return UNAUTHENTICATED (kSessionExpired);
// items that were added stay, and the queue can be used again at once.
//
// While the cluster has servers of a version without Transaction::CheckCreated, Acknowledge and Return
// fail with UNIMPLEMENTED.
//
// Thread-safety: all functions of LeasedQueue may be called from any thread except the callback
// thread; a LeasedItem is used by one thread at a time. The client must outlive both.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace quorate {

// An item on which a consumer has a lease. Movable. The destructor returns the item to the queue
// without waiting, unless it was acknowledged.
class LeasedItem {
 public:
  LeasedItem(LeasedItem&&) noexcept = default;
  // Returns the item that this object held to the queue, without waiting.
  LeasedItem& operator=(LeasedItem&& other) noexcept;
  ~LeasedItem();

  // REQUIRES of all functions but is_held: the item was not moved from.
  const std::string& data() const;
  // Returns the path of the item's znode.
  const std::string& node() const;
  // Returns whether the lease is held, as far as is known locally.
  bool is_held() const;

  // Removes the item from the queue. ABORTED: the lease was lost, and another consumer may have the
  // item. FAILED_PRECONDITION: the item was acknowledged or returned. UNAUTHENTICATED: the session was
  // lost meanwhile, and the message says whether the item may have been removed.
  absl::Status Acknowledge();
  // Gives the item back, for any consumer to take. Errors as above.
  absl::Status Return();

 private:
  friend class LeasedQueue;
  class State;
  explicit LeasedItem(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;  // null: moved
};

// Who hears of lost leases.
struct LeasedQueueOptions {
  // Called on the client's callback thread with the path of each item whose lease is lost with its
  // session. It must not block.
  std::function<void(const std::string& node)> on_lost{};
};

// A queue whose items stay until a consumer has acknowledged them.
class LeasedQueue {
 public:
  LeasedQueue(Client* client, std::string path, LeasedQueueOptions options = {});
  LeasedQueue(const LeasedQueue&) = delete;
  LeasedQueue& operator=(const LeasedQueue&) = delete;

  // Adds an item.
  absl::Status Offer(std::string_view data);
  // Takes a lease on the first item that is free; blocks until there is one. DEADLINE_EXCEEDED after
  // `deadline_ms`: nothing was taken; 0: without a deadline.
  absl::StatusOr<LeasedItem> Take(int deadline_ms = 0);
  // Does the same without waiting; returns nothing if no item is free.
  absl::StatusOr<std::optional<LeasedItem>> Poll();
  // Returns the number of items, including those with a lease.
  absl::StatusOr<int64_t> Size();

 private:
  // `deadline_ms` is that of the reads.
  absl::StatusOr<std::optional<LeasedItem>> TryTake(int deadline_ms);
  absl::StatusOr<std::optional<LeasedItem>> TryTake(const std::string& name, int deadline_ms);

  Client* const client_;
  const std::string path_, items_, leases_;
  const LeasedQueueOptions options_;
};

}  // namespace quorate
