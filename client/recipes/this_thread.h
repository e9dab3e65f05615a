// Whose thread something belongs to.
#pragma once

#include <atomic>
#include <cstdint>

namespace quorate::internal {

// A number of the calling thread that no other thread of this process has, nor will have after this
// one has ended (as it may have its std::thread::id).
inline uint64_t ThisThreadNumber() {
  static std::atomic<uint64_t> last{0};
  thread_local const uint64_t number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

}  // namespace quorate::internal
