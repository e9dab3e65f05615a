// SPDX-License-Identifier: Apache-2.0

// Measures checkpoints of a tree in RocksDB: the cost of a checkpoint after a number of changes,
// and the time to load one at a start.

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <memory>
#include <string>
#include <utility>

#include "base/assert.h"
#include "bench/grown_tree.h"
#include "bench/temporary_directory.h"
#include "tree/store/load.h"
#include "tree/store/rocks_record_store.h"

namespace quorate::bench {
namespace {

constexpr size_t kPieceBytes = 64u << 10;

// Returns the CPU time of all threads of the process, including RocksDB's.
double ProcessCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Returns the bytes that the process caused to be written to the disk, also through the page cache.
double BytesWritten() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_oublock) * 512;
}

struct Stored {
  explicit Stored(Shape shape) : grown(shape) {
    auto opened = tree::RocksRecordStore::Open(directory.path() + "/store");
    ASSERT(opened.ok());
    store = *std::move(opened);
  }

  void TakeCheckpoint() {
    tree::Tree& tree = grown.tree();
    tree.BeginDelta();
    const tree::RecordStore::Metadata metadata{tree.last_zxid(), tree.digest(), ""};
    bool written = true;
    const auto write = [&](std::string_view key, std::optional<std::string_view> value) {
      written = written && store->Write(key, value).ok();
    };
    while (tree.NextDeltaRecords(kPieceBytes, write)) {
    }
    ASSERT(written && store->Commit(metadata).ok());
    while (tree.EndDelta(/*durable=*/true, kPieceBytes)) {
    }
  }

  TemporaryDirectory directory;
  GrownTree grown;
  std::unique_ptr<tree::RocksRecordStore> store;
};

// Arguments: number of znodes; number of znodes that are changed before each checkpoint.
void BM_Checkpoint(benchmark::State& state) {
  Stored stored(Shape::kDirectories);
  const auto nodes = static_cast<uint64_t>(state.range(0));
  const auto changes = static_cast<uint64_t>(state.range(1));
  stored.grown.GrowTo(nodes);
  stored.TakeCheckpoint();
  const std::string data(100, 'c');
  uint64_t next = 0;
  double cpu_seconds = 0;
  double bytes = 0;
  for (auto unused : state) {
    state.PauseTiming();
    for (uint64_t i = 0; i < changes; ++i) {
      // Changes znodes all over the tree, in an order unrelated to that of the keys.
      next = (next + 7'368'787) % nodes;
      stored.grown.Apply(stored.grown.SetDataCommand(stored.grown.PathOf(next), data));
    }
    const double cpu_before = ProcessCpuSeconds();
    const double bytes_before = BytesWritten();
    state.ResumeTiming();
    stored.TakeCheckpoint();
    cpu_seconds += ProcessCpuSeconds() - cpu_before;
    bytes += BytesWritten() - bytes_before;
  }
  const double changed = static_cast<double>(state.iterations()) * static_cast<double>(changes);
  state.counters["cpu_us_per_change"] = cpu_seconds * 1e6 / changed;
  state.counters["bytes_per_change"] = bytes / changed;
}
BENCHMARK(BM_Checkpoint)
    ->ArgNames({"nodes", "changes"})
    ->Args({1'000'000, 1'000})
    ->Args({1'000'000, 10'000})
    ->Args({1'000'000, 100'000})
    ->Args({10'000, 1'000})
    ->Iterations(10)
    ->Unit(benchmark::kMillisecond);

void Load(benchmark::State& state, Shape shape) {
  Stored stored(shape);
  stored.grown.GrowTo(static_cast<uint64_t>(state.range(0)));
  stored.TakeCheckpoint();
  stored.grown.Release();
  double cpu_seconds = 0;
  for (auto unused : state) {
    const double cpu_before = ProcessCpuSeconds();
    auto view = stored.store->OpenView();
    ASSERT(view.ok());
    auto tree = tree::LoadTree(view->get(), nullptr);
    ASSERT(tree.ok());
    cpu_seconds += ProcessCpuSeconds() - cpu_before;
    state.PauseTiming();
    tree->reset();
    state.ResumeTiming();
  }
  const double nodes =
      static_cast<double>(state.iterations()) * static_cast<double>(state.range(0));
  state.counters["nodes/s"] = benchmark::Counter(nodes, benchmark::Counter::kIsRate);
  state.counters["cpu_us_per_node"] = cpu_seconds * 1e6 / nodes;
}
void BM_LoadFlat(benchmark::State& state) { Load(state, Shape::kFlat); }
void BM_LoadChains(benchmark::State& state) { Load(state, Shape::kChains); }
void BM_LoadDirectories(benchmark::State& state) { Load(state, Shape::kDirectories); }
BENCHMARK(BM_LoadFlat)->Arg(1'000'000)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(BM_LoadChains)->Arg(1'000'000)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(BM_LoadDirectories)->Arg(1'000'000)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace quorate::bench
