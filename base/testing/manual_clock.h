// SPDX-License-Identifier: Apache-2.0

// A clock that changes only by Advance and SetWallMs. For tests and simulation.
//
// Thread-safety: none; the caller of Advance and SetWallMs makes sure that no other thread reads
// the clock during the call.
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

  // Advances both times by `ms` milliseconds. REQUIRES: ms >= 0.
  void Advance(int64_t ms) {
    now_ += std::chrono::milliseconds(ms);
    wall_ms_ += ms;
  }
  // Sets the wall clock alone, as an administrator who sets the machine's clock does.
  void SetWallMs(int64_t wall_ms) { wall_ms_ = wall_ms; }

 private:
  // The clock starts far from zero, as on a real machine, so that the difference to a time that was
  // never set is large.
  std::chrono::steady_clock::time_point now_{std::chrono::hours(1)};
  int64_t wall_ms_;
};

}  // namespace quorate
