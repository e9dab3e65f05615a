// SPDX-License-Identifier: Apache-2.0

// Estimates, from the times in the log, how far this server's wall clock is ahead of the leader's.
// The leader writes its time into each command. This server's time when it applies the command,
// minus the time in the command, is the difference of the clocks plus the time that the command
// took to arrive. The smallest of many such differences is therefore the best estimate.
//
// Thread-safety: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "consensus/core/types.h"

namespace quorate::rpc {

class ClockComparison {
 public:
  // Differences up to this are not reported.
  static constexpr int64_t kAllowedMs = 2000;
  // Commands are observed for this long before a difference is reported.
  static constexpr auto kInterval = std::chrono::seconds(5);
  // A report is repeated after this time.
  static constexpr auto kAgain = std::chrono::minutes(10);

  struct Finding {
    consensus::MemberId leader;
    int64_t ahead_ms = 0;  // how far this server's clock is ahead; negative: behind
  };

  // Records that the newest command, in which `leader` wrote the time `command_ms`, was applied
  // when this server's clock showed `own_ms`. Returns the difference if it has to be reported now.
  std::optional<Finding> Note(consensus::MemberId leader, int64_t command_ms, int64_t own_ms,
                              std::chrono::steady_clock::time_point now);

 private:
  consensus::MemberId leader_;
  std::chrono::steady_clock::time_point began_;
  std::optional<int64_t> least_ms_;  // the smallest difference since began_; none: no command yet
  std::optional<std::chrono::steady_clock::time_point> said_;
};

}  // namespace quorate::rpc
