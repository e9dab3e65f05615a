// SPDX-License-Identifier: Apache-2.0

// One workload at one cluster, over the ZooKeeper or the gRPC front end. run.h runs it in a
// measurement.
//
// Thread-safety: one thread; the load works only while one of its functions is running.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/bench/engine.h"
#include "tools/bench/options.h"
#include "tools/bench/slice.h"

namespace quorate::tools::bench {

class Load {
 public:
  virtual ~Load() = default;

  virtual std::vector<std::string> series() const = 0;
  // Creates the znodes and opens the sessions.
  virtual absl::Status Prepare() = 0;

  // Returns whether the load records pauses with Slice::RecordPause.
  virtual bool sees_pauses() const = 0;

  // Begins to work and to record into `*slice`, which must live until Next or Stop has returned.
  // The slice has its begin already, and gets its end before one of these calls.
  virtual void Start(Slice* slice) = 0;
  // Continues without a pause, and records into another slice.
  virtual void Next(Slice* slice) = 0;
  // Works until `deadline_ns`, or until there is nothing left to do.
  virtual void WorkUntil(int64_t deadline_ns) = 0;
  // Starts nothing new and waits for the outstanding requests. Unavailable if they are not answered
  // in time.
  virtual absl::Status Stop() = 0;
  virtual bool is_exhausted() const = 0;
  // Starts nothing new and records no further answers.
  virtual void Detach() = 0;

  // Closes the sessions and removes the znodes, unless --keep is given.
  virtual absl::Status Finish() = 0;
};

// Returns the load of the workload `name`. `options`, `cluster`, `servers` (which are
// cluster.servers) and `*engine` must outlive the load; the engine's connections continue while the
// load works.
std::unique_ptr<Load> MakeWireLoad(const std::string& name, const Options& options,
                                   const std::vector<Endpoint>& servers, Engine* engine);
// Does the same over gRPC. Unimplemented if there is no such workload over gRPC.
absl::StatusOr<std::unique_ptr<Load>> MakeNativeLoad(const std::string& name,
                                                     const Options& options,
                                                     const ClusterOptions& cluster, Engine* engine);

// The time to wait at the end of a slice for outstanding requests.
inline constexpr int64_t kDrainTimeoutNs = 20 * kNsInSecond;

}  // namespace quorate::tools::bench
