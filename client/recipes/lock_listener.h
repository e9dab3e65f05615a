// From the events of a znode to those of the lock that is held by it.
//
// Thread-safety: a function without state.
#pragma once

#include <memory>

#include "client/recipes/listener.h"
#include "client/recipes/lock.h"
#include "client/recipes/lock_node.h"

namespace quorate::internal {

// Tells the listener what happens while the lock is held, and nothing of the wait before.
LockNode::Handler HandlerFor(std::shared_ptr<Listener<LockEvent>> listener);

}  // namespace quorate::internal
