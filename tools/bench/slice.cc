// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/slice.h"

#include <algorithm>

namespace quorate::tools::bench {
namespace {

constexpr double kNsInUs = 1000;

}  // namespace

void Measurement::Add(const Slice& slice, double slice_seconds) {
  SliceFigures figures;
  const auto count = static_cast<double>(slice.operations);
  if (slice_seconds > 0) figures.operations_per_second = count / slice_seconds;
  if (slice.latencies.front().count() > 0) {
    const Histogram& first = slice.latencies.front();
    figures.p50_us = static_cast<double>(first.PercentileNs(0.5)) / kNsInUs;
    figures.p99_us = static_cast<double>(first.PercentileNs(0.99)) / kNsInUs;
    figures.p999_us = static_cast<double>(first.PercentileNs(0.999)) / kNsInUs;
  }
  if (slice.server_cpu_seconds.has_value() && slice.operations > 0) {
    figures.server_cpu_us = *slice.server_cpu_seconds * 1e6 / count;
  }
  slices.push_back(figures);

  for (size_t i = 0; i < latencies.size(); ++i) latencies[i].Merge(slice.latencies[i]);
  seconds += slice_seconds;
  operations += slice.operations;
  for (const auto& [what, times] : slice.errors) errors[what] += times;
  longest_pause_ns = std::max(longest_pause_ns, slice.longest_pause_ns);
  tool_cpu_seconds += slice.tool_cpu_seconds;
  if (server_cpu_seconds.has_value()) {
    if (slice.server_cpu_seconds.has_value()) {
      *server_cpu_seconds += *slice.server_cpu_seconds;
    } else {
      server_cpu_seconds.reset();
    }
  }
}

uint64_t Measurement::error_count() const {
  uint64_t count = 0;
  for (const auto& [what, times] : errors) count += times;
  return count;
}

}  // namespace quorate::tools::bench
