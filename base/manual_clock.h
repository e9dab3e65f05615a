// A clock that stands still until it is moved. For tests and simulation.
//
// Thread-safety: none; whoever moves it sees to it that nobody reads it meanwhile.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace quorate {

class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t wall_ms = 0) : wall_ms_(wall_ms) {}

  std::chrono::steady_clock::time_point Now() const override { return now_; }
  int64_t WallMs() const override { return wall_ms_; }

  // Both times go on by `ms` milliseconds. REQUIRES: ms >= 0.
  void Advance(int64_t ms) {
    now_ += std::chrono::milliseconds(ms);
    wall_ms_ += ms;
  }
  // Somebody sets the machine's clock.
  void SetWallMs(int64_t wall_ms) { wall_ms_ = wall_ms; }

 private:
  // Far from its zero, as on a machine: differences to a time that was never set are large.
  std::chrono::steady_clock::time_point now_{std::chrono::hours(1)};
  int64_t wall_ms_;
};

}  // namespace quorate
