// SPDX-License-Identifier: Apache-2.0

// An Env that forwards to another one and measures how long syncs of files take.
//
// Thread-safety: as Env.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "consensus/log/env.h"
#include "rpc/frontend/service.h"

namespace quorate::rpc {

class MeasuredEnv final : public consensus::Env {
 public:
  // `env` and `clock` must outlive the object, and the object must outlive its files.
  MeasuredEnv(consensus::Env* env, const Clock* clock) : env_(*env), clock_(*clock) {}

  // Returns the times of all syncs of files so far. From any thread.
  TimeSummary sync_times() const;
  void AddSync(std::chrono::steady_clock::duration time);
  const Clock& clock() const { return clock_; }

  absl::StatusOr<std::unique_ptr<consensus::File>> OpenFile(const std::string& path,
                                                            bool create) override;
  absl::Status CreateDirectories(const std::string& path) override {
    return env_.CreateDirectories(path);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return env_.List(path);
  }
  bool Exists(const std::string& path) override { return env_.Exists(path); }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return env_.Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override { return env_.Remove(path); }
  absl::Status SyncDirectory(const std::string& path) override { return env_.SyncDirectory(path); }
  absl::StatusOr<std::unique_ptr<consensus::DirectoryLock>> LockDirectory(
      const std::string& path) override {
    return env_.LockDirectory(path);
  }

 private:
  consensus::Env& env_;
  const Clock& clock_;
  mutable Mutex mutex_;
  TimeSummary sync_times_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate::rpc
