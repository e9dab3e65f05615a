// A semaphore: a number of leases, each of which somebody has at a time.
//
//   quorate::Semaphore semaphore(client.get(), "/semaphores/uploads", 5);
//   absl::StatusOr<quorate::Lease> lease = semaphore.Acquire(10'000);
//   // until `lease` is returned or destroyed, or the session ends
//
// Layout, that of Curator's InterProcessSemaphoreV2, with which it can share a path:
//   PATH/locks                                   a lock as in mutex.h: who has it may take leases
//   PATH/leases/_c_<uuid>-lease-<10 digits>      ephemeral sequential, one for each lease
// Who is at the head of PATH/locks creates its lease's znode, and has the lease as soon as there
// are not too many before it. So those who wait are served in their order, and a lease that is
// returned wakes one of them. All who use a path must agree on the number of leases.
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

// Movable. The destructor returns it without waiting.
class Lease {
 public:
  explicit Lease(std::shared_ptr<internal::LockNode> node) : node_(std::move(node)) {}
  ~Lease() {
    if (node_ != nullptr) node_->Release();
  }
  Lease(Lease&&) noexcept = default;
  // Returns the one that this had, without waiting.
  Lease& operator=(Lease&& other) noexcept {
    const std::shared_ptr<internal::LockNode> old =
        std::exchange(node_, std::exchange(other.node_, nullptr));
    if (old != nullptr && old != node_) old->Release();
    return *this;
  }

  // Blocks until others can have it, `deadline_ms` at most; 0: without a deadline. Errors as of
  // InterProcessLock::Release; FAILED_PRECONDITION: it was returned or moved.
  absl::Status Return(int deadline_ms = 0);
  // Whether it is held, as far as is known here.
  bool is_held() const { return node_ != nullptr && node_->has_turn(); }
  // The path of its znode; empty, if it was returned or moved.
  std::string node() const { return node_ == nullptr ? "" : node_->path(); }

 private:
  std::shared_ptr<internal::LockNode> node_;
};

// Thread-safety: all functions from any thread; a thread may have any number of leases. The
// client must live longer than it and its leases.
class Semaphore {
 public:
  // Events of its leases are told to options.listener. REQUIRES: leases > 0.
  Semaphore(Client* client, std::string path, int leases, LockOptions options = {});
  // Leases that were given out stay.
  ~Semaphore();
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  // Errors as of InterProcessLock::Acquire; nothing is left behind.
  absl::StatusOr<Lease> Acquire(int deadline_ms = 0);
  // All of them or none; who waits for many keeps those behind it waiting. REQUIRES: count > 0.
  // INVALID_ARGUMENT: there are not so many.
  absl::StatusOr<std::vector<Lease>> AcquireMany(int count, int deadline_ms = 0);

  // The paths of the leases' znodes, in the order of their creation: of those that are held, and
  // behind them of one that is waited for.
  absl::StatusOr<std::vector<std::string>> ParticipantNodes(ReadOptions options = {});

 private:
  Client* const client_;
  const std::string path_;
  const int leases_;
  const std::string data_;
  const std::shared_ptr<internal::Listener<LockEvent>> listener_;
};

}  // namespace quorate
