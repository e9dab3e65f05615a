// SPDX-License-Identifier: Apache-2.0

// Identifies threads.
#pragma once

#include <atomic>
#include <cstdint>

namespace quorate::internal {

// Returns the number of the calling thread. No other thread of this process ever gets the same
// number, also after this thread has ended (unlike std::thread::id).
inline uint64_t ThisThreadNumber() {
  static std::atomic<uint64_t> last{0};
  thread_local const uint64_t number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

}  // namespace quorate::internal
