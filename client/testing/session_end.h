// SPDX-License-Identifier: Apache-2.0

// Ends sessions of clients from the servers' side, for tests.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/client.h"

namespace quorate::testing {

// Closes the client's session over another stream to the server at `address`, as if the session had
// expired: its ephemeral znodes are deleted, and the client learns of it from its server. Returns
// when the session has ended. FAILED_PRECONDITION: the client has no session now. Errors of the
// stream: UNAUTHENTICATED if the session has ended meanwhile.
absl::Status EndSessionOf(Client* client, const std::string& address);

}  // namespace quorate::testing
