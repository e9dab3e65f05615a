// SPDX-License-Identifier: Apache-2.0

// The interface of an event loop in which the node thread waits, so that it handles other events
// besides those in its own queue.
//
// Thread-safety: each function says from which thread it is called. Two threads may be the node thread
// in turns (node.h); what one of them has done happens before what the other does.
#pragma once

#include <chrono>

namespace quorate::consensus {

// Implemented by the owner of the sockets to the other members. The node thread waits for these
// sockets in HandleEvents, so that a message from a member wakes only the thread that steps it.
class EventLoop {
 public:
  virtual ~EventLoop() = default;
  // Handles some of the pending events. If there are none, waits for an event, for Wake, or until
  // `deadline`. Called on the node thread.
  virtual void HandleEvents(std::chrono::steady_clock::time_point deadline) = 0;
  // Makes the HandleEvents call that waits now, or else the next one, return at once. May be called
  // from any thread.
  virtual void Wake() = 0;
  // Called by the thread that stops the node, after the last HandleEvents has returned. The node's
  // other threads may still be finishing their work.
  virtual void End() = 0;
};

}  // namespace quorate::consensus
