// Whether this server's wall clock agrees with the leader's, as far as the times in the log tell:
// the leader writes its own into each command, and what lies between that and now is the difference
// of the clocks and the time that the command was on its way. So of many commands the smallest
// difference is the best.
//
// Thread-safety: none inside.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "consensus/core/types.h"

namespace quorate::rpc {

class ClockComparison {
 public:
  // Differences up to so much are said nothing of.
  static constexpr int64_t kAllowedMs = 2000;
  // For so long commands are looked at before something is said of them.
  static constexpr auto kInterval = std::chrono::seconds(5);
  // What was said is repeated after so long.
  static constexpr auto kAgain = std::chrono::minutes(10);

  struct Finding {
    consensus::MemberId leader;
    int64_t ahead_ms = 0;  // of this server's clock; negative: it is behind
  };

  // A command that `leader` gave the time `command_ms` was applied as the newest there is, when
  // this server's clock showed `own_ms`. Returns what is to be said now, if anything.
  std::optional<Finding> Note(consensus::MemberId leader, int64_t command_ms, int64_t own_ms,
                              std::chrono::steady_clock::time_point now);

 private:
  consensus::MemberId leader_;
  std::chrono::steady_clock::time_point began_;
  std::optional<int64_t> least_ms_;  // since then; none: nothing was noted of this leader
  std::optional<std::chrono::steady_clock::time_point> said_;
};

}  // namespace quorate::rpc
