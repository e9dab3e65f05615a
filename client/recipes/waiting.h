// What recipes that wait have in common: a deadline, and waiting for a change of what is watched.
//
// Thread-safety: WaitDeadline is a value; WaitUntil may be called from any thread but that of
// callbacks, and keeps no thread of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace quorate::internal {

// `deadline_ms` of all recipes: how long to wait for others. 0 or less: as long as it takes, or the
// session lives.
class WaitDeadline {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WaitDeadline(int deadline_ms);

  int deadline_ms() const { return deadline_ms_; }
  // Nothing, if there is no end.
  std::optional<Clock::time_point> end() const { return end_; }
  // Whichever of the two is earlier.
  WaitDeadline OrEarlier(Clock::time_point other) const;
  bool is_over() const { return end_.has_value() && Clock::now() >= *end_; }
  // For the options of a read: it is given up when the time is over, and not before, whatever the
  // client's own deadline is. Writes are not given up, for they would end in doubt.
  int ReadDeadlineMs() const;

 private:
  int deadline_ms_;
  std::optional<Clock::time_point> end_;
};

// Whether what is waited for is there; it reads by calls of the client.
using Condition = std::function<absl::StatusOr<bool>()>;

// OK once `condition` says true. It is asked now, and after each change of what is watched, at
// least once. DEADLINE_EXCEEDED, with `what` ("the barrier at /a to open"): it did not within the
// time. Errors of the condition and of the watch as they are; UNAUTHENTICATED at once when the
// session ends.
absl::Status WaitUntil(Client* client, std::string_view path, WatchScope scope,
                       const WaitDeadline& deadline, std::string_view what,
                       const Condition& condition);

// After a change that failed `attempts` times because others were faster: sleeps for a random time,
// of which the longest doubles with each attempt, up to 64 ms. Not at all after the first ones.
void PauseAfterConflict(int attempts);

// The path of the parent; nothing for the root and what is right below it.
std::optional<std::string> ParentOf(std::string_view path);

// Nothing, if `digits` is not all of a number.
std::optional<int64_t> ParseNumber(std::string_view digits, int base = 10);

// Creates `path`, persistent, with what is missing above it. OK if it is there already.
absl::Status EnsureZnode(Client* client, std::string_view path);

}  // namespace quorate::internal
