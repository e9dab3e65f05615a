// The interface of an event loop in which the node thread waits, so that it handles other events
// besides those in its own queue.
//
// Thread-safety: each function says from which thread it is called.
#pragma once

#include <chrono>

namespace quorate::consensus {

// Implemented by the owner of the sockets to the other members. The node thread waits for these
// sockets in HandleEvents, so that a message from a member wakes only the thread that steps it.
class EventLoop {
 public:
  virtual ~EventLoop() = default;
  // On the node thread: handles some of the pending events. If there are none, waits for an event,
  // for Wake, or until `deadline`.
  virtual void HandleEvents(std::chrono::steady_clock::time_point deadline) = 0;
  // From any thread: makes the HandleEvents that waits now, or else the next one, return at once.
  virtual void Wake() = 0;
  // From the thread that stops the node, after the last HandleEvents has returned. The node's other
  // threads may still be finishing their work.
  virtual void End() = 0;
};

}  // namespace quorate::consensus
