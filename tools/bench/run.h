// SPDX-License-Identifier: Apache-2.0

// Runs a measurement.
//
// Thread-safety: none.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/comparison.h"
#include "tools/bench/options.h"
#include "tools/bench/slice.h"

namespace quorate::tools::bench {

// The properties of a cluster.
struct ClusterFacts {
  std::string label;
  std::string servers;
  bool native = false;
  bool tls = false;
  size_t members = 0;
  std::string version;  // as the four-letter word srvr reports it; may be empty
  // Whether the processor time of its servers is known.
  bool has_processes = false;
};

struct WorkloadResult {
  std::string name;
  // The measurement of each cluster.
  std::vector<Measurement> measurements;
  // Set if there are two clusters.
  std::optional<Ratios> ratios;
};

struct Results {
  std::string machine;
  std::vector<ClusterFacts> clusters;
  std::vector<WorkloadResult> workloads;
};

// Runs all workloads, one after the other; two clusters take turns in each workload. `show` is
// called from time to time with a line about the progress. Errors: InvalidArgument if the options
// are invalid, Unavailable if a cluster does not answer.
absl::StatusOr<Results> Run(const Options& options, std::function<void(const std::string&)> show);

}  // namespace quorate::tools::bench
