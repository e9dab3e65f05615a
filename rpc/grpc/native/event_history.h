// The events of the recent past, so that a watch can go on where its broken stream ended. Bounded
// in bytes: the oldest transactions' events make room for the newest.
//
// Thread-safety: none inside. The apply thread calls what is not const while it holds the write
// side of the tree; const functions may be called together under the read side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "rpc/grpc/native/event.h"
#include "rpc/grpc/native/scope.h"
#include "tree/tree.h"

namespace quorate::rpc::native {

class EventHistory {
 public:
  // Keeps events of about `bytes_max` bytes, all of what they take in memory counted. It knows
  // everything behind `zxid`.
  explicit EventHistory(size_t bytes_max, tree::Zxid zxid = tree::Zxid(0));
  EventHistory(const EventHistory&) = delete;
  EventHistory& operator=(const EventHistory&) = delete;

  // Returns the event as it is kept. REQUIRES: zxids do not go back.
  std::shared_ptr<const Event> Add(tree::EventType type, std::string_view path, tree::Zxid zxid,
                                   std::span<const tree::Acl> acl);
  // Forgets everything: what happened up to `zxid` is not known any more.
  void Clear(tree::Zxid zxid);

  // Every event behind this zxid is here; of this one and those before it, none may be asked for.
  tree::Zxid oldest() const { return oldest_; }

  // Events have numbers without gaps: the next one's.
  uint64_t next_number() const { return first_number_ + events_.size(); }
  // The number of the first event behind `zxid`. REQUIRES: zxid >= oldest().
  uint64_t NumberAfter(tree::Zxid zxid) const;
  // Whether the event of this number is not kept any more.
  bool IsLost(uint64_t number) const { return number < first_number_; }
  // REQUIRES: !IsLost(number), number < next_number().
  const Event& At(uint64_t number) const { return *events_[number - first_number_]; }

  size_t bytes() const { return bytes_; }

 private:
  // A list is kept once, however many events have it.
  struct Interned {
    Readers readers;
    size_t events = 0;
  };

  Readers Intern(std::span<const tree::Acl> acl);
  void DropFirst();

  const size_t bytes_max_;
  tree::Zxid oldest_;
  uint64_t first_number_ = 0;
  std::deque<std::shared_ptr<const Event>> events_;
  std::map<std::vector<tree::Acl>, Interned> readers_;
  size_t bytes_ = 0;
};

}  // namespace quorate::rpc::native
