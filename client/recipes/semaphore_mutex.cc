// SPDX-License-Identifier: Apache-2.0

#include "client/recipes/semaphore_mutex.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/recipes/lock_node.h"

namespace quorate {
namespace {

absl::Status Unreleased(const std::string& path) {
  return absl::AbortedError(
      absl::StrCat(path, ": the lock was lost while it was held; call Release before Acquire"));
}

}  // namespace

absl::Status SemaphoreMutex::Acquire(int deadline_ms) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (lease_.has_value() && !lease_->is_held()) return Unreleased(path_);
  }
  absl::StatusOr<Lease> lease = semaphore_.Acquire(deadline_ms);
  if (!lease.ok()) return lease.status();
  std::lock_guard<std::mutex> lock(mutex_);
  // Lost while this thread waited. The new lease is returned, so that nobody releases it by mistake.
  if (lease_.has_value()) return Unreleased(path_);
  lease_ = *std::move(lease);
  return absl::OkStatus();
}

absl::Status SemaphoreMutex::Release(int deadline_ms) {
  if (absl::Status s = internal::CallbackThread::CheckMayBlock(); !s.ok()) return s;
  std::optional<Lease> lease;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    lease.swap(lease_);
  }
  if (!lease.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": the lock is not held; acquire it first"));
  }
  return lease->Return(deadline_ms);
}

bool SemaphoreMutex::IsAcquiredInThisProcess() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return lease_.has_value() && lease_->is_held();
}

}  // namespace quorate
