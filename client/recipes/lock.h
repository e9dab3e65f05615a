// SPDX-License-Identifier: Apache-2.0

// The common interface of the locks in this folder.
//
// A lock belongs to the session in which it was acquired. If the session is lost, the listener gets
// kLost, in most cases after kSuspended, and the holder has to call Release, which returns ABORTED.
// Calls of Acquire that are waiting return UNAUTHENTICATED (kSessionExpired). After that the lock can
// be acquired again, in the session by which the client has replaced the lost one; a call that
// begins before there is one waits for it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "client/client.h"

namespace quorate {

// An event of a lock that is held.
struct LockEvent {
  // What has happened to the lock.
  enum class Type {
    kAcquired,
    kSuspended,  // no member serves: the lock may be lost at any time before kLost reports it
    kResumed,    // a member serves again, and the lock was kept
    kRevoked,    // a client asks the holder to release the lock (RequestRevocation)
    kLost,       // others may have it: the session was lost, or another client deleted the znode
    kReleased,   // the znode is deleted after Release
  };
  Type type{};
  // The path of the holder's znode.
  std::string node{};
  int64_t fencing_token = 0;
  // Set for kSuspended and kLost.
  absl::Status reason{};
};

// What a holder's znode shows, and who hears of its lock.
struct LockOptions {
  // Data of the znode, which shows people and tools which client holds the lock.
  std::string data{};
  // Called on the client's callback thread, in the order of the events. It must not block; blocking
  // functions of recipes return FAILED_PRECONDITION there. Never called after the lock's destructor
  // has returned.
  std::function<void(const LockEvent&)> listener{};
};

// Thread-safety: all functions may be called from any thread.
class InterProcessLock {
 public:
  virtual ~InterProcessLock() = default;

  // Blocks until the calling thread has the lock, at most `deadline_ms`; 0: without a deadline.
  // Each success needs its own Release.
  //   DEADLINE_EXCEEDED    the place in line is given up, and its znode is deleted
  //   ABORTED              another client deleted the znode while this thread waited, or this
  //                        thread has lost the lock, and has not released it yet
  //   FAILED_PRECONDITION  the calling thread is the callback thread
  //   UNAUTHENTICATED      the session was lost meanwhile: no place in line is left, and the lock can
  //                        be acquired again, unless the client has no session any more
  //   any other            an error of Client
  virtual absl::Status Acquire(int deadline_ms = 0) = 0;

  // Releases the lock, and blocks until others can have it, at most `deadline_ms`; 0: without a
  // deadline. With any status except FAILED_PRECONDITION, the calling thread no longer holds the
  // lock.
  //   ABORTED              the lock was lost before: others may have had it while this thread
  //                        believed to have it
  //   DEADLINE_EXCEEDED    no member answered; the lock is released as soon as one does
  //   FAILED_PRECONDITION  this thread does not hold the lock, or is the callback thread
  virtual absl::Status Release(int deadline_ms = 0) = 0;

  // Returns whether any thread of this process holds the lock through this object, as far as is
  // known locally; also true between kSuspended and kResumed or kLost.
  virtual bool IsAcquiredInThisProcess() const = 0;
};

// Asks the holder of a lock, whose znode is `node`, to release it: writes "__REVOKE__" into the
// znode, as Curator's Revoker does. The holder need not comply. NO_NODE: the znode does not exist
// any more, so its lock was released or lost.
absl::Status RequestRevocation(Client* client, const std::string& node, CallOptions options = {});

}  // namespace quorate
