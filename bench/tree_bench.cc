// SPDX-License-Identifier: Apache-2.0

// Measures the tree alone: the cost of one command, one read and one digest, by the tree's size.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/assert.h"
#include "bench/grown_tree.h"

namespace quorate::bench {
namespace {

constexpr uint64_t kStride = 7'368'787;  // a step that visits znodes all over the tree, each once

// Returns a tree that is built once; the largest only if --benchmark_filter selects it.
GrownTree& TreeOf(uint64_t nodes) {
  static std::unique_ptr<GrownTree> grown;
  if (grown == nullptr || grown->size() != nodes) {
    grown = std::make_unique<GrownTree>(Shape::kDirectories);
    grown->GrowTo(nodes);
  }
  return *grown;
}

// Sets the sizes of the tree. Ten million znodes take minutes and 2.5 GB.
void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("nodes")->Arg(1'000)->Arg(1'000'000);
  if (std::getenv("QUORATE_BENCH_LARGE") != nullptr) benchmark->Arg(10'000'000);
}

void BM_SetData(benchmark::State& state) {
  const auto nodes = static_cast<uint64_t>(state.range(0));
  GrownTree& grown = TreeOf(nodes);
  const std::string data(100, 'x');
  uint64_t next = 0;
  for (auto unused : state) {
    state.PauseTiming();
    std::vector<std::string> commands;
    for (int i = 0; i < 1000; ++i) {
      next = (next + kStride) % nodes;
      commands.push_back(grown.SetDataCommand(grown.PathOf(next), data));
    }
    state.ResumeTiming();
    for (const std::string& command : commands) grown.Apply(command);
  }
  state.SetItemsProcessed(state.iterations() * 1000);
}
BENCHMARK(BM_SetData)->Apply(Sizes)->Unit(benchmark::kMicrosecond);

void BM_CreateAndDelete(benchmark::State& state) {
  const auto nodes = static_cast<uint64_t>(state.range(0));
  GrownTree& grown = TreeOf(nodes);
  const std::string data(100, 'x');
  uint64_t next = 0;
  for (auto unused : state) {
    state.PauseTiming();
    std::vector<std::string> commands;
    for (int i = 0; i < 500; ++i) {
      next = (next + kStride) % nodes;
      const std::string path = grown.PathOf(next) + "/new";
      commands.push_back(grown.CreateCommand(path, data));
      commands.push_back(grown.DeleteCommand(path));
    }
    state.ResumeTiming();
    for (const std::string& command : commands) grown.Apply(command);
  }
  state.SetItemsProcessed(state.iterations() * 1000);
}
BENCHMARK(BM_CreateAndDelete)->Apply(Sizes)->Unit(benchmark::kMicrosecond);

void BM_GetData(benchmark::State& state) {
  const auto nodes = static_cast<uint64_t>(state.range(0));
  GrownTree& grown = TreeOf(nodes);
  std::vector<std::string> paths;
  for (uint64_t i = 0; i < 100'000; ++i) paths.push_back(grown.PathOf(i * kStride % nodes));
  size_t next = 0;
  for (auto unused : state) {
    std::string_view data;
    bool has_data = false;
    tree::Stat stat;
    const tree::ErrorCode error = grown.tree().GetData(paths[next], {}, &data, &has_data, &stat);
    ASSERT(error == tree::ErrorCode::kOk);
    benchmark::DoNotOptimize(data);
    next = (next + 1) % paths.size();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_GetData)->Apply(Sizes);

// Measures the digest of the whole tree, computed from scratch: the cost that the incremental
// digest avoids.
void BM_ComputeDigest(benchmark::State& state) {
  GrownTree& grown = TreeOf(static_cast<uint64_t>(state.range(0)));
  for (auto unused : state) benchmark::DoNotOptimize(grown.tree().ComputeDigest());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_ComputeDigest)->Apply(Sizes)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace quorate::bench
