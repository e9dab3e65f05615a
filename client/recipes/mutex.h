// A lock that one thread of one process has at a time, in the order in which they asked.
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
// A waiter watches the znode before its own, and nothing else is woken by a release.
//
// Reentrant: a thread that holds it may acquire it again, and releases it as often. Threads of one
// process are in line like those of others. What a thread held when it ended stays held until the
// InterProcessMutex is destroyed: no other thread can release it. It is called InterProcessMutex
// because a mutex is something else.
//
// A lock in a distributed system is kept only as long as its session. Who was stopped (SIGSTOP, a
// virtual machine that moves) may believe for a moment that he still has what others have got
// since: the listener hears kLost as soon as the client knows, which can be later. What must never
// be touched by two has to check the fencing token: it is larger each time that the lock is
// acquired by anybody.
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

// Thread-safety: all functions from any thread. The client must live longer.
class InterProcessMutex : public InterProcessLock {
 public:
  InterProcessMutex(Client* client, std::string path, LockOptions options = {});
  // Releases what is held, without waiting. REQUIRES: no thread is in a function.
  ~InterProcessMutex() override;
  InterProcessMutex(const InterProcessMutex&) = delete;
  InterProcessMutex& operator=(const InterProcessMutex&) = delete;

  absl::Status Acquire(int deadline_ms = 0) override;
  // Acquires it if nobody has it or waits for it: false, and nothing is left behind, if not. Blocks
  // for the servers' answer. Errors as of Acquire.
  absl::StatusOr<bool> TryAcquire(int deadline_ms = 0);
  absl::Status Release(int deadline_ms = 0) override;

  bool IsAcquiredInThisProcess() const override;
  // As far as is known here: also while the client is suspended (Client::state), when it may be lost
  // any time; the fencing token is what tells then.
  bool IsOwnedByThisThread() const;
  // The zxid of the creation of the calling thread's znode. FAILED_PRECONDITION: this thread does
  // not hold it. ABORTED: it was lost.
  absl::StatusOr<int64_t> FencingToken() const;

  // The paths of the znodes of all who have it or wait for it, in the order in which they get it.
  absl::StatusOr<std::vector<std::string>> ParticipantNodes(ReadOptions options = {});

 protected:
  // For the two sides of a read-write lock.
  struct Kind {
    std::string prefix;
    std::vector<std::string> prefixes;
    internal::LockNode::Decide decide;
  };
  InterProcessMutex(Client* client, std::string path, LockOptions options, Kind kind);

  // The calling thread's znode, if it holds the lock; of one that was lost, too.
  std::shared_ptr<internal::LockNode> NodeOfThisThread() const;
  // Called before the calling thread gets in line for the first time. An error keeps it out.
  virtual absl::Status Prepare(internal::LockNode::Options*) { return absl::OkStatus(); }

 private:
  struct Hold {
    std::shared_ptr<internal::LockNode> node;
    int count = 0;
  };

  // Acquires it once more, if this thread has it. Otherwise false.
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
