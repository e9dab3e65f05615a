// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/multi_lock.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/assert.h"

namespace quorate {
namespace {

// The time left until a deadline; at least 1 ms, because 0 means no deadline.
class Left {
 public:
  explicit Left(int deadline_ms)
      : deadline_ms_(deadline_ms), begin_(std::chrono::steady_clock::now()) {}
  int ms() const {
    if (deadline_ms_ <= 0) return 0;
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin_);
    return static_cast<int>(std::max<int64_t>(deadline_ms_ - passed.count(), 1));
  }

 private:
  const int deadline_ms_;
  const std::chrono::steady_clock::time_point begin_;
};

}  // namespace

MultiLock::MultiLock(std::vector<InterProcessLock*> locks) : locks_(std::move(locks)) {
  ASSERT(!locks_.empty());
  for (const InterProcessLock* lock : locks_) ASSERT(lock != nullptr);
}

absl::Status MultiLock::Acquire(int deadline_ms) {
  const Left left(deadline_ms);
  for (size_t i = 0; i < locks_.size(); ++i) {
    if (absl::Status s = locks_[i]->Acquire(left.ms()); !s.ok()) {
      // The caller gets the error of Acquire instead.
      ReleaseFirst(i, left.ms()).IgnoreError();
      return s;
    }
  }
  return absl::OkStatus();
}

absl::Status MultiLock::Release(int deadline_ms) {
  return ReleaseFirst(locks_.size(), deadline_ms);
}

absl::Status MultiLock::ReleaseFirst(size_t count, int deadline_ms) {
  const Left left(deadline_ms);
  absl::Status first;
  for (size_t i = count; i > 0; --i) first.Update(locks_[i - 1]->Release(left.ms()));
  return first;
}

bool MultiLock::IsAcquiredInThisProcess() const {
  return std::all_of(locks_.begin(), locks_.end(),
                     [](const InterProcessLock* lock) { return lock->IsAcquiredInThisProcess(); });
}

}  // namespace quorate
