// Time, injected: what asks for it gets it from whoever made it, so that a whole server can run in
// a time that a test moves.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>

namespace quorate {

class Clock {
 public:
  virtual ~Clock() = default;

  // Never goes back; its zero means nothing.
  virtual std::chrono::steady_clock::time_point Now() const = 0;
  // Milliseconds since the epoch. May jump, in both directions.
  virtual int64_t WallMs() const = 0;

  // The machine's; lives as long as the process.
  static const Clock* System();
};

}  // namespace quorate
