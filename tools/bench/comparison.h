// Two clusters beside each other: who has which slice of time, and what the ratios say.
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>
#include <vector>

#include "tools/bench/slice.h"

namespace quorate::tools::bench {

enum class Side { kServers = 0, kCompared = 1 };

// Whose turn slice number `slice` is, from 0: A B B A A B B A ... Slices 2i and 2i + 1 are a pair
// with one of each; what gets slowly better or worse on the machine hits both sides alike, since
// each is as often first as second.
Side SideOf(size_t slice);

// How far a value and most of the others lie apart: `quartile1` to `quartile3` is the middle half.
struct Spread {
  double median = 0;
  double quartile1 = 0;
  double quartile3 = 0;
  size_t count = 0;  // 0: there is nothing, and the others mean nothing
};
// Between two values, it is the share of the way from one to the other.
Spread SpreadOf(std::vector<double> values);

// The ratios of the servers to those they are compared with, one for each pair of slices in which
// both are known and the divisor is not 0. Above 1: the servers have more of it.
struct Ratios {
  Spread operations_per_second;
  Spread p50;
  Spread p99;
  Spread p999;
  Spread server_cpu;
};
Ratios Compare(const std::vector<SliceFigures>& servers, const std::vector<SliceFigures>& compared);

}  // namespace quorate::tools::bench
