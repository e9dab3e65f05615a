// SPDX-License-Identifier: Apache-2.0

// Compares two clusters: decides which of them works in which slice of time, and computes the
// ratios of their results.
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>
#include <vector>

#include "tools/bench/slice.h"

namespace quorate::tools::bench {

enum class Side { kServers = 0, kCompared = 1 };

// Returns the side that works in slice number `slice`, from 0: A B B A A B B A ... Slices 2i and 2i
// + 1 are a pair, with one slice of each side. Slow changes of the machine's speed affect both
// sides alike, because each side is as often first as second.
Side SideOf(size_t slice);

// The median of values and their middle half, from `quartile1` to `quartile3`.
struct Spread {
  double median = 0;
  double quartile1 = 0;
  double quartile3 = 0;
  size_t count = 0;  // 0: there are no values, and the other fields have no meaning
};
// Returns the spread of `values`. Quantiles between two values are interpolated linearly.
Spread SpreadOf(std::vector<double> values);

// The spreads of the ratios of the servers' values to those of the compared servers. There is one
// ratio for each pair of slices in which both values are known and the divisor is not 0. A ratio
// above 1 means that the servers have the greater value.
struct Ratios {
  Spread operations_per_second;
  Spread p50;
  Spread p99;
  Spread p999;
  Spread server_cpu;
};
Ratios Compare(const std::vector<SliceFigures>& servers, const std::vector<SliceFigures>& compared);

}  // namespace quorate::tools::bench
