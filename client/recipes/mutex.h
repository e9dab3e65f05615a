// SPDX-License-Identifier: Apache-2.0

// A lock that one thread of one process has at a time. Threads get it in the order in which they
// asked for it.
//
//   quorate::InterProcessMutex mutex(client.get(), "/locks/orders");
//   if (absl::Status s = mutex.Acquire(5'000); !s.ok()) return s;
//   storage.Write(order, *mutex.FencingToken());   // refuses a token smaller than one it has seen
//   absl::Status released = mutex.Release();
//
// Layout, that of Curator's InterProcessMutex, with which it can share a path:
//   PATH                                  a container, created when it is needed
//   PATH/_c_<uuid>-lock-<10 digits>       ephemeral sequential, one for each thread that has the
//                                         lock or waits for it; the oldest has it
// A waiter watches the znode before its own, so that a release wakes only one waiter.
//
// Reentrant: a thread that holds the lock may acquire it again, and must release it as often.
// Threads of one process wait in line like those of other processes. If a thread ends without
// releasing the lock, the lock stays held until the InterProcessMutex is destroyed: no other thread
// can release it. The class is called InterProcessMutex, as in Curator, because a mutex is usually
// local to a process.
//
// A lock in a distributed system is held only while its session lives (lock.h). A process that stood still
// (SIGSTOP, a virtual machine that moves) may believe for a moment that it still holds a lock that
// another client has got since: the listener gets kLost as soon as the client knows, which can be
// later. A resource that two clients must never use at a time has to check the fencing token, which
// is larger each time that any client acquires the lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/recipes/listener.h"
#include "client/recipes/lock.h"
#include "client/recipes/lock_node.h"

namespace quorate {

// Thread-safety: all functions may be called from any thread. The client must outlive this object.
class InterProcessMutex : public InterProcessLock {
 public:
  InterProcessMutex(Client* client, std::string path, LockOptions options = {});
  // Releases the lock for all threads that hold it, without waiting. REQUIRES: no thread is inside
  // a function of this object.
  ~InterProcessMutex() override;
  InterProcessMutex(const InterProcessMutex&) = delete;
  InterProcessMutex& operator=(const InterProcessMutex&) = delete;

  absl::Status Acquire(int deadline_ms = 0) override;
  // Acquires the lock and returns true if no other thread has it or waits for it; otherwise returns
  // false, and keeps no place in line. Blocks only until the servers answer, at most `deadline_ms`.
  // Errors are those of Acquire.
  absl::StatusOr<bool> TryAcquire(int deadline_ms = 0);
  absl::Status Release(int deadline_ms = 0) override;

  bool IsAcquiredInThisProcess() const override;
  // Returns whether the calling thread holds the lock, as far as is known locally; also true while
  // the client is suspended (Client::state), when the lock may be lost at any time: rely on the
  // fencing token then.
  bool IsOwnedByThisThread() const;
  // Returns the zxid of the creation of the calling thread's znode. FAILED_PRECONDITION: this
  // thread does not hold the lock. ABORTED: the lock was lost.
  absl::StatusOr<int64_t> FencingToken() const;

  // Returns the paths of the znodes of the holder and of all waiters, in the order in which they
  // get the lock.
  absl::StatusOr<std::vector<std::string>> ParticipantNodes(ReadOptions options = {});

 protected:
  // The differences between a mutex and the two sides of a read-write lock.
  struct Kind {
    std::string prefix;
    std::vector<std::string> prefixes;
    internal::LockNode::Decide decide;
  };
  InterProcessMutex(Client* client, std::string path, LockOptions options, Kind kind);

  // Returns the calling thread's node, even if the lock was lost; null if it holds no lock.
  std::shared_ptr<internal::LockNode> NodeOfThisThread() const;
  // Called before a thread that does not hold the lock gets in line; may change the options. If it
  // returns an error, Acquire fails with that.
  virtual absl::Status Prepare(internal::LockNode::Options*) { return absl::OkStatus(); }

 private:
  struct Hold {
    std::shared_ptr<internal::LockNode> node;
    int count = 0;
  };

  // Increments the count and returns true if the calling thread holds the lock; otherwise returns
  // false.
  absl::StatusOr<bool> AcquireAgain();
  absl::StatusOr<std::shared_ptr<internal::LockNode>> StandInLine();
  void Keep(std::shared_ptr<internal::LockNode> node);
  absl::Status LostError(const internal::LockNode& node) const;

  Client* const client_;
  const std::string path_;
  const std::string data_;
  const Kind kind_;
  const std::shared_ptr<internal::Listener<LockEvent>> listener_;

  mutable std::mutex mutex_;
  std::map<uint64_t, Hold> holds_;  // by ThisThreadNumber
};

}  // namespace quorate
