// SPDX-License-Identifier: Apache-2.0

// A lock that is held by an object, not by a thread, and writes that are made only while it is held.
//
//   absl::StatusOr<quorate::HeldLock> held = co_await mutex.AsyncAcquire(stop_token, 5'000);
//   quorate::Transaction transaction;
//   if (absl::Status s = held->Guard(&transaction); !s.ok()) return s;
//   client->Commit(transaction.Set("/orders", data));
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "client/transaction.h"

namespace quorate {

namespace internal {
class LockNode;
}

// Movable. The destructor releases the lock without waiting. A HeldLock is lost as lock.h says, also
// with its session.
//
// Thread-safety: one thread at a time. The client must outlive this object.
class HeldLock {
 public:
  // Made by the locks: `node` has its turn.
  explicit HeldLock(std::shared_ptr<internal::LockNode> node);
  ~HeldLock();
  HeldLock(HeldLock&& other) noexcept = default;
  // Releases the lock that this object held, without waiting.
  HeldLock& operator=(HeldLock&& other) noexcept;

  // Returns whether the lock is held, as far as is known locally.
  bool is_held() const;
  // Returns the fencing token (mutex.h); 0 if the lock was released or moved.
  int64_t fencing_token() const;
  // Returns the path of the holder's znode; empty if the lock was released or moved.
  std::string node() const;
  // Appends the condition that the lock is still held to `transaction`. A transaction that is
  // committed after the loss of the lock fails with NO_NODE, and changes nothing. ABORTED: the lock
  // was lost. FAILED_PRECONDITION: it was released or moved.
  absl::Status Guard(Transaction* transaction) const;
  // Releases the lock, and blocks until others can have it, at most `deadline_ms`; 0: without a
  // deadline. Errors are those of InterProcessLock::Release.
  absl::Status Release(int deadline_ms = 0);

 private:
  std::shared_ptr<internal::LockNode> node_;
};

}  // namespace quorate
