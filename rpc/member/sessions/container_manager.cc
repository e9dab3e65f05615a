// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/sessions/container_manager.h"

#include <algorithm>

#include "base/assert.h"

namespace quorate::rpc {
namespace {

constexpr int64_t kMinuteMs = 60'000;
// The most removals that are proposed in one tick, whatever the rate.
constexpr int64_t kAtOnceMax = 512;

}  // namespace

ContainerManager::ContainerManager(int64_t check_interval_ms, int64_t max_per_minute)
    : check_interval_ms_(check_interval_ms), max_per_minute_(max_per_minute) {
  ASSERT(check_interval_ms > 0);
  ASSERT(max_per_minute > 0);
}

void ContainerManager::Reset() {
  in_round_ = false;
  since_check_ms_ = 0;
}

void ContainerManager::Advance(int64_t elapsed_ms) {
  ASSERT(elapsed_ms >= 0);
  // After a long pause, the process gets credit for at most one interval, or for a minute if that
  // is longer.
  elapsed_ms = std::min(elapsed_ms, std::max(check_interval_ms_, kMinuteMs));
  since_check_ms_ += elapsed_ms;
  if (in_round_) {
    credit_ = std::min(credit_ + elapsed_ms * max_per_minute_, kAtOnceMax * kMinuteMs);
  }
  if (since_check_ms_ < check_interval_ms_) return;
  since_check_ms_ = 0;
  if (in_round_) return;
  in_round_ = true;
  credit_ = kMinuteMs;  // one removal is allowed at once
}

size_t ContainerManager::allowed() const {
  return in_round_ ? static_cast<size_t>(credit_ / kMinuteMs) : 0;
}

void ContainerManager::OnFound(size_t found) {
  ASSERT(in_round_);
  ASSERT(found <= allowed());
  if (found < allowed()) {
    in_round_ = false;
  } else {
    credit_ -= static_cast<int64_t>(found) * kMinuteMs;
  }
}

}  // namespace quorate::rpc
