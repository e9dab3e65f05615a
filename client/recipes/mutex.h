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
// is larger each time that any client acquires the lock. For data in the same cluster, Guard makes a
// transaction that is committed only while the lock is held.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/recipes/held_lock.h"
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
  // Does the same, and returns CANCELLED as soon as `stop` is requested: no place in line is left. A
  // lock that was acquired before the request stays held.
  absl::Status Acquire(const std::stop_token& stop, int deadline_ms = 0);
  // Begins to wait for the lock without blocking. The outcome is a lock that is held by an object,
  // not by a thread: it is not reentrant, and is released by that object only. The wait ends with
  // CANCELLED as soon as `stop` is requested or the call is cancelled, and otherwise as that of
  // Acquire. options.listener gets the events of the lock.
  Call<HeldLock> AsyncAcquire(const std::stop_token& stop = {}, int deadline_ms = 0);

  // The functions of std::unique_lock and std::lock_guard. A lost session does not end lock and
  // try_lock_for: they wait in the next one. Other errors of Acquire are thrown as std::system_error
  // with errc::no_lock_available, and errc::resource_deadlock_would_occur on the callback thread.
  // `unlock` waits as Release does, and never throws; whether the lock was lost is known from the listener, FencingToken and
  // Guard.
  void lock();
  bool try_lock();
  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& duration) {
    return try_lock_until(std::chrono::steady_clock::now() +
                          std::chrono::ceil<std::chrono::milliseconds>(duration));
  }
  bool try_lock_until(std::chrono::steady_clock::time_point deadline);
  void unlock();

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
  // Appends the condition that the calling thread still holds the lock to `transaction`. A
  // transaction that is committed after the loss of the lock fails with NO_NODE, and changes nothing.
  // Errors are those of FencingToken.
  absl::Status Guard(Transaction* transaction) const;

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
  internal::LockNode::Options NodeOptions() const;
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
