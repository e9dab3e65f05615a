// What a node's thread can wait with, beside its own queue.
//
// Thread-safety: each function says from which thread it is called.
#pragma once

#include <chrono>

namespace quorate::consensus {

// What the node thread waits with: a server's sockets to the other members, so that a message from
// there wakes no thread but the one that steps it.
class EventLoop {
 public:
  virtual ~EventLoop() = default;
  // On the node thread: handles some of the events that are there. If there are none, waits for
  // one, for Wake, or until `deadline`.
  virtual void HandleEvents(std::chrono::steady_clock::time_point deadline) = 0;
  // From any thread: the HandleEvents that waits now, or else the next, comes back at once.
  virtual void Wake() = 0;
  // From the thread that stops the node: the last HandleEvents is over. Other threads may still
  // finish what they have to do.
  virtual void End() = 0;
};

}  // namespace quorate::consensus
