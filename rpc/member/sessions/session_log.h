// SPDX-License-Identifier: Apache-2.0

// Logs which sessions are opened, moved and expired. The number of lines is limited: further events
// are counted, and summed up in one line.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "tree/types.h"

namespace quorate::rpc {

class SessionLog {
 public:
  enum class Event : uint8_t { kOpened, kMoved, kExpired };

  // The most lines in an interval. An interval begins with its first line and takes kInterval.
  static constexpr size_t kLinesMax = 20;
  static constexpr auto kInterval = std::chrono::seconds(10);

  // Logs or counts an event. `timeout_ms` is the session's timeout; 0: not known.
  void Note(Event event, tree::SessionId session, int32_t timeout_ms,
            std::chrono::steady_clock::time_point now);
  // Logs the events that were only counted, once the interval is over. Called periodically.
  void Tick(std::chrono::steady_clock::time_point now);

 private:
  static constexpr size_t kEvents = 3;

  std::optional<std::chrono::steady_clock::time_point> began_;  // none: no interval
  size_t lines_ = 0;
  std::array<uint64_t, kEvents> counted_{};  // events without a line, by kind
};

}  // namespace quorate::rpc
