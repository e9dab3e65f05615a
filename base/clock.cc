// SPDX-License-Identifier: Apache-2.0

#include "base/clock.h"

namespace quorate {
namespace {

class SystemClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point Now() const override {
    return std::chrono::steady_clock::now();
  }
  int64_t WallMs() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace

const Clock* Clock::System() {
  static const SystemClock clock;
  return &clock;
}

}  // namespace quorate
