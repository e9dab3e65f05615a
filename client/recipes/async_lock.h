// SPDX-License-Identifier: Apache-2.0

// Waits for the turn of a LockNode without blocking a thread.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <stop_token>

#include "client/call.h"
#include "client/client.h"
#include "client/recipes/held_lock.h"
#include "client/recipes/lock_node.h"

namespace quorate::internal {

// Starts a LockNode with `options`, whose handler is called, too, and returns a call that ends with
// its turn. The call ends with CANCELLED when `stop` is requested or the call is cancelled, and with
// DEADLINE_EXCEEDED after `deadline_ms` (0 or less: without a deadline); the node is released then.
// Otherwise it ends with the status of the node. REQUIRES: `client` outlives the call and the lock.
Call<HeldLock> StartAsyncLock(Client* client, LockNode::Options options,
                              const std::stop_token& stop, int deadline_ms);

}  // namespace quorate::internal
