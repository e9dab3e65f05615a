// SPDX-License-Identifier: Apache-2.0

// Counts of a port that limits its connections. Thread-safety: all members may be used from any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace quorate::rpc {

// Never decrease.
struct ConnectionCounters {
  std::atomic<int64_t> refused{0};   // new connections, because of a limit
  std::atomic<int64_t> replaced{0};  // closed for newer ones, before an admitted call
  std::atomic<int64_t> failed{0};    // times that the system let the process accept no connection
};

}  // namespace quorate::rpc
