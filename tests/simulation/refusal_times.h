// SPDX-License-Identifier: Apache-2.0

// When a member may refuse writes that add data: spans of virtual time.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/assert.h"

namespace quorate::simulation {

class RefusalTimes {
 public:
  // From `now_us` on the member may, or may not, refuse. REQUIRES: time does not go back.
  void Set(bool may, int64_t now_us) {
    const bool open = !spans_.empty() && spans_.back().until_us == kForeverUs;
    if (may == open) return;
    if (open) {
      ASSERT(now_us >= spans_.back().from_us);
      spans_.back().until_us = now_us;
    } else {
      spans_.push_back({now_us, kForeverUs});
    }
  }
  // Whether the member may refuse at some time from `from_us` to `until_us`, both included.
  bool Overlap(int64_t from_us, int64_t until_us) const {
    for (auto span = spans_.rbegin(); span != spans_.rend() && span->until_us >= from_us; ++span) {
      if (span->from_us <= until_us) return true;
    }
    return false;
  }

 private:
  static constexpr int64_t kForeverUs = std::numeric_limits<int64_t>::max();
  struct Span {
    int64_t from_us = 0;
    int64_t until_us = kForeverUs;
  };
  std::vector<Span> spans_;
};

}  // namespace quorate::simulation
