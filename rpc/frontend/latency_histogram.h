// SPDX-License-Identifier: Apache-2.0

// Histograms of latencies with fixed buckets, as Prometheus shows them.
//
// Each number has one writer and any number of readers: a write is a plain store, and requests take no
// lock for it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace quorate::rpc {

// A number with one writer. Thread-safety: Add and Set from the writer's thread, value from any.
class Counter {
 public:
  explicit Counter(int64_t value = 0) : value_(value) {}
  void Add(int64_t count) { Set(value() + count); }
  void Set(int64_t value) { value_.store(value, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_;
};

// A histogram of latencies. A value type.
struct LatencyHistogram {
  // The greatest latency of each bucket, in microseconds. One more bucket has those above the last.
  static constexpr std::array<int64_t, 16> kBoundsUs = {
      100,    250,     500,     1'000,   2'500,     5'000,     10'000,    25'000,
      50'000, 100'000, 250'000, 500'000, 1'000'000, 2'500'000, 5'000'000, 10'000'000};
  static constexpr size_t kBuckets = kBoundsUs.size() + 1;
  // Returns the bucket of a latency.
  static size_t BucketOf(int64_t us);

  std::array<int64_t, kBuckets> buckets{};  // not cumulative
  int64_t sum_us = 0;

  void Merge(const LatencyHistogram& other);
  // Removes the latencies of `earlier`, which are among these.
  void Remove(const LatencyHistogram& earlier);
  int64_t count() const;
  // Returns the latency in microseconds that the least `part` (0 to 1) of all do not exceed, with those
  // of a bucket spread evenly over it, as histogram_quantile of Prometheus does; the last bound for one
  // above it, and 0 if there are no latencies.
  double PercentileUs(double part) const;
};

// A LatencyHistogram with one writer. Thread-safety: Add and Clear from the writer's thread, value from
// any. The result of value() may lack parts of a concurrent Add.
class LiveLatencyHistogram {
 public:
  // REQUIRES: us >= 0.
  void Add(int64_t us);
  void Clear();
  LatencyHistogram value() const;

 private:
  std::array<Counter, LatencyHistogram::kBuckets> buckets_;
  Counter sum_us_;
};

}  // namespace quorate::rpc
