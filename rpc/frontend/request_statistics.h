// SPDX-License-Identifier: Apache-2.0

// The statistics of the requests of a member's clients that are the same for all front ends: the latencies
// of the last minutes, and who sends the most requests. For a front end that does not count them itself,
// also the latencies by operation and the stages, since the start.
//
// Each loop of a front end writes its own; requests take no lock.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "rpc/frontend/latency_histogram.h"
#include "rpc/frontend/recent_latencies.h"
#include "rpc/frontend/request_stages.h"
#include "rpc/frontend/top_requests.h"

namespace quorate::rpc {

// The statistics of one loop. Thread-safety: written on the loop's thread.
struct LoopRequests {
  LoopRequests(std::span<const std::string_view> names, uint64_t seed)
      : top(seed), operation_names(names), operations(names.size()) {}

  // Latencies of requests that were answered; pings are no requests here.
  RecentLatencies recent_reads;
  RecentLatencies recent_writes;
  LoopTopRequests top;
  StageLatencies stages;
  // The names of operations live as long as the process; `operations` has a histogram for each.
  const std::span<const std::string_view> operation_names;
  std::vector<LiveLatencyHistogram> operations;
};

// The sums of all loops. Thread-safety: any thread.
class RequestStatistics {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // The latencies of a window.
  struct Recent {
    WindowLatencies reads;
    WindowLatencies writes;
    WindowLatencies all() const {
      WindowLatencies sum = reads;
      sum.Merge(writes);
      return sum;
    }
  };

  // Called once for each loop of a front end. The result lives as long as this object.
  LoopRequests* AddLoop(std::span<const std::string_view> operation_names = {});

  // REQUIRES: window <= RecentLatencies::kWindowMax.
  Recent SumRecent(std::chrono::seconds window, TimePoint now) const;
  // Returns the keys with the most requests in the last LoopTopRequests::kWindow, the greatest first.
  std::vector<TopEntry> Top(RequestKey key, TimePoint now, size_t count_max) const;
  // Return what the loops have counted that count operations and stages here.
  using OperationLatencies = std::vector<std::pair<std::string_view, LatencyHistogram>>;
  OperationLatencies SumOperations() const;
  StageHistograms SumStages() const;
  StageHistograms SumRecentStages(std::chrono::seconds window, TimePoint now) const;

 private:
  // Calls `loop(requests)` for each loop, without the lock.
  template <class Function>
  void ForEachLoop(const Function& loop) const;

  mutable Mutex mutex_;
  std::vector<std::unique_ptr<LoopRequests>> loops_ ABSL_GUARDED_BY(mutex_);  // only grows
};

}  // namespace quorate::rpc
