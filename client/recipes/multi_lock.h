// SPDX-License-Identifier: Apache-2.0

// Several locks as one, as Curator's InterProcessMultiLock: all of them are acquired, or none.
//
// The locks are acquired in the given order, and released in the opposite order. Two MultiLocks
// that share locks must have them in the same order; otherwise they can deadlock. If the session is
// lost, each lock behaves as lock.h says; Acquire in flight leaves none of them held.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "client/recipes/lock.h"

namespace quorate {

// Thread-safety: that of its locks, which must outlive this object.
class MultiLock final : public InterProcessLock {
 public:
  // REQUIRES: `locks` is not empty, and no element is null.
  explicit MultiLock(std::vector<InterProcessLock*> locks);

  // `deadline_ms` is for all locks together. If a lock cannot be acquired, releases those before it
  // and returns its error.
  absl::Status Acquire(int deadline_ms = 0) override;
  // Releases all locks, also after an error, and returns the first error. `deadline_ms` is for all
  // locks together.
  absl::Status Release(int deadline_ms = 0) override;
  // Returns whether all of the locks are acquired in this process.
  bool IsAcquiredInThisProcess() const override;

 private:
  // Releases the first `count` locks, in opposite order.
  absl::Status ReleaseFirst(size_t count, int deadline_ms);

  const std::vector<InterProcessLock*> locks_;
};

}  // namespace quorate
