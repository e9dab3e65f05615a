// What all locks of this folder have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "client/client.h"

namespace quorate {

// What becomes of a lock that is held.
struct LockEvent {
  enum class Type {
    kAcquired,
    kSuspended,  // no member serves: it may be lost any time, without another word until kLost
    kResumed,    // a member serves again, and the lock was kept
    kRevoked,    // somebody asks its holder to release it (RequestRevocation)
    kLost,       // others may have it: the session has ended, or somebody deleted the znode
    kReleased,   // its znode is gone
  };
  Type type{};
  // The path of the holder's znode.
  std::string node{};
  int64_t fencing_token = 0;
  // Of kSuspended and kLost.
  absl::Status reason{};
};

struct LockOptions {
  // Of the znode, for people and tools: who holds the lock.
  std::string data{};
  // Called on the client's thread of callbacks, in order: it must not block, and the recipes'
  // blocking functions refuse to be called there. Not called any more after the lock's destructor.
  std::function<void(const LockEvent&)> listener{};
};

// Thread-safety: all functions from any thread.
class InterProcessLock {
 public:
  virtual ~InterProcessLock() = default;

  // Blocks until the calling thread has the lock, `deadline_ms` at most; 0: without a deadline.
  // Each success needs its own Release.
  //   DEADLINE_EXCEEDED    nothing is left behind: the place in line is given up
  //   ABORTED              the znode was deleted by somebody else while it waited, or this
  //                        thread has lost the lock, and has not released it yet
  //   FAILED_PRECONDITION  this is the thread of callbacks
  //   any other            what the client says, UNAUTHENTICATED if the session has ended
  virtual absl::Status Acquire(int deadline_ms = 0) = 0;

  // Gives it back, and blocks until others can have it, `deadline_ms` at most; 0: without a
  // deadline. Whatever it says, the calling thread does not hold it any more (but see
  // FAILED_PRECONDITION).
  //   ABORTED              it was lost before: others may have had it while this thread thought
  //                        that it had it
  //   DEADLINE_EXCEEDED    no member answers; it is released as soon as one does
  //   FAILED_PRECONDITION  this thread does not hold it, or is the thread of callbacks
  virtual absl::Status Release(int deadline_ms = 0) = 0;

  // Whether any thread of this process holds it by this object, as far as is known here: also
  // between kSuspended and kResumed or kLost.
  virtual bool IsAcquiredInThisProcess() const = 0;
};

// Asks who holds a lock by the znode `node` to release it: writes "__REVOKE__" into it, as
// Curator's Revoker does. Nobody is forced. NO_NODE: nobody holds it any more.
absl::Status RequestRevocation(Client* client, const std::string& node, CallOptions options = {});

}  // namespace quorate
