// SPDX-License-Identifier: Apache-2.0

// The common part of Queue, IdQueue, PriorityQueue and DelayedQueue: takes each item exactly once.
//
// Layout: each item is a persistent, sequential child of the znode at `path`,
// `queue-<rank><number>`. Its data has the frame of Curator's queues, which can hold several items;
// those are taken one by one. Each waiting consumer has an ephemeral child of `path` + "-line".
//
// An item belongs to the consumer that removes its znode, in one write. No other consumer gets it,
// even if clients or servers crash. If a consumer crashes after that write and before its work is
// done, the item is lost; a consumer that must not lose items has to use its own transaction, which
// keeps them.
//
// Items outlive sessions. If the session is lost, a call in flight returns UNAUTHENTICATED
// (kSessionExpired), and a waiting consumer has lost its place in line; it can call again at once. No
// item is returned twice or added twice. If the message says of a removal or of an Offer that it may
// have been made, the item may be gone, or may be in the queue.
//
// No herd effect: only the first consumer in line watches the queue; each of the others watches the
// znode before its own. Waiting consumers are served in the order of the line; Poll and Remove do
// not wait in line.
//
// Interoperates with Curator's queues, except consumers that were built with a lockPath: those
// remove an item only after their work, and would not notice that it was taken.
//
// Errors: FAILED_PRECONDITION, an item is damaged: the message has the path of its znode, which has
// to be deleted; DEADLINE_EXCEEDED after the client's own deadline
// (ClientOptions::default_deadline_ms), whose message says whether an item may have been removed;
// those of Client.
//
// Thread-safety: all functions may be called from any thread except the callback thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace quorate {

// What all queues have in common: how items are read and taken.
class ItemQueue {
 public:
  virtual ~ItemQueue() = default;
  ItemQueue(const ItemQueue&) = delete;
  ItemQueue& operator=(const ItemQueue&) = delete;

  // Returns the first item without taking it; nothing if the queue is empty.
  absl::StatusOr<std::optional<std::string>> Peek();
  // Does the same as Peek. NOT_FOUND: the queue is empty.
  absl::StatusOr<std::string> Element();

  // Takes and returns the first item; nothing if the queue is empty.
  absl::StatusOr<std::optional<std::string>> Poll();
  // Does the same as Poll. NOT_FOUND: the queue is empty.
  absl::StatusOr<std::string> Remove();
  // Takes and returns the first item; blocks until there is one. DEADLINE_EXCEEDED after
  // `deadline_ms`: nothing was taken; 0: without a deadline.
  absl::StatusOr<std::string> Take(int deadline_ms = 0);

  // Returns the number of item znodes, including those that are not due yet.
  absl::StatusOr<int64_t> Size();

 protected:
  // Whether an item is in Curator's format, or is the data of its znode.
  enum class Format { kFramed, kRaw };
  // The position of an item, derived from its name: items with a lower rank come first, those of
  // equal rank in the order of their creation. `number` is the one at the end of the name.
  struct Rank {
    int64_t rank = 0;
    int32_t number = 0;
  };
  // An item znode.
  struct Item {
    std::string name;
    int64_t rank = 0;
  };

  ItemQueue(Client* client, std::string path, Format format)
      : client_(client), path_(std::move(path)), format_(format) {}

  // Returns all items, in their order. `deadline_ms` as in ReadOptions.
  absl::StatusOr<std::vector<Item>> ListItems(int deadline_ms);
  Client* client() const { return client_; }
  const std::string& path() const { return path_; }

  // Adds an item whose name is `prefix` and its number.
  absl::Status Add(std::string_view prefix, std::string_view data);

  // Returns the rank of the item called `name`; nothing if that is not an item's name.
  virtual std::optional<Rank> RankOf(std::string_view name) const = 0;
  // Returns in how many milliseconds an item of that rank may be taken; 0 or less: now.
  virtual int64_t WaitMs(int64_t /*rank*/) const { return 0; }
  // Returns whether an item that is added later always comes later in the queue.
  virtual bool is_first_in_first_out() const { return false; }

 private:
  // The items that may be taken now, in order, and the time until the next one is due.
  struct Listing {
    std::vector<std::string> names;
    std::optional<int64_t> next_due_in_ms;
  };
  absl::StatusOr<Listing> ListDue(int deadline_ms);
  absl::StatusOr<std::optional<std::string>> PollDue(int deadline_ms,
                                                     std::optional<int64_t>* next_due_in_ms);
  std::optional<std::string> NextListed();
  void KeepListed(const std::vector<std::string>& names);
  // Puts `name` back at the front of `listed_`.
  void PutBackListed(const std::string& name);
  // Takes the item called `name`; returns nothing if another consumer took it. `deadline_ms`
  // applies to reads only.
  absl::StatusOr<std::optional<std::string>> TakeItem(const std::string& name, int deadline_ms);
  absl::StatusOr<std::vector<std::string>> Unframe(const std::string& item_path,
                                                   std::string data) const;

  Client* const client_;
  const std::string path_;
  const Format format_;

  std::mutex mutex_;
  // Guarded by mutex_: items that were listed and not tried yet; only for first in, first out.
  std::deque<std::string> listed_;
};

}  // namespace quorate
