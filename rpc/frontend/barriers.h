// SPDX-License-Identifier: Apache-2.0

// The linearizable barriers (Service::Sync) of one loop. Clients join the barrier that begins next,
// so one barrier serves all clients of an iteration. At most kBarriersInFlightMax are in flight:
// what joins meanwhile waits for one of them to end, so that under load a barrier serves many
// iterations.
//
// Thread-safety: none; used on the loop's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace quorate::rpc {

// One that is confirmed by the other servers, and one that is on its way to them.
inline constexpr uint64_t kBarriersInFlightMax = 2;

class Barriers {
 public:
  // Adds the client to the barrier that begins next, and returns the number of that barrier, which
  // is greater than 0. A client may join a barrier more than once.
  uint64_t Join(uint32_t tag) {
    if (next_.empty() || next_.back() != tag) next_.push_back(tag);
    return begun_ + 1;
  }
  // Returns the number of the barrier that the caller has to begin now; no value if no client has
  // joined it or too many are in flight.
  std::optional<uint64_t> TakeNext() {
    if (next_.empty() || begun_ - done_ >= kBarriersInFlightMax) return std::nullopt;
    waiting_.push_back(std::exchange(next_, {}));
    return ++begun_;
  }
  // Returns whether clients have joined a barrier that has not begun.
  bool has_next() const { return !next_.empty(); }
  // Records that a barrier has ended; this implies the end of all earlier ones. Returns the clients
  // that waited for them, some of them several times. REQUIRES: the barrier has begun.
  std::vector<uint32_t> End(uint64_t barrier) {
    ASSERT(barrier <= begun_, "only a barrier that has begun can end");
    std::vector<uint32_t> tags;
    for (; done_ < barrier; ++done_) {
      tags.insert(tags.end(), waiting_.front().begin(), waiting_.front().end());
      waiting_.pop_front();
    }
    return tags;
  }
  // Returns the newest barrier that has ended; 0 if none has.
  uint64_t done() const { return done_; }

 private:
  uint64_t begun_ = 0;
  uint64_t done_ = 0;
  std::vector<uint32_t> next_;                 // the clients of barrier begun_ + 1
  std::deque<std::vector<uint32_t>> waiting_;  // the clients of barriers done_ + 1 to begun_
};

}  // namespace quorate::rpc
