// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/recent_latencies.h"

#include <algorithm>

#include "base/assert.h"

namespace quorate::rpc {

void WindowLatencies::Merge(const WindowLatencies& other) {
  histogram.Merge(other.histogram);
  max_us = std::max(max_us, other.max_us);
  seconds = std::max(seconds, other.seconds);
}

double WindowLatencies::average_us() const {
  return count() == 0 ? 0 : static_cast<double>(histogram.sum_us) / static_cast<double>(count());
}

double WindowLatencies::PercentileUs(double part) const {
  return std::min(histogram.PercentileUs(part), static_cast<double>(max_us));
}

void RecentLatencies::Add(int64_t us, TimePoint now) {
  const int64_t number = Steps::NumberAt(now);
  Slot& slot = slots_[static_cast<size_t>(number) % kSlots];
  if (slot.number.load(std::memory_order_relaxed) != number) {
    slot.number.store(-1, std::memory_order_release);
    slot.histogram.Clear();
    slot.max_us.Set(0);
    slot.number.store(number, std::memory_order_release);
    if (first_number_.load(std::memory_order_relaxed) < 0) {
      first_number_.store(number, std::memory_order_release);
    }
  }
  slot.histogram.Add(us);
  if (us > slot.max_us.value()) slot.max_us.Set(us);
}

void RecentLatencies::AddRecentTo(std::chrono::seconds window, TimePoint now,
                                  WindowLatencies* sums) const {
  ASSERT(window <= kWindowMax);
  const int64_t first_of_all = first_number_.load(std::memory_order_acquire);
  if (first_of_all < 0) return;
  const int64_t first = std::max(Steps::FirstOf(window, now), first_of_all);
  WindowLatencies recent;
  for (int64_t number = first; number <= Steps::NumberAt(now); ++number) {
    const Slot& slot = slots_[static_cast<size_t>(number) % kSlots];
    if (slot.number.load(std::memory_order_acquire) != number) continue;
    recent.histogram.Merge(slot.histogram.value());
    recent.max_us = std::max(recent.max_us, slot.max_us.value());
  }
  recent.seconds = std::chrono::duration<double>(now - Steps::BeginOf(first)).count();
  sums->Merge(recent);
}

}  // namespace quorate::rpc
