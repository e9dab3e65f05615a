// What Queue, PriorityQueue and DelayedQueue have in common: taking items, each once.
//
// Layout: each item is a persistent, sequential child of the znode at `path`,
// `queue-<rank><number>`. Its data is framed as Curator's queues have it, which can hold several
// items; those are taken one by one. Who waits for items stands in line by an ephemeral child of
// `path` + "-line".
//
// An item goes to who removes its znode, in one write: to nobody else, whatever crashes. A consumer
// that crashes between that and its work has lost the item; who cannot have that keeps it by a
// transaction of its own.
//
// No herd: of all that wait, only the first in line watches the queue, and each other the one
// before it. Who waits is served in the order of the line; Poll and Remove do not stand in line.
//
// Interoperates with Curator's queues, but for consumers that were built with a lockPath: those
// remove an item only after their work, and would not notice that it was taken.
//
// Errors: FAILED_PRECONDITION, an item is damaged, with the path of its znode, which has to be
// deleted; DEADLINE_EXCEEDED with the client's own deadline (ClientOptions::default_deadline_ms)
// says whether an item may have been removed; those of Client.
//
// Thread-safety: all functions from any thread but that of callbacks.
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

class ItemQueue {
 public:
  virtual ~ItemQueue() = default;
  ItemQueue(const ItemQueue&) = delete;
  ItemQueue& operator=(const ItemQueue&) = delete;

  // The first item, which stays there. Nothing, if the queue is empty.
  absl::StatusOr<std::optional<std::string>> Peek();
  // The same. NOT_FOUND: the queue is empty.
  absl::StatusOr<std::string> Element();

  // Takes the first item. Nothing, if the queue is empty.
  absl::StatusOr<std::optional<std::string>> Poll();
  // The same. NOT_FOUND: the queue is empty.
  absl::StatusOr<std::string> Remove();
  // Takes the first item, and waits for one. DEADLINE_EXCEEDED after `deadline_ms`, and nothing was
  // taken; 0: without a deadline.
  absl::StatusOr<std::string> Take(int deadline_ms = 0);

  // How many znodes of items there are, also those that are not due yet.
  absl::StatusOr<int64_t> Size();

 protected:
  enum class Format { kFramed, kRaw };
  // Of an item, by its name: items with a lower rank are first, those with the same in the order of
  // their creation. `prefix` is what is before the number.
  struct Rank {
    int64_t rank = 0;
    std::string prefix;
  };
  // What there is, in order.
  struct Item {
    std::string name;
    int64_t rank = 0;
  };

  ItemQueue(Client* client, std::string path, Format format)
      : client_(client), path_(std::move(path)), format_(format) {}

  // Adds an item with a name of `prefix` and its number.
  absl::Status Add(std::string_view prefix, std::string_view data);

  // Nothing, if it is no item's name.
  virtual std::optional<Rank> RankOf(std::string_view name) const = 0;
  // In how many milliseconds an item may be taken; 0 or less: now.
  virtual int64_t WaitMs(int64_t /*rank*/) const { return 0; }
  // Whether items that are added later always come later.
  virtual bool is_first_in_first_out() const { return false; }

 private:
  // What may be taken now, in order, and when more will be.
  struct Listing {
    std::vector<std::string> names;
    std::optional<int64_t> next_due_in_ms;
  };
  absl::StatusOr<std::vector<Item>> ListItems(int deadline_ms);
  absl::StatusOr<Listing> ListDue(int deadline_ms);
  absl::StatusOr<std::optional<std::string>> PollDue(int deadline_ms,
                                                     std::optional<int64_t>* next_due_in_ms);
  std::optional<std::string> NextListed();
  void KeepListed(const std::vector<std::string>& names);
  // It is the next one again.
  void PutBackListed(const std::string& name);
  // Nothing, if somebody else has it. The deadline is that of reading it.
  absl::StatusOr<std::optional<std::string>> TakeItem(const std::string& name, int deadline_ms);
  absl::StatusOr<std::vector<std::string>> Unframe(const std::string& item_path,
                                                   std::string data) const;

  Client* const client_;
  const std::string path_;
  const Format format_;

  std::mutex mutex_;
  // Guarded by mutex_: items that were seen and not tried yet, if it is first in, first out.
  std::deque<std::string> listed_;
};

}  // namespace quorate
