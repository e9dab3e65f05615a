// SPDX-License-Identifier: Apache-2.0

// A lock that belongs to no thread: any thread of the process may release it. It is not reentrant.
//
//   quorate::SemaphoreMutex mutex(client.get(), "/locks/report");
//   if (absl::Status s = mutex.Acquire(10'000); !s.ok()) return s;
//   // ... on any thread:
//   absl::Status released = mutex.Release();
//
// A semaphore with one lease (semaphore.h), with its layout, order and errors; that of Curator's
// InterProcessSemaphoreMutex, with which it can share a path. A thread that acquires it twice waits
// for itself, until its deadline.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "client/client.h"
#include "client/recipes/lock.h"
#include "client/recipes/semaphore.h"

namespace quorate {

// Thread-safety: all functions may be called from any thread. The client must outlive this object.
class SemaphoreMutex final : public InterProcessLock {
 public:
  SemaphoreMutex(Client* client, std::string path, LockOptions options = {})
      : path_(std::move(path)), semaphore_(client, path_, 1, std::move(options)) {}
  // Releases the lock, if it is held, without waiting.
  ~SemaphoreMutex() override = default;

  // Blocks until this object holds the lock. ABORTED: it has lost the lock, and nobody has called
  // Release since.
  absl::Status Acquire(int deadline_ms = 0) override;
  // Releases the lock, whichever thread has acquired it.
  absl::Status Release(int deadline_ms = 0) override;
  bool IsAcquiredInThisProcess() const override;

 private:
  const std::string path_;
  Semaphore semaphore_;
  mutable std::mutex mutex_;
  std::optional<Lease> lease_;  // guarded by mutex_; until Release, also if it was lost
};

}  // namespace quorate
