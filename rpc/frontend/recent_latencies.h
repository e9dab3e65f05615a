// SPDX-License-Identifier: Apache-2.0

// The latencies of the requests of the last minutes.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "rpc/frontend/latency_histogram.h"

namespace quorate::rpc {

// Divides the time of the steady clock into numbered steps of equal length. Statistics of the last minutes
// are kept in a ring of steps: a new step takes the place of the oldest one. A reader leaves out the steps
// whose numbers are too old, so that no timer has to clear them, even if the writer has nothing to do.
template <int kSeconds>
struct TimeSteps {
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kStep{kSeconds};

  static int64_t NumberAt(TimePoint time) { return time.time_since_epoch() / kStep; }
  static TimePoint BeginOf(int64_t number) { return TimePoint(number * kStep); }
  // Returns the number of the first step of a window: it has begun `window` ago or up to a step earlier.
  static int64_t FirstOf(std::chrono::seconds window, TimePoint now) {
    return NumberAt(now - window);
  }
};

// The latencies of a window. A value type.
struct WindowLatencies {
  LatencyHistogram histogram;
  int64_t max_us = 0;
  // The seconds that the window covers: from the begin of its first step, or from the first request that
  // there ever was if that came later, until now. 0: there was no request at all.
  double seconds = 0;

  void Merge(const WindowLatencies& other);
  int64_t count() const { return histogram.count(); }
  // Returns a number of the window per second. Less than a second counts as one.
  double PerSecond(int64_t number) const {
    return static_cast<double>(number) / std::max(seconds, 1.0);
  }
  double average_us() const;
  // As LatencyHistogram::PercentileUs, but not above the greatest latency.
  double PercentileUs(double part) const;
};

// Keeps the latencies of the last minutes, with one writer. Thread-safety: Add from the writer's thread,
// AddRecentTo from any. What is read may lack parts of a concurrent Add.
class RecentLatencies {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Steps = TimeSteps<10>;
  static constexpr std::chrono::minutes kWindowMax{5};

  // REQUIRES: us >= 0, and `now` does not go back.
  void Add(int64_t us, TimePoint now);
  // Adds the latencies of the last `window`. REQUIRES: window <= kWindowMax.
  void AddRecentTo(std::chrono::seconds window, TimePoint now, WindowLatencies* sums) const;

 private:
  // One more than a window may have, so that a reader does not see the step that is begun next.
  static constexpr size_t kSlots = kWindowMax / Steps::kStep + 2;
  struct Slot {
    std::atomic<int64_t> number{-1};  // of the step; -1: of none
    LiveLatencyHistogram histogram;
    Counter max_us;
  };

  std::array<Slot, kSlots> slots_;
  std::atomic<int64_t> first_number_{-1};  // the step of the first request; -1: there was none
};

}  // namespace quorate::rpc
