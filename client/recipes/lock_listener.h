// SPDX-License-Identifier: Apache-2.0

// Translates the events of a LockNode into those of its lock.
//
// Thread-safety: a function without state.
#pragma once

#include <memory>

#include "client/recipes/listener.h"
#include "client/recipes/lock.h"
#include "client/recipes/lock_node.h"

namespace quorate::internal {

// Returns a handler that passes the events of a lock that is held to `listener`, and drops events
// of the wait before.
LockNode::Handler HandlerFor(std::shared_ptr<Listener<LockEvent>> listener);

}  // namespace quorate::internal
