// SPDX-License-Identifier: Apache-2.0

// The order in which the connect requests of a loop are served when very many clients connect at
// once, for example after all servers were restarted. Only so many handshakes are under way at a
// time that their commands fill a few batches of the log. The others wait outside the log, where a
// client that gives up costs nothing, and clients that have a session come first, because their
// sessions expire if they wait too long.
//
// Thread-safety: none; on the thread of the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/container/flat_hash_set.h"

namespace quorate::rpc::zk {

class Handshakes {
 public:
  static constexpr size_t kUnderWayMax = 1000;
  // If both kinds of clients wait, one of this many handshakes is that of a client without a session.
  static constexpr size_t kNewShare = 8;

  // Takes note of the connect request of the connection with this tag. Returns whether its
  // handshake may begin now, and is under way then; otherwise it waits.
  bool Begin(uint32_t tag, bool has_session) {
    if (!has_waiting() && under_way_.size() < kUnderWayMax) {
      under_way_.insert(tag);
      return true;
    }
    (has_session ? returning_ : new_).push_back(tag);
    return false;
  }
  // The handshake is no longer under way, if it was. A handshake whose command is in the log stays
  // under way until the result comes, even if its client has gone.
  void End(uint32_t tag) { under_way_.erase(tag); }
  // Ends all handshakes that are under way, because no results come for them.
  void EndAll() { under_way_.clear(); }

  // Returns the next connection whose handshake may begin, and is under way then; no value if there
  // is none. The connection may be closed already; the caller ends its handshake then.
  std::optional<uint32_t> TakeNext() {
    if (!has_waiting() || under_way_.size() >= kUnderWayMax) return std::nullopt;
    const bool takes_new = returning_.empty() || (!new_.empty() && ++taken_ % kNewShare == 0);
    std::deque<uint32_t>& from = takes_new ? new_ : returning_;
    const uint32_t tag = from.front();
    from.pop_front();
    under_way_.insert(tag);
    return tag;
  }
  bool has_waiting() const { return !returning_.empty() || !new_.empty(); }

 private:
  absl::flat_hash_set<uint32_t> under_way_;  // only for lookups
  std::deque<uint32_t> returning_;           // have a session
  std::deque<uint32_t> new_;
  size_t taken_ = 0;
};

}  // namespace quorate::rpc::zk
