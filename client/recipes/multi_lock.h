// Several locks as one, as Curator's InterProcessMultiLock: all of them are acquired, or none.
//
// They are acquired in the order in which they are given, and released in the opposite one. Two
// that share locks must have them in the same order, or they can wait for each other for ever.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "client/recipes/lock.h"

namespace quorate {

// Thread-safety: as of its locks, which must live longer.
class MultiLock final : public InterProcessLock {
 public:
  // REQUIRES: there is one, and none is null.
  explicit MultiLock(std::vector<InterProcessLock*> locks);

  // `deadline_ms` is for all of them together. If one cannot be acquired, its error; those before
  // it are released again.
  absl::Status Acquire(int deadline_ms = 0) override;
  // Releases all, whatever happens; the first error. `deadline_ms` is for all of them together.
  absl::Status Release(int deadline_ms = 0) override;
  // Whether all of them are.
  bool IsAcquiredInThisProcess() const override;

 private:
  // The first `count` of them, the last one first.
  absl::Status ReleaseFirst(size_t count, int deadline_ms);

  const std::vector<InterProcessLock*> locks_;
};

}  // namespace quorate
