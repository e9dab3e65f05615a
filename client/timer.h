// SPDX-License-Identifier: Apache-2.0

// A timer of a client, for recipes that retry something later.
#pragma once

#include <chrono>

#include "absl/functional/any_invocable.h"
#include "client/client.h"

namespace quorate::internal {

// Runs `callback` on the client's callback thread after `delay`, or earlier if the client is
// destroyed before that. Does not block. Timers do not count as pending calls of the client.
void RunAfter(Client* client, std::chrono::milliseconds delay, absl::AnyInvocable<void()> callback);

}  // namespace quorate::internal
