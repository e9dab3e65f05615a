// Finds out from the times in the log whether this server's wall clock agrees with the leader's.
// The leader writes its time into each command. The difference to the time here when the command is
// applied is the difference of the clocks plus the time that the command took to arrive; so the
// smallest difference of many commands is the best estimate.
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

  // Records that the newest command, to which `leader` gave the time `command_ms`, was applied when
  // this server's clock showed `own_ms`. Returns the difference if it is to be reported now.
  std::optional<Finding> Note(consensus::MemberId leader, int64_t command_ms, int64_t own_ms,
                              std::chrono::steady_clock::time_point now);

 private:
  consensus::MemberId leader_;
  std::chrono::steady_clock::time_point began_;
  std::optional<int64_t> least_ms_;  // the least since began_; none: no command of this leader yet
  std::optional<std::chrono::steady_clock::time_point> said_;
};

}  // namespace quorate::rpc
