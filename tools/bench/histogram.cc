// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "base/assert.h"

namespace quorate::tools::bench {
namespace {

// Values below 2^kExactBits have a bucket each; from there on the first kExactBits + 1 bits of a
// value choose its bucket.
constexpr int kExactBits = 7;
constexpr size_t kBucketsEach = size_t{1} << kExactBits;
constexpr int kValueBits = 43;
constexpr size_t kBuckets = (kValueBits - kExactBits + 1) * kBucketsEach;

size_t BucketOf(uint64_t value) {
  const int extra_bits = std::max(0, static_cast<int>(std::bit_width(value)) - kExactBits - 1);
  return static_cast<size_t>(extra_bits) * kBucketsEach + static_cast<size_t>(value >> extra_bits);
}

// Returns the middle of the values of a bucket.
int64_t ValueOf(size_t bucket) {
  if (bucket < 2 * kBucketsEach) return static_cast<int64_t>(bucket);
  const size_t extra_bits = bucket / kBucketsEach - 1;
  const uint64_t first = static_cast<uint64_t>(bucket - extra_bits * kBucketsEach) << extra_bits;
  return static_cast<int64_t>(first + (uint64_t{1} << extra_bits) / 2);
}

}  // namespace

Histogram::Histogram() : buckets_(kBuckets, 0) {}

void Histogram::Add(int64_t value_ns) {
  const int64_t value = std::clamp<int64_t>(value_ns, 0, kValueMax);
  ++buckets_[BucketOf(static_cast<uint64_t>(value))];
  ++count_;
  max_ns_ = std::max(max_ns_, value);
  sum_ns_ += static_cast<double>(value);
}

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  max_ns_ = std::max(max_ns_, other.max_ns_);
  sum_ns_ += other.sum_ns_;
}

void Histogram::Clear() {
  std::fill(buckets_.begin(), buckets_.end(), 0);
  count_ = 0;
  max_ns_ = 0;
  sum_ns_ = 0;
}

double Histogram::mean_ns() const {
  return count_ == 0 ? 0 : sum_ns_ / static_cast<double>(count_);
}

int64_t Histogram::PercentileNs(double share) const {
  ASSERT(share >= 0);
  ASSERT(share <= 1);
  const double exact_rank = std::ceil(share * static_cast<double>(count_));
  const uint64_t rank = std::max<uint64_t>(1, static_cast<uint64_t>(exact_rank));
  if (rank >= count_) return max_ns_;
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= rank) return std::min(ValueOf(i), max_ns_);
  }
  return max_ns_;
}

}  // namespace quorate::tools::bench
