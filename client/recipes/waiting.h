// SPDX-License-Identifier: Apache-2.0

// Shared by recipes that block: a deadline, and waiting for a condition on watched znodes.
//
// Thread-safety: WaitDeadline is a plain value; all functions may be called from any thread except
// the callback thread.
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

// The `deadline_ms` of all recipes: how long to wait for other clients. 0 or less: without a
// deadline, until the wait or the session ends.
class WaitDeadline {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WaitDeadline(int deadline_ms);

  int deadline_ms() const { return deadline_ms_; }
  // Returns the time of the deadline; nothing if there is none.
  std::optional<Clock::time_point> end() const { return end_; }
  // Returns this deadline, or one at `other` if that is earlier.
  WaitDeadline OrEarlier(Clock::time_point other) const;
  bool is_over() const { return end_.has_value() && Clock::now() >= *end_; }
  // Returns the deadline_ms for a read, so that the read ends with this deadline and not with the
  // default deadline of the client. It must not be used for writes, because the outcome of a write
  // that misses its deadline is unknown.
  int ReadDeadlineMs() const;

 private:
  int deadline_ms_;
  std::optional<Clock::time_point> end_;
};

// Returns whether the wait is over; may use blocking calls of the client.
using Condition = std::function<absl::StatusOr<bool>()>;

// Blocks until `condition` returns true. Evaluates it at once, and again after each change that a
// watch on `path` with `scope` reports. DEADLINE_EXCEEDED: the deadline has passed; `what` ("the
// barrier at /a to open") goes into the message. Returns errors of the condition and of the watch
// unchanged, and UNAUTHENTICATED as soon as the session ends, also if the client replaces it.
//
// If `session_id` is not 0, it is the session to which the caller's ephemeral znode belongs: returns
// UNAUTHENTICATED if that session is not the client's any more, even if the condition is true.
absl::Status WaitUntil(Client* client, std::string_view path, WatchScope scope,
                       const WaitDeadline& deadline, std::string_view what,
                       const Condition& condition, int64_t session_id = 0);

// Called after a change has failed `attempts` times because of changes by other clients. Does
// nothing after the first two attempts; then sleeps for a random time, whose maximum doubles with
// each attempt, up to 64 ms.
void PauseAfterConflict(int attempts);

// Returns the path of the parent; nothing for the root and its children.
std::optional<std::string> ParentOf(std::string_view path);

// Returns the number; nothing if `digits` as a whole is not a number.
std::optional<int64_t> ParseNumber(std::string_view digits, int base = 10);

// Creates a persistent znode at `path`, with missing ancestors. OK if it exists already.
absl::Status EnsureZnode(Client* client, std::string_view path);

}  // namespace quorate::internal
