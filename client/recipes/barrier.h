// SPDX-License-Identifier: Apache-2.0

// A gate: while it is closed, callers of Wait block.
//
// Layout: the gate is closed while there is a znode at `path`. Interoperates with Curator's
// DistributedBarrier.
//
// Each waiter gets one event, when the znode is deleted. The gate stays closed when the session of
// the client that closed it ends. If the session of a waiter is lost, Wait returns UNAUTHENTICATED
// (kSessionExpired), and can be called again at once; so can Close and Open, which may be repeated.
//
// Thread-safety: all functions may be called from any thread except the callback thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"

namespace quorate {

// A gate that is closed while its znode exists.
class Barrier {
 public:
  // REQUIRES: `client` outlives this object.
  Barrier(Client* client, std::string path) : client_(client), path_(std::move(path)) {}

  // Closes the gate. Does nothing if it is closed already.
  absl::Status Close();

  // Opens the gate. Does nothing if it is open already.
  absl::Status Open();

  // Blocks until the gate is open. DEADLINE_EXCEEDED after `deadline_ms`; 0: without a deadline.
  // Returns OK even if the gate was opened and closed again during the call: the gate was open at
  // some time during the call, not necessarily at its end.
  absl::Status Wait(int deadline_ms = 0);

 private:
  Client* const client_;
  const std::string path_;
};

}  // namespace quorate
