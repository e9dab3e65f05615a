// SPDX-License-Identifier: Apache-2.0

// The bytes of snapshots that a leader may send to all followers together between two ticks. The
// rate grows while it delays a transfer, and shrinks when writes take long to commit.
//
// Thread-safety: none; a value of Raft.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "consensus/core/limits.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

class SnapshotRate {
 public:
  // Begins with `first_bytes`, of which the rate stays within a factor of kSnapshotRateGrowthMax
  // above and kSnapshotRateDivisorMax below.
  explicit SnapshotRate(size_t first_bytes) : first_bytes_(first_bytes), bytes_(first_bytes) {}

  size_t bytes() const { return bytes_; }
  // Returns the bytes for one of `receivers` followers, at least 1. REQUIRES: receivers > 0.
  int64_t ShareOf(std::ptrdiff_t receivers) const {
    return std::max<int64_t>(1, static_cast<int64_t>(bytes_) / receivers);
  }
  // Runs at each tick, `now_ticks`, of the time as leader. `kept_back` is whether a transfer could
  // have sent more than its share. Writes are slow if the entries of kTicksToCommit ticks ago are
  // not committed.
  void Tick(uint64_t now_ticks, Index commit, Index last, bool kept_back) {
    Index& last_before = last_before_[now_ticks % last_before_.size()];
    const bool writes_wait = commit < last_before;
    last_before = last;
    if (writes_wait) {
      bytes_ =
          std::max(std::max<size_t>(1, first_bytes_ / kSnapshotRateDivisorMax), bytes_ / 4 * 3);
    } else if (kept_back) {
      bytes_ = std::min(kSnapshotRateGrowthMax * first_bytes_,
                        bytes_ + std::max<size_t>(1, bytes_ / 16));
    }
  }

  static constexpr size_t kTicksToCommit = 3;

 private:
  size_t first_bytes_;
  size_t bytes_;
  // The last index at each of the latest ticks. The oldest one is at the tick's number modulo their
  // number.
  std::array<Index, kTicksToCommit> last_before_ = {};
};

}  // namespace quorate::consensus
