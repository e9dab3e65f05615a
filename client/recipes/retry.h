// Calls that recipes repeat for as long as the client has too many of them pending: such a moment
// passes, and must not end what lives as long as the session.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "client/client.h"
#include "client/timer.h"

namespace quorate::internal {

// Whether the client itself refused the call, because of too many pending ones.
inline bool IsRefusedByClient(const absl::Status& status) {
  return absl::IsResourceExhausted(status) && !ErrorOf(status).has_value();
}

// How long to wait after so many refusals: 10 ms at first, half a second at most.
inline std::chrono::milliseconds PauseAfterRefusals(int refusals) {
  return std::min(std::chrono::milliseconds(10 << std::min(refusals, 6)),
                  std::chrono::milliseconds(500));
}

// Calls `begin`, which returns a Call, and `finish` with its outcome. As long as the client refuses
// it and `is_wanted` returns true, it is begun again after a pause. `finish` and `is_wanted` are
// called on the client's thread of callbacks, `begin` for the first time on the calling one.
template <class Begin, class Finish, class IsWanted>
void CallUntilTaken(Client* client, Begin begin, Finish finish, IsWanted is_wanted,
                    int refusals = 0) {
  auto call = begin();
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
