// SPDX-License-Identifier: Apache-2.0

// A semaphore: a fixed number of leases, each of which one client can hold at a time.
//
//   quorate::Semaphore semaphore(client.get(), "/semaphores/uploads", 5);
//   absl::StatusOr<quorate::Lease> lease = semaphore.Acquire(10'000);
//   // until `lease` is returned or destroyed, or the session is lost
//
// Layout, that of Curator's InterProcessSemaphoreV2, with which it can share a path:
//   PATH/locks                                   a lock as in mutex.h: its holder may take leases
//   PATH/leases/_c_<uuid>-lease-<10 digits>      ephemeral sequential, one for each lease
// The holder of the lock PATH/locks creates its lease's znode, and has the lease as soon as fewer
// znodes than the number of leases are before it. So waiters are served in order, and a returned
// lease wakes one of them. All users of a path must agree on the number of leases.
//
// If the session is lost, all leases are lost with it: the listener gets kLost for each, and others
// can have them. Acquire in flight returns UNAUTHENTICATED. The semaphore can be used again at once:
// leases that are acquired after that belong to the session that replaces the lost one.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/recipes/listener.h"
#include "client/recipes/lock.h"
#include "client/recipes/lock_node.h"

namespace quorate {

// A lease of a semaphore. Movable. The destructor returns the lease without waiting.
class Lease {
 public:
  explicit Lease(std::shared_ptr<internal::LockNode> node) : node_(std::move(node)) {}
  ~Lease() {
    if (node_ != nullptr) node_->Release();
  }
  Lease(Lease&&) noexcept = default;
  // Returns the lease that this object held, without waiting.
  Lease& operator=(Lease&& other) noexcept {
    const std::shared_ptr<internal::LockNode> old =
        std::exchange(node_, std::exchange(other.node_, nullptr));
    if (old != nullptr && old != node_) old->Release();
    return *this;
  }

  // Returns the lease, and blocks until others can have it, at most `deadline_ms`; 0: without a
  // deadline. Errors are those of InterProcessLock::Release; FAILED_PRECONDITION: the lease was
  // returned or moved.
  absl::Status Return(int deadline_ms = 0);
  // Returns whether the lease is held, as far as is known locally.
  bool is_held() const { return node_ != nullptr && node_->has_turn(); }
  // Returns the path of the lease's znode; empty if the lease was returned or moved.
  std::string node() const { return node_ == nullptr ? "" : node_->path(); }

 private:
  std::shared_ptr<internal::LockNode> node_;
};

// Thread-safety: all functions may be called from any thread; a thread may have any number of
// leases. The client must outlive this object and its leases.
class Semaphore {
 public:
  // options.listener gets the events of all leases. REQUIRES: leases > 0.
  Semaphore(Client* client, std::string path, int leases, LockOptions options = {});
  // Leases that were acquired stay held.
  ~Semaphore();
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  // Blocks until a lease is acquired, at most `deadline_ms`; 0: without a deadline. Errors are
  // those of InterProcessLock::Acquire; after an error no znode is left.
  absl::StatusOr<Lease> Acquire(int deadline_ms = 0);
  // Acquires `count` leases, or none. A caller that waits for many leases makes all callers behind
  // it wait. REQUIRES: count > 0. INVALID_ARGUMENT: the semaphore has fewer leases than `count`.
  absl::StatusOr<std::vector<Lease>> AcquireMany(int count, int deadline_ms = 0);

  // Returns the paths of the leases' znodes, in the order of their creation: those of held leases,
  // then that of a lease that a caller waits for, if there is one.
  absl::StatusOr<std::vector<std::string>> ParticipantNodes(ReadOptions options = {});

 private:
  Client* const client_;
  const std::string path_;
  const int leases_;
  const std::string data_;
  const std::shared_ptr<internal::Listener<LockEvent>> listener_;
};

}  // namespace quorate
