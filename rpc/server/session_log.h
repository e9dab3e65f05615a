// Says in the program's log which sessions come and go, and not more often than somebody can read:
// what is too much is counted, and said in one line.
//
// Thread-safety: none inside.
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

  // In each interval that begins with a line, at most so many lines.
  static constexpr size_t kLinesMax = 20;
  static constexpr auto kInterval = std::chrono::seconds(10);

  // `timeout_ms`: of the session; 0: not known.
  void Note(Event event, tree::SessionId session, int32_t timeout_ms,
            std::chrono::steady_clock::time_point now);
  // To be called now and then: says what was only counted, once the interval is over.
  void Tick(std::chrono::steady_clock::time_point now);

 private:
  static constexpr size_t kEvents = 3;

  std::optional<std::chrono::steady_clock::time_point> began_;  // none: no interval
  size_t lines_ = 0;
  std::array<uint64_t, kEvents> counted_{};  // without a line, by event
};

}  // namespace quorate::rpc
