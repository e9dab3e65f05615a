// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/latency_histogram.h"

#include <algorithm>
#include <numeric>

#include "base/assert.h"

namespace quorate::rpc {

size_t LatencyHistogram::BucketOf(int64_t us) {
  return static_cast<size_t>(std::ranges::lower_bound(kBoundsUs, us) - kBoundsUs.begin());
}

void LatencyHistogram::Merge(const LatencyHistogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) buckets[i] += other.buckets[i];
  sum_us += other.sum_us;
}

void LatencyHistogram::Remove(const LatencyHistogram& earlier) {
  for (size_t i = 0; i < kBuckets; ++i) buckets[i] -= earlier.buckets[i];
  sum_us -= earlier.sum_us;
}

int64_t LatencyHistogram::count() const {
  return std::accumulate(buckets.begin(), buckets.end(), int64_t{0});
}

double LatencyHistogram::PercentileUs(double part) const {
  const double rank = part * static_cast<double>(count());
  double below = 0;
  for (size_t i = 0; i < kBoundsUs.size(); ++i) {
    const auto in_bucket = static_cast<double>(buckets[i]);
    if (in_bucket > 0 && below + in_bucket >= rank) {
      const auto begin = static_cast<double>(i == 0 ? 0 : kBoundsUs[i - 1]);
      const auto end = static_cast<double>(kBoundsUs[i]);
      return begin + (end - begin) * (rank - below) / in_bucket;
    }
    below += in_bucket;
  }
  return buckets.back() > 0 ? static_cast<double>(kBoundsUs.back()) : 0;
}

void LiveLatencyHistogram::Add(int64_t us) {
  ASSERT(us >= 0);
  buckets_[LatencyHistogram::BucketOf(us)].Add(1);
  sum_us_.Add(us);
}

void LiveLatencyHistogram::Clear() {
  for (Counter& bucket : buckets_) bucket.Set(0);
  sum_us_.Set(0);
}

LatencyHistogram LiveLatencyHistogram::value() const {
  LatencyHistogram value;
  for (size_t i = 0; i < buckets_.size(); ++i) value.buckets[i] = buckets_[i].value();
  value.sum_us = sum_us_.value();
  return value;
}

}  // namespace quorate::rpc
