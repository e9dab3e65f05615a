// SPDX-License-Identifier: Apache-2.0

// How far the committed entries have been handed to the state machine, in ranges, and applied.
//
// Thread-safety: none; a value of Raft.
#pragma once

#include <cstddef>
#include <deque>

#include "base/assert.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

class ApplyProgress {
 public:
  // The state machine has everything up to `applied`.
  explicit ApplyProgress(Index applied) : applied_(applied), handed_out_(applied) {}

  // The entries up to `last` were handed out as one range. REQUIRES: last > handed_out().
  void HandOut(Index last) {
    ASSERT(last > handed_out_);
    handed_out_ = last;
    range_ends_.push_back(last);
  }
  // The state machine has applied everything up to `index`. Returns false if that was known, because
  // it was applied before a snapshot was installed.
  bool Applied(Index index) {
    if (index <= applied_) return false;
    ASSERT(index <= handed_out_, "only entries that were handed out are applied");
    applied_ = index;
    while (!range_ends_.empty() && range_ends_.front() <= index) range_ends_.pop_front();
    return true;
  }
  // The state machine was replaced by the snapshot of `index`. Forgets the ranges that are under
  // way.
  void Reset(Index index) {
    applied_ = handed_out_ = index;
    range_ends_.clear();
  }

  // applied() <= handed_out().
  Index applied() const { return applied_; }
  Index handed_out() const { return handed_out_; }
  // Returns the number of ranges that were handed out and are not applied completely.
  size_t ranges_under_way() const { return range_ends_.size(); }

 private:
  Index applied_;
  Index handed_out_;
  std::deque<Index> range_ends_;  // of the ranges under way, ascending
};

}  // namespace quorate::consensus
