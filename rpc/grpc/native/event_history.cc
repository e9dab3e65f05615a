#include "rpc/grpc/native/event_history.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace quorate::rpc::native {
namespace {

// Of an event besides its path: the object with its counts, and its place in the queue.
constexpr size_t kEventBytes = sizeof(Event) + 2 * sizeof(void*) + 2 * sizeof(size_t);

size_t BytesOf(const Event& event) { return kEventBytes + event.path.size(); }

// Of a list that is kept: twice, as the key too.
size_t BytesOf(std::span<const tree::Acl> acl) {
  size_t bytes = 0;
  for (const tree::Acl& entry : acl) {
    bytes += 2 * (sizeof(entry) + entry.identity.scheme.size() + entry.identity.id.size());
  }
  return bytes;
}

}  // namespace

EventHistory::EventHistory(size_t bytes_max, tree::Zxid zxid)
    : bytes_max_(bytes_max), oldest_(zxid) {}

std::shared_ptr<const Event> EventHistory::Add(tree::EventType type, std::string_view path,
                                               tree::Zxid zxid, std::span<const tree::Acl> acl) {
  if (events_.empty() && zxid == oldest_) {
    // The rest of a transaction that is too large to be kept.
    ++first_number_;
    return std::make_shared<const Event>(Event{type, std::string(path), zxid, ReadersOf(acl)});
  }
  ASSERT(events_.empty() ? zxid > oldest_ : zxid >= events_.back()->zxid);
  auto event = std::make_shared<const Event>(Event{type, std::string(path), zxid, Intern(acl)});
  bytes_ += BytesOf(*event);
  events_.push_back(event);
  while (bytes_ > bytes_max_ && !events_.empty()) {
    // A transaction's events are known all or none.
    oldest_ = events_.front()->zxid;
    while (!events_.empty() && events_.front()->zxid == oldest_) DropFirst();
  }
  return event;
}

void EventHistory::Clear(tree::Zxid zxid) {
  // Numbers go on, with one that stands for what nobody saw: whoever waits for it has lost it.
  first_number_ = next_number() + 1;
  events_.clear();
  readers_.clear();
  bytes_ = 0;
  oldest_ = zxid;
}

uint64_t EventHistory::NumberAfter(tree::Zxid zxid) const {
  ASSERT(zxid >= oldest_);
  const auto after = std::partition_point(
      events_.begin(), events_.end(),
      [&](const std::shared_ptr<const Event>& event) { return event->zxid <= zxid; });
  return first_number_ + static_cast<uint64_t>(after - events_.begin());
}

Readers EventHistory::Intern(std::span<const tree::Acl> acl) {
  Readers readers = ReadersOf(acl);
  if (readers == nullptr) return nullptr;
  Interned& interned = readers_[*readers];
  if (interned.readers == nullptr) {
    interned.readers = std::move(readers);
    bytes_ += BytesOf(acl);
  }
  ++interned.events;
  return interned.readers;
}

void EventHistory::DropFirst() {
  const std::shared_ptr<const Event> event = std::move(events_.front());
  events_.pop_front();
  ++first_number_;
  bytes_ -= BytesOf(*event);
  if (event->readers == nullptr) return;
  const auto interned = readers_.find(*event->readers);
  ASSERT(interned != readers_.end());
  if (--interned->second.events > 0) return;
  bytes_ -= BytesOf(std::span<const tree::Acl>(interned->first));
  readers_.erase(interned);
}

}  // namespace quorate::rpc::native
