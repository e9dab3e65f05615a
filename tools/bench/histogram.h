// SPDX-License-Identifier: Apache-2.0

// A histogram of latencies, in fixed memory and with an error of less than 0.8 %: each power of two
// is divided into 128 buckets of equal width.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <vector>

namespace quorate::tools::bench {

class Histogram {
 public:
  Histogram();

  // Adds a value. A negative value counts as 0, a value above kValueMax as kValueMax.
  void Add(int64_t value_ns);
  // Adds all values of `other`.
  void Merge(const Histogram& other);
  void Clear();

  uint64_t count() const { return count_; }
  int64_t max_ns() const { return max_ns_; }
  double mean_ns() const;
  // Returns the smallest value that at least `share` of all values do not exceed, within the
  // buckets' precision, and never above max_ns(). Returns 0 if there are no values. REQUIRES: 0 <=
  // share <= 1.
  int64_t PercentileNs(double share) const;

  // The greatest value, more than two hours.
  static constexpr int64_t kValueMax = (int64_t{1} << 43) - 1;

 private:
  std::vector<uint64_t> buckets_;
  uint64_t count_ = 0;
  int64_t max_ns_ = 0;
  double sum_ns_ = 0;
};

}  // namespace quorate::tools::bench
