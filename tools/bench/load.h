// One workload at one cluster, over either front end: what the course of a measurement (run.h)
// drives.
//
// Thread-safety: one thread; it works only while one of its functions is running.
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
  // Makes the nodes and opens the sessions.
  virtual absl::Status Prepare() = 0;

  // Whether Slice::RecordPause is kept up.
  virtual bool sees_pauses() const = 0;

  // Works and records into `*slice` from now on, which lives until Next or Stop has returned and
  // has its begin already, its end before one of them.
  virtual void Start(Slice* slice) = 0;
  // Goes on without a pause, and records into another one.
  virtual void Next(Slice* slice) = 0;
  // Works until then, or until there is nothing left to do.
  virtual void WorkUntil(int64_t deadline_ns) = 0;
  // Begins nothing new and waits for what is under way. Unavailable if that is not answered in
  // time.
  virtual absl::Status Stop() = 0;
  virtual bool is_exhausted() const = 0;
  // Begins nothing new and records nowhere from now on, whatever is under way.
  virtual void Detach() = 0;

  // Closes the sessions and removes the nodes, unless they are to be kept.
  virtual absl::Status Finish() = 0;
};

// `name` is a workload. `options`, `cluster` and `servers` (which are cluster.servers) must outlive
// it, `*engine` too, whose connections go on while it works.
std::unique_ptr<Load> MakeWireLoad(const std::string& name, const Options& options,
                                   const std::vector<Endpoint>& servers, Engine* engine);
// Unimplemented if there is no such workload over gRPC.
absl::StatusOr<std::unique_ptr<Load>> MakeNativeLoad(const std::string& name,
                                                     const Options& options,
                                                     const ClusterOptions& cluster, Engine* engine);

// For what is under way at the end of a slice.
inline constexpr int64_t kDrainTimeoutNs = 20 * kNsInSecond;

}  // namespace quorate::tools::bench
