// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/comparison.h"

#include <algorithm>
#include <cmath>

namespace quorate::tools::bench {
namespace {

// REQUIRES: `sorted` is not empty.
double Quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(place));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - static_cast<double>(below));
}

Spread RatioOf(const std::vector<SliceFigures>& servers, const std::vector<SliceFigures>& compared,
               double SliceFigures::*figure) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(servers.size(), compared.size()); ++i) {
    const double dividend = servers[i].*figure;
    const double divisor = compared[i].*figure;
    if (dividend >= 0 && divisor > 0) ratios.push_back(dividend / divisor);
  }
  return SpreadOf(std::move(ratios));
}

}  // namespace

Side SideOf(size_t slice) {
  const size_t place = slice % 4;
  return place == 0 || place == 3 ? Side::kServers : Side::kCompared;
}

Spread SpreadOf(std::vector<double> values) {
  Spread spread;
  spread.count = values.size();
  if (values.empty()) return spread;
  std::sort(values.begin(), values.end());
  spread.median = Quantile(values, 0.5);
  spread.quartile1 = Quantile(values, 0.25);
  spread.quartile3 = Quantile(values, 0.75);
  return spread;
}

Ratios Compare(const std::vector<SliceFigures>& servers,
               const std::vector<SliceFigures>& compared) {
  return {RatioOf(servers, compared, &SliceFigures::operations_per_second),
          RatioOf(servers, compared, &SliceFigures::p50_us),
          RatioOf(servers, compared, &SliceFigures::p99_us),
          RatioOf(servers, compared, &SliceFigures::p999_us),
          RatioOf(servers, compared, &SliceFigures::server_cpu_us)};
}

}  // namespace quorate::tools::bench
