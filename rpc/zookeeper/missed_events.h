// SPDX-License-Identifier: Apache-2.0

// The events that a client's persistent watches missed while the client was not connected. They are
// read from the history of events, and are those that the watches would have got: for each change,
// what tree::WatchTable::Fire describes.
//
// Thread-safety: none. The history is read only while the tree is locked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "rpc/frontend/event_history.h"

namespace quorate::rpc::zk {

class MissedEvents {
 public:
  // Sends an event of `type` at `path` to the client, unless `readers` does not allow the client to
  // read it.
  using Send = std::function<void(tree::EventType type, std::string_view path, tree::Zxid zxid,
                                  const Readers& readers)>;

  // Begins with the first event after `since`, the newest zxid that the client has seen for certain.
  // `history` and the paths of the persistent and of the recursive watches must outlive the object.
  // REQUIRES: since >= history.oldest(), so that every event after `since` is kept.
  MissedEvents(const EventHistory& history, tree::Zxid since,
               std::span<const std::string_view> persistent,
               std::span<const std::string_view> recursive);
  MissedEvents(const MissedEvents&) = delete;
  MissedEvents& operator=(const MissedEvents&) = delete;

  // Reads up to about `max` events, and calls `send` for each one that the client gets, until
  // `pause()` returns true. Returns how many events were read, or work of the same cost. Events that
  // the history dropped before they were read are left out, and has_gap() is true from then on.
  size_t Read(size_t max, const std::function<bool()>& pause, const Send& send);
  // Returns whether everything up to now was read.
  bool at_end() const { return next_ == history_.next_number(); }
  bool has_gap() const { return has_gap_; }
  // Returns whether the history has dropped the event that Read would begin with.
  bool is_overtaken() const { return history_.IsLost(next_); }

  // Returns whether an event that a client gets, as the watches of a connection get it, belongs to
  // one of these watches, so that Read will find it.
  bool Has(tree::EventType type, std::string_view path) const;

 private:
  // With more paths than this, hardly any events could be skipped.
  static constexpr size_t kHashesMax = 64;

  // Returns whether a persistent or recursive watch covers the znode. Adds the bytes of the paths
  // that it looks up to `*bytes`.
  bool IsOfNode(std::string_view path, size_t* bytes) const;

  const EventHistory& history_;
  absl::flat_hash_set<std::string_view> persistent_;  // only for lookups
  absl::flat_hash_set<std::string_view> recursive_;   // only for lookups
  std::vector<uint64_t> hashes_;  // of the paths, to skip other events; empty: none is skipped
  uint64_t next_;                 // the number of the next event
  bool has_gap_ = false;
};

}  // namespace quorate::rpc::zk
