// SPDX-License-Identifier: Apache-2.0

// The slow requests of a member's clients: how many there were of each operation, and the last ones,
// with where their time went.
//
// Thread-safety: SetThreshold before the first request; the rest from any thread. Only slow requests,
// and who looks at them, take the lock.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "rpc/frontend/request_stages.h"

namespace quorate::rpc {

struct SlowRequest {
  int64_t answered_ms = 0;          // wall clock, since the epoch
  std::string_view operation = {};  // of a table, which lives as long as the process
  int64_t session = 0;
  std::string client = {};  // address:port
  // Of a multi, the first one. Empty: none, or not known. As it is kept, it is escaped (base/escape.h), and
  // of a long one only the first bytes are there.
  std::string path = {};
  int64_t zxid = 0;  // of a write; 0: of no write
  int64_t us = 0;    // from its arrival to its reply
  StageTimes stages = {};
};

class SlowRequests {
 public:
  // The number of requests that are kept, and the bytes of a path.
  static constexpr size_t kKept = 1000;
  static constexpr size_t kPathBytesMax = 256;
  // The requests that are kept of each second; the others are only counted. Otherwise recording would
  // make a server that is overloaded, and whose requests are all slow, still slower.
  static constexpr size_t kKeptPerSecond = 200;

  // Requests that take `ms` milliseconds or more are slow; 0: none are.
  void SetThreshold(int ms) { threshold_us_ = ms == 0 ? INT64_MAX : int64_t{ms} * 1000; }
  // Returns the threshold in milliseconds; 0: no request is slow.
  int64_t threshold_ms() const { return threshold_us_ == INT64_MAX ? 0 : threshold_us_ / 1000; }
  bool IsSlow(int64_t us) const { return us >= threshold_us_; }

  // Counts a slow request. Returns whether it is to be kept, by Keep.
  bool Count(std::string_view operation, std::chrono::steady_clock::time_point now);
  // Counts a slow request that is not answered any more, because its client is gone. It is not kept: its
  // stages are not known.
  void CountUnanswered(std::string_view operation);
  // Keeps a request in the place of the oldest one. Escapes its path.
  void Keep(SlowRequest request);

  // Returns the last `count_max` of the requests that are kept, the oldest first.
  std::vector<SlowRequest> Last(size_t count_max) const;
  // Returns how many requests were slow since the start, by operation.
  std::map<std::string_view, int64_t> counts() const;
  // Returns how many of them were not kept.
  int64_t not_kept() const;

 private:
  int64_t threshold_us_ = INT64_MAX;
  mutable Mutex mutex_;
  std::map<std::string_view, int64_t> counts_ ABSL_GUARDED_BY(mutex_);
  int64_t not_kept_ ABSL_GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::time_point second_began_ ABSL_GUARDED_BY(mutex_);
  size_t kept_in_second_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<SlowRequest> ring_ ABSL_GUARDED_BY(mutex_);  // up to kKept
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;                // the place of the next one
};

}  // namespace quorate::rpc
