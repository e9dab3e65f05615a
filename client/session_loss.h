// SPDX-License-Identifier: Apache-2.0

// The loss of a client's session, for recipes and tests.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "client/client.h"

namespace quorate::internal {

// Returns a status for which ErrorOf returns kSessionExpired.
absl::Status SessionLostError(const std::string& message);

// Returns whether `status` is that of a session that was lost, and the client has another one or is
// creating it.
inline bool IsSessionReplaced(const Client& client, const absl::Status& status) {
  if (ErrorOf(status) != ErrorCode::kSessionExpired) return false;
  const Client::State state = client.state();
  return state != Client::State::kLost && state != Client::State::kClosed;
}

// Returns the id and the password of the session, by which a test can attach to it and close it.
std::pair<int64_t, std::string> SessionKeyOf(Client* client);

}  // namespace quorate::internal
