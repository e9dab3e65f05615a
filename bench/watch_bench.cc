// SPDX-License-Identifier: Apache-2.0

// Measures the cost of an event among a million watches, and of the events that a watch missed.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "rpc/frontend/event_history.h"
#include "rpc/zookeeper/missed_events.h"
#include "tree/watch_table.h"

namespace quorate::bench {
namespace {

constexpr uint64_t kPaths = 1'000'000;
constexpr uint64_t kWatchers = 5000;
constexpr uint64_t kStride = 5;

std::string PathOf(uint64_t i) {
  return "/services/" + std::to_string(i % 1000) + "/" + std::to_string(i);
}

void Fire(benchmark::State& state, tree::WatchKind kind, uint64_t offset, bool recursive) {
  tree::WatchTable table;
  for (uint64_t i = 0; i < kPaths; ++i) table.Add(i % kWatchers, PathOf(i), kind);
  if (recursive) table.Add(7, "/services", tree::WatchKind::kPersistentRecursive);
  std::vector<std::string> paths;
  for (uint64_t i = 0; i < kPaths / kStride; ++i) paths.push_back(PathOf(i * kStride + offset));
  size_t next = 0;
  size_t sent = 0;
  for (auto unused : state) {
    table.Fire(tree::EventType::kNodeDataChanged, paths[next],
               [&sent](tree::WatcherId, tree::EventType, std::string_view) { ++sent; });
    next = (next + 1) % paths.size();
  }
  state.counters["sent"] =
      benchmark::Counter(static_cast<double>(sent), benchmark::Counter::kAvgIterations);
  state.SetItemsProcessed(state.iterations());
}

void BM_FireUnwatched(benchmark::State& state) {
  Fire(state, tree::WatchKind::kData, kPaths, false);
}
void BM_FirePersistent(benchmark::State& state) {
  Fire(state, tree::WatchKind::kPersistent, 0, false);
}
// Runs as many iterations as there are paths with watches, because each watch fires once.
void BM_FireOneShot(benchmark::State& state) { Fire(state, tree::WatchKind::kData, 0, false); }
void BM_FireRecursive(benchmark::State& state) {
  Fire(state, tree::WatchKind::kData, kPaths, true);
}
BENCHMARK(BM_FireUnwatched);
BENCHMARK(BM_FirePersistent);
BENCHMARK(BM_FireOneShot)->Iterations(kPaths / kStride);
BENCHMARK(BM_FireRecursive);

// Measures the longest time that setting a watch takes, because it blocks other clients meanwhile.
void BM_Add(benchmark::State& state) {
  std::chrono::steady_clock::duration longest{};
  for (auto unused : state) {
    tree::WatchTable table;
    for (uint64_t i = 0; i < kPaths; ++i) {
      const std::string path = PathOf(i);
      const auto start = std::chrono::steady_clock::now();
      table.Add(i % kWatchers, path, tree::WatchKind::kData);
      longest = std::max(longest, std::chrono::steady_clock::now() - start);
    }
  }
  state.counters["longest_us"] = std::chrono::duration<double, std::micro>(longest).count();
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kPaths));
}
BENCHMARK(BM_Add)->Unit(benchmark::kMillisecond);

// Measures what an event costs that goes into the history.
void BM_KeepEvent(benchmark::State& state) {
  rpc::EventHistory history(8 << 20);
  int64_t zxid = 0;
  std::vector<std::string> paths;
  for (uint64_t i = 0; i < 10'000; ++i) paths.push_back(PathOf(i * 97));
  for (auto unused : state) {
    history.Add(tree::EventType::kNodeDataChanged, paths[static_cast<size_t>(zxid) % paths.size()],
                tree::Zxid(zxid + 1), nullptr);
    ++zxid;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_KeepEvent);

// Measures how long a client that connects again takes whose last reply is older than all events of
// a full history. Its recursive watch is on one of 1000 services (0), which is as good as all
// chunks, or on something else (1), of which there are no events.
void BM_Resume(benchmark::State& state) {
  rpc::EventHistory history(8 << 20);
  for (uint64_t i = 0; i < kPaths; ++i) {
    history.Add(tree::EventType::kNodeDataChanged, PathOf(i), tree::Zxid(static_cast<int64_t>(i)),
                nullptr);
  }
  const std::vector<std::string_view> paths = {state.range(0) == 0 ? "/services/7" : "/config"};
  size_t sent = 0;
  for (auto unused : state) {
    rpc::zk::MissedEvents missed(history, history.oldest(), {}, paths);
    while (!missed.at_end()) {
      missed.Read(
          SIZE_MAX, [] { return false; },
          [&sent](tree::EventType, std::string_view, tree::Zxid, const rpc::Readers&) { ++sent; });
    }
  }
  state.counters["sent"] =
      benchmark::Counter(static_cast<double>(sent), benchmark::Counter::kAvgIterations);
}
BENCHMARK(BM_Resume)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quorate::bench
