// SPDX-License-Identifier: Apache-2.0

// An injected clock: an object gets the clock at its construction, so that a test can run a whole
// server in virtual time.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>

namespace quorate {

class Clock {
 public:
  virtual ~Clock() = default;

  // Returns a time that never decreases. Its zero has no meaning.
  virtual std::chrono::steady_clock::time_point Now() const = 0;
  // Returns milliseconds since the epoch. May jump, in both directions.
  virtual int64_t WallMs() const = 0;

  // Returns the machine's clock, which lives as long as the process.
  static const Clock* System();
};

}  // namespace quorate
