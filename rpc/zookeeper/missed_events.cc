// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/missed_events.h"

#include "rpc/frontend/listing.h"
#include "tree/path.h"

namespace quorate::rpc::zk {

using tree::EventType;

MissedEvents::MissedEvents(const EventHistory& history, tree::Zxid since,
                           std::span<const std::string_view> persistent,
                           std::span<const std::string_view> recursive)
    : history_(history),
      persistent_(persistent.begin(), persistent.end()),
      recursive_(recursive.begin(), recursive.end()),
      next_(history.NumberAfter(since)) {
  if (persistent.size() + recursive.size() > kHashesMax) return;
  for (const auto& paths : {persistent, recursive}) {
    for (const std::string_view path : paths) hashes_.push_back(EventHistory::HashOf(path));
  }
}

size_t MissedEvents::Read(size_t max, const std::function<bool()>& pause, const Send& send) {
  if (history_.IsLost(next_)) {
    has_gap_ = true;
    next_ = history_.NumberAfter(history_.oldest());
  }
  size_t count = 0;
  EventHistory::Reader reader(history_, next_);
  for (; count < max && !reader.at_end() && !pause(); ++count) {
    if (!hashes_.empty()) {
      count += reader.SkipOthers(hashes_, max - count);
      if (count >= max || reader.at_end()) break;
    }
    const Event& event = reader.Next();
    size_t bytes = 0;
    const bool is_of_node = IsOfNode(event.path, &bytes);
    count += bytes / kBytesPerNode;
    if (is_of_node) send(event.type, event.path, event.zxid, event.readers);
    if (!event.changes_children() || event.path == "/") continue;
    const std::string_view parent = tree::ParentPath(event.path);
    if (persistent_.contains(parent)) {
      send(EventType::kNodeChildrenChanged, parent, event.zxid, event.parent_readers);
    }
  }
  next_ = reader.number();
  return count;
}

bool MissedEvents::Has(EventType type, std::string_view path) const {
  size_t bytes = 0;
  return type == EventType::kNodeChildrenChanged ? persistent_.contains(path)
                                                 : IsOfNode(path, &bytes);
}

bool MissedEvents::IsOfNode(std::string_view path, size_t* bytes) const {
  *bytes += path.size();
  if (persistent_.contains(path)) return true;
  if (recursive_.empty()) return false;
  for (;;) {
    *bytes += path.size();
    if (recursive_.contains(path)) return true;
    if (path == "/") return false;
    path = tree::ParentPath(path);
  }
}

}  // namespace quorate::rpc::zk
