// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/item_queue.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/bytes.h"
#include "client/recipes/lock_node.h"
#include "client/recipes/sequential_names.h"
#include "client/recipes/waiting.h"

namespace quorate {
namespace {

// The format of Curator's queues: a version, items, an end.
constexpr int32_t kFrameVersion = 0x00010001;
constexpr uint8_t kFrameItem = 1;
constexpr uint8_t kFrameEnd = 2;

// The number of listed items that other consumers took first, after which the list is too old and
// is read again.
constexpr int kLossesUntilListing = 8;

// Due times that differ by less than this are equal: the clock was read twice.
constexpr std::chrono::milliseconds kClockTolerance{5};

constexpr char kLinePrefix[] = "waits-";

std::string Frame(const std::string_view* begin, const std::string_view* end) {
  std::string framed;
  ByteWriter<std::endian::big> writer(&framed);
  writer.Int(kFrameVersion);
  for (const std::string_view* item = begin; item != end; ++item) {
    writer.Int(kFrameItem);
    writer.Int(static_cast<int32_t>(item->size()));
    writer.Raw(*item);
  }
  writer.Int(kFrameEnd);
  return framed;
}

// A place in a line. The destructor gives it up without waiting for an answer, even if the znode is
// still being created.
class PlaceInLine {
 public:
  PlaceInLine(Client* client, std::string line) : line_(std::move(line)) {
    internal::LockNode::Options options;
    options.directory = line_;
    options.prefix = kLinePrefix;
    options.prefixes = {kLinePrefix};
    options.decide = internal::LockNode::WaitForPrevious;
    node_ = internal::LockNode::Start(client, std::move(options));
  }
  ~PlaceInLine() { node_->Release(); }
  PlaceInLine(const PlaceInLine&) = delete;
  PlaceInLine& operator=(const PlaceInLine&) = delete;

  // Blocks until this place is the first in line.
  absl::Status WaitForTurn(const internal::WaitDeadline& deadline) {
    const absl::Status status =
        node_->WaitForTurn(deadline.end().value_or(internal::Deadline::max()));
    if (!absl::IsDeadlineExceeded(status)) return status;
    return absl::DeadlineExceededError(
        absl::StrCat("waited ", deadline.deadline_ms(), " ms for a turn in ", line_));
  }
  // Returns the session to which this place belongs. REQUIRES: WaitForTurn has returned OK.
  int64_t session_id() const { return node_->session_id(); }

 private:
  const std::string line_;
  std::shared_ptr<internal::LockNode> node_;
};

}  // namespace

absl::Status ItemQueue::Add(std::string_view prefix, std::string_view data) {
  return client_
      ->Create(path_ + "/" + std::string(prefix),
               format_ == Format::kRaw ? std::string(data) : Frame(&data, &data + 1),
               {.mode = CreateMode::kPersistentSequential, .create_parents = true})
      .status();
}

absl::StatusOr<std::vector<std::string>> ItemQueue::Unframe(const std::string& item_path,
                                                            std::string data) const {
  if (format_ == Format::kRaw) return std::vector<std::string>{std::move(data)};
  const auto damaged = [&item_path] {
    return absl::FailedPreconditionError(
        absl::StrCat(item_path, " is a damaged item of a queue: delete it"));
  };
  std::vector<std::string> items;
  size_t at = sizeof(int32_t);
  if (data.size() < at) return damaged();
  if (LoadInt<std::endian::big, int32_t>(data.data()) != kFrameVersion) return damaged();
  while (at < data.size() && static_cast<uint8_t>(data[at]) == kFrameItem) {
    if (data.size() - ++at < sizeof(int32_t)) return damaged();
    const int32_t size = LoadInt<std::endian::big, int32_t>(data.data() + at);
    at += sizeof(int32_t);
    if (size < 0 || data.size() - at < static_cast<size_t>(size)) return damaged();
    items.push_back(data.substr(at, static_cast<size_t>(size)));
    at += static_cast<size_t>(size);
  }
  if (at >= data.size() || static_cast<uint8_t>(data[at]) != kFrameEnd) return damaged();
  return items;
}

absl::StatusOr<std::vector<ItemQueue::Item>> ItemQueue::ListItems(int deadline_ms) {
  // Linearizable, so that all items that were added before are in the list.
  absl::StatusOr<ListResult> list =
      client_->List(path_, {.linearizable = true, .deadline_ms = deadline_ms});
  if (ErrorOf(list.status()) == ErrorCode::kNoNode) return std::vector<Item>();
  if (!list.ok()) return list.status();
  std::map<int64_t, std::vector<SequentialName>> ranks;
  for (std::string& name : list->children) {
    const std::optional<Rank> rank = RankOf(name);
    if (rank.has_value()) ranks[rank->rank].push_back({std::move(name), rank->number});
  }
  std::vector<Item> items;
  for (auto& [rank, names] : ranks) {
    SortByNumber(&names);
    for (SequentialName& each : names) items.push_back({std::move(each.name), rank});
  }
  return items;
}

absl::StatusOr<ItemQueue::Listing> ItemQueue::ListDue(int deadline_ms) {
  absl::StatusOr<std::vector<Item>> items = ListItems(deadline_ms);
  if (!items.ok()) return items.status();
  Listing listing;
  for (Item& item : *items) {
    const int64_t wait_ms = WaitMs(item.rank);
    if (wait_ms > 0) {
      listing.next_due_in_ms = wait_ms;
      break;
    }
    listing.names.push_back(std::move(item.name));
  }
  return listing;
}

absl::StatusOr<int64_t> ItemQueue::Size() {
  const absl::StatusOr<std::vector<Item>> items = ListItems(0);
  if (!items.ok()) return items.status();
  return static_cast<int64_t>(items->size());
}

absl::StatusOr<std::optional<std::string>> ItemQueue::Peek() {
  const absl::StatusOr<Listing> listing = ListDue(0);
  if (!listing.ok()) return listing.status();
  for (const std::string& name : listing->names) {
    const std::string item_path = absl::StrCat(path_, "/", name);
    absl::StatusOr<GetResult> read = client_->Get(item_path);
    if (ErrorOf(read.status()) == ErrorCode::kNoNode) continue;  // taken meanwhile
    if (!read.ok()) return read.status();
    absl::StatusOr<std::vector<std::string>> items = Unframe(item_path, std::move(read->data));
    if (!items.ok()) return items.status();
    if (!items->empty()) return std::move(items->front());
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<std::string>> ItemQueue::TakeItem(const std::string& name,
                                                               int deadline_ms) {
  const std::string item_path = absl::StrCat(path_, "/", name);
  for (;;) {
    absl::StatusOr<GetResult> read = client_->Get(item_path, {.deadline_ms = deadline_ms});
    if (ErrorOf(read.status()) == ErrorCode::kNoNode) return std::nullopt;
    if (!read.ok()) return read.status();
    absl::StatusOr<std::vector<std::string>> items = Unframe(item_path, std::move(read->data));
    if (!items.ok()) return items.status();
    absl::Status status;
    if (items->size() > 1) {
      const std::vector<std::string_view> rest(items->begin() + 1, items->end());
      status = client_
                   ->Set(item_path, Frame(rest.data(), rest.data() + rest.size()),
                         {.version = read->stat.version})
                   .status();
    } else {
      status = client_->Delete(item_path, {.version = read->stat.version}).status();
    }
    const std::optional<ErrorCode> error = ErrorOf(status);
    if (error == ErrorCode::kNoNode) return std::nullopt;
    if (error == ErrorCode::kBadVersion) continue;  // the first of several items was taken
    if (!status.ok()) return status;
    if (items->empty()) return std::nullopt;
    if (items->size() > 1) PutBackListed(name);
    return std::move(items->front());
  }
}

std::optional<std::string> ItemQueue::NextListed() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (listed_.empty()) return std::nullopt;
  std::string name = std::move(listed_.front());
  listed_.pop_front();
  return name;
}

void ItemQueue::KeepListed(const std::vector<std::string>& names) {
  std::lock_guard<std::mutex> lock(mutex_);
  listed_.assign(names.begin(), names.end());
}

void ItemQueue::PutBackListed(const std::string& name) {
  if (!is_first_in_first_out()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  listed_.push_front(name);
}

absl::StatusOr<std::optional<std::string>> ItemQueue::PollDue(
    int deadline_ms, std::optional<int64_t>* next_due_in_ms) {
  std::deque<std::string> names;
  for (int losses = 0;; ++losses) {
    if (losses == kLossesUntilListing) {
      losses = 0;
      names.clear();
      KeepListed({});
    }
    std::optional<std::string> name;
    if (is_first_in_first_out()) {
      name = NextListed();
    } else if (!names.empty()) {
      name = std::move(names.front());
      names.pop_front();
    }
    if (!name.has_value()) {
      absl::StatusOr<Listing> listing = ListDue(deadline_ms);
      if (!listing.ok()) return listing.status();
      *next_due_in_ms = listing->next_due_in_ms;
      if (listing->names.empty()) return std::nullopt;
      if (is_first_in_first_out()) {
        KeepListed(listing->names);
      } else {
        names.assign(listing->names.begin(), listing->names.end());
      }
      continue;
    }
    absl::StatusOr<std::optional<std::string>> item = TakeItem(*name, deadline_ms);
    if (!item.ok()) PutBackListed(*name);
    if (!item.ok() || item->has_value()) return item;
  }
}

absl::StatusOr<std::optional<std::string>> ItemQueue::Poll() {
  std::optional<int64_t> next_due_in_ms;
  return PollDue(0, &next_due_in_ms);
}

absl::StatusOr<std::string> ItemQueue::Take(int deadline_ms) {
  using Clock = internal::WaitDeadline::Clock;
  const internal::WaitDeadline deadline(deadline_ms);
  std::optional<std::string> taken;
  std::optional<Clock::time_point> due;
  absl::Status failure;
  const auto take = [&] {
    std::optional<int64_t> next_due_in_ms;
    absl::StatusOr<std::optional<std::string>> item =
        PollDue(deadline.ReadDeadlineMs(), &next_due_in_ms);
    failure = item.status();
    if (!item.ok()) return false;
    taken = *std::move(item);
    due.reset();
    if (next_due_in_ms.has_value()) {
      due = Clock::now() + std::chrono::milliseconds(*next_due_in_ms);
    }
    return taken.has_value();
  };
  if (take()) return *std::move(taken);
  if (!failure.ok()) return failure;
  const std::string what = absl::StrCat("an item in the queue ", path_);
  PlaceInLine place(client_, absl::StrCat(path_, "-line"));
  if (absl::Status s = place.WaitForTurn(deadline); !s.ok()) return s;
  for (;;) {
    const std::optional<Clock::time_point> wakes = due;
    const internal::WaitDeadline earlier =
        wakes.has_value() ? deadline.OrEarlier(*wakes) : deadline;
    const absl::Status status = internal::WaitUntil(
        client_, path_, WatchScope::kChildren, earlier, what,
        [&]() -> absl::StatusOr<bool> {
          if (take()) return true;
          if (!failure.ok()) return failure;
          // True if an item became known that is due before the planned wake-up.
          return due.has_value() && (!wakes.has_value() || *due + kClockTolerance < *wakes);
        },
        place.session_id());
    if (taken.has_value()) return *std::move(taken);
    // Checked before the deadline below: a DEADLINE_EXCEEDED in here means that a removal may or
    // may not have happened.
    if (!failure.ok()) return failure;
    if (status.ok() || (absl::IsDeadlineExceeded(status) && !deadline.is_over())) continue;
    return status;
  }
}

namespace {

template <class T>
absl::StatusOr<std::string> NotEmpty(absl::StatusOr<T> item, const std::string& path) {
  if (!item.ok()) return item.status();
  if (!item->has_value()) return absl::NotFoundError(absl::StrCat("the queue ", path, " is empty"));
  return **std::move(item);
}

}  // namespace

absl::StatusOr<std::string> ItemQueue::Element() { return NotEmpty(Peek(), path_); }
absl::StatusOr<std::string> ItemQueue::Remove() { return NotEmpty(Poll(), path_); }

}  // namespace quorate
