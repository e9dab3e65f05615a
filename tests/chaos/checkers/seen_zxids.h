// SPDX-License-Identifier: Apache-2.0

// Which zxids had been seen at a time: later writes have greater ones.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/chaos/checkers/run.h"

namespace quorate::chaos {

class SeenZxids {
 public:
  explicit SeenZxids(const Run& run);

  struct Seen {
    int64_t time_ns = 0;
    int64_t zxid = 0;
    LineId line;
  };
  // The newest zxid that any client had seen before this time.
  Seen Before(int64_t time_ns) const;
  // The lowest zxid of all writes that began after this time; kNever: there is none.
  int64_t BegunAfter(int64_t time_ns) const;

 private:
  std::vector<Seen> seen_;
  std::vector<std::pair<int64_t, int64_t>> begun_;  // time and zxid
};

}  // namespace quorate::chaos
