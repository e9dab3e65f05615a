// SPDX-License-Identifier: Apache-2.0

#include "rpc/member/clock_comparison.h"

#include <algorithm>
#include <cstdlib>

namespace quorate::rpc {

std::optional<ClockComparison::Finding> ClockComparison::Note(
    consensus::MemberId leader, int64_t command_ms, int64_t own_ms,
    std::chrono::steady_clock::time_point now) {
  if (leader != leader_) said_.reset();
  if (leader != leader_ || !least_ms_.has_value()) {
    leader_ = leader;
    began_ = now;
    least_ms_.reset();
  }
  const int64_t ahead_ms = own_ms - command_ms;
  least_ms_ = std::min(ahead_ms, least_ms_.value_or(ahead_ms));
  if (now - began_ < kInterval) return std::nullopt;
  const int64_t least_ms = *least_ms_;
  least_ms_.reset();
  if (std::abs(least_ms) <= kAllowedMs) {
    said_.reset();
    return std::nullopt;
  }
  if (said_.has_value() && now - *said_ < kAgain) return std::nullopt;
  said_ = now;
  return Finding{leader, least_ms};
}

}  // namespace quorate::rpc
