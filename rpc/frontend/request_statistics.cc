// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/request_statistics.h"

#include <algorithm>

namespace quorate::rpc {

LoopRequests* RequestStatistics::AddLoop(std::span<const std::string_view> operation_names) {
  MutexLock lock(&mutex_);
  loops_.push_back(std::make_unique<LoopRequests>(operation_names, loops_.size() + 1));
  return loops_.back().get();
}

template <class Function>
void RequestStatistics::ForEachLoop(const Function& loop) const {
  std::vector<const LoopRequests*> loops;
  {
    MutexLock lock(&mutex_);
    for (const auto& each : loops_) loops.push_back(each.get());
  }
  for (const LoopRequests* each : loops) loop(*each);
}

RequestStatistics::Recent RequestStatistics::SumRecent(std::chrono::seconds window,
                                                       TimePoint now) const {
  Recent sums;
  ForEachLoop([&](const LoopRequests& loop) {
    loop.recent_reads.AddRecentTo(window, now, &sums.reads);
    loop.recent_writes.AddRecentTo(window, now, &sums.writes);
  });
  // The two cover the same time.
  sums.reads.seconds = sums.writes.seconds = std::max(sums.reads.seconds, sums.writes.seconds);
  return sums;
}

std::vector<TopEntry> RequestStatistics::Top(RequestKey key, TimePoint now,
                                             size_t count_max) const {
  std::vector<TopEntry> entries;
  ForEachLoop([&](const LoopRequests& loop) { loop.top.AddTo(key, now, &entries); });
  return TopOf(std::move(entries), count_max);
}

RequestStatistics::OperationLatencies RequestStatistics::SumOperations() const {
  OperationLatencies sums;
  ForEachLoop([&](const LoopRequests& loop) {
    for (size_t i = 0; i < loop.operations.size(); ++i) {
      const std::string_view name = loop.operation_names[i];
      auto sum = std::ranges::find(sums, name, &OperationLatencies::value_type::first);
      if (sum == sums.end()) sum = sums.insert(sums.end(), {name, LatencyHistogram()});
      sum->second.Merge(loop.operations[i].value());
    }
  });
  return sums;
}

StageHistograms RequestStatistics::SumStages() const {
  StageHistograms sums;
  ForEachLoop([&](const LoopRequests& loop) { loop.stages.AddTo(&sums); });
  return sums;
}

StageHistograms RequestStatistics::SumRecentStages(std::chrono::seconds window,
                                                   TimePoint now) const {
  StageHistograms sums;
  ForEachLoop([&](const LoopRequests& loop) { loop.stages.AddRecentTo(window, now, &sums); });
  return sums;
}

}  // namespace quorate::rpc
