// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/histogram.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

namespace quorate::tools::bench {
namespace {

constexpr double kShares[] = {0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 1};

int64_t ExactPercentile(const std::vector<int64_t>& sorted, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(rank, 1) - 1];
}

TEST_CASE("Percentiles are those of the sorted values, within the width of a bucket") {
  std::mt19937_64 random(1);
  for (const double spread : {1.0, 4.0, 10.0}) {
    std::lognormal_distribution<double> distribution(11, spread);
    Histogram histogram;
    std::vector<int64_t> values;
    for (int i = 0; i < 30'000; ++i) {
      const double value = std::min(distribution(random), 1e12);
      values.push_back(static_cast<int64_t>(value));
      histogram.Add(values.back());
    }
    std::sort(values.begin(), values.end());
    CHECK(histogram.count() == values.size());
    CHECK(histogram.max_ns() == values.back());
    for (const double share : kShares) {
      const auto exact = static_cast<double>(ExactPercentile(values, share));
      CAPTURE(spread, share, exact);
      CHECK(std::abs(static_cast<double>(histogram.PercentileNs(share)) - exact) <= exact * 0.008);
    }
  }
}

TEST_CASE("Small values are exact") {
  Histogram histogram;
  for (int i = 255; i >= 0; --i) histogram.Add(i);
  CHECK(histogram.PercentileNs(0) == 0);
  CHECK(histogram.PercentileNs(0.5) == 127);
  CHECK(histogram.PercentileNs(0.75) == 191);
  CHECK(histogram.PercentileNs(1) == 255);
  CHECK(histogram.mean_ns() == Approx(127.5));
}

TEST_CASE("A percentile between two values is the greater one") {
  Histogram histogram;
  for (const int64_t value : {10, 20, 30}) histogram.Add(value);
  CHECK(histogram.PercentileNs(0.3) == 10);
  CHECK(histogram.PercentileNs(0.5) == 20);
  CHECK(histogram.PercentileNs(0.7) == 30);
}

TEST_CASE("Each value is counted in the bucket of its range") {
  for (int64_t value = 1; value < Histogram::kValueMax; value += value / 300 + 1) {
    Histogram histogram;
    histogram.Add(value);
    histogram.Add(Histogram::kValueMax);
    const double error = std::abs(static_cast<double>(histogram.PercentileNs(0.5) - value));
    REQUIRE(error <= static_cast<double>(value) / 128);
  }
}

TEST_CASE("Values out of range are counted at the ends") {
  Histogram histogram;
  histogram.Add(-5);
  CHECK(histogram.PercentileNs(1) == 0);
  histogram.Add(INT64_MAX);
  CHECK(histogram.max_ns() == Histogram::kValueMax);
  CHECK(histogram.count() == 2);
}

TEST_CASE("An empty histogram returns zeros") {
  const Histogram histogram;
  CHECK(histogram.PercentileNs(0.99) == 0);
  CHECK(histogram.mean_ns() == 0);
}

TEST_CASE("Merging adds all values of the other histogram") {
  std::mt19937_64 random(2);
  Histogram all, first, second;
  for (int i = 0; i < 1000; ++i) {
    const auto value = static_cast<int64_t>(random() >> 30);
    all.Add(value);
    (i % 3 == 0 ? first : second).Add(value);
  }
  first.Merge(second);
  for (const double share : kShares) CHECK(first.PercentileNs(share) == all.PercentileNs(share));
  CHECK(first.mean_ns() == Approx(all.mean_ns()));
  first.Clear();
  CHECK(first.count() == 0);
  CHECK(first.max_ns() == 0);
}

}  // namespace
}  // namespace quorate::tools::bench
