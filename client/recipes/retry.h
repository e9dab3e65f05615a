// SPDX-License-Identifier: Apache-2.0

// Repeats calls that the client refuses because too many are pending: such an overload is
// temporary, and must not end a recipe that lives as long as the session.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "client/client.h"
#include "client/no_waiting.h"
#include "client/timer.h"

namespace quorate::internal {

// Returns whether the client itself refused the call, because of too many pending ones.
inline bool IsRefusedByClient(const absl::Status& status) {
  return absl::IsResourceExhausted(status) && !ErrorOf(status).has_value();
}

// Returns how long to wait after that many refusals: 10 ms at first, half a second at most.
inline std::chrono::milliseconds PauseAfterRefusals(int refusals) {
  return std::min(std::chrono::milliseconds(10 << std::min(refusals, 6)),
                  std::chrono::milliseconds(500));
}

// Returns the call that `begin` makes. Does not block, whatever ClientOptions::when_full is.
template <class Begin>
auto CallWithoutWaiting(Begin begin) {
  const NoWaiting no_waiting;
  return begin();
}

// Calls `begin`, which returns a Call, and then `finish` with the outcome. If the client refuses
// the call and `is_wanted` returns true, calls `begin` again after a pause. The first `begin` runs
// on the calling thread; all else runs on the client's callback thread. Does not block, as
// CallWithoutWaiting.
template <class Begin, class Finish, class IsWanted>
void CallUntilTaken(Client* client, Begin begin, Finish finish, IsWanted is_wanted,
                    int refusals = 0) {
  auto call = CallWithoutWaiting([&] { return begin(); });
  call.Then([client, begin = std::move(begin), finish = std::move(finish),
             is_wanted = std::move(is_wanted), refusals](auto outcome) mutable {
    if (!IsRefusedByClient(outcome.status())) return finish(std::move(outcome));
    RunAfter(client, PauseAfterRefusals(refusals),
             [client, begin = std::move(begin), finish = std::move(finish),
              is_wanted = std::move(is_wanted), refusals, outcome = std::move(outcome)]() mutable {
               if (!is_wanted()) return finish(std::move(outcome));
               CallUntilTaken(client, std::move(begin), std::move(finish), std::move(is_wanted),
                              refusals + 1);
             });
  });
}

}  // namespace quorate::internal
