// SPDX-License-Identifier: Apache-2.0

// An Env that forwards to another one and measures how long syncs of files take.
//
// Thread-safety: as Env.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "consensus/log/forwarding_env.h"
#include "rpc/frontend/service.h"

namespace quorate::rpc {

class MeasuredEnv final : public consensus::ForwardingEnv {
 public:
  // `env` and `clock` must outlive the object, and the object must outlive its files.
  MeasuredEnv(consensus::Env* env, const Clock* clock) : ForwardingEnv(env), clock_(*clock) {}

  // Returns the times of all syncs of files so far. From any thread.
  TimeSummary sync_times() const;
  void AddSync(std::chrono::steady_clock::duration time);
  const Clock& clock() const { return clock_; }

  absl::StatusOr<std::unique_ptr<consensus::File>> OpenFile(const std::string& path,
                                                            bool create) override;

 private:
  const Clock& clock_;
  mutable Mutex mutex_;
  TimeSummary sync_times_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate::rpc
