// SPDX-License-Identifier: Apache-2.0

// Measures the segment log on this machine's disk.

#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "bench/temporary_directory.h"
#include "consensus/log/env.h"
#include "consensus/log/segment_log.h"

namespace quorate::bench {
namespace {

using consensus::Entry;
using consensus::Index;
using consensus::SegmentLog;

class OpenLog {
 public:
  OpenLog() {
    auto opened = SegmentLog::Open(consensus::Env::Posix(), directory_.path(), {}, Index{0});
    ASSERT(opened.ok());
    log_ = *std::move(opened);
  }

  std::vector<Entry> MakeEntries(size_t count) {
    std::vector<Entry> entries;
    for (size_t i = 1; i <= count; ++i) {
      entries.push_back(
          {log_->last_index() + i, consensus::Term{1}, consensus::EntryKind::kCommand, payload_});
    }
    return entries;
  }
  SegmentLog& log() { return *log_; }

 private:
  TemporaryDirectory directory_;
  std::unique_ptr<SegmentLog> log_;
  const Slice payload_{std::string(200, 'p')};
};

// Measures appends without a sync. Argument: entries per append.
void BM_Append(benchmark::State& state) {
  OpenLog open;
  for (auto unused : state) {
    state.PauseTiming();
    if (open.log().last_index() >= open.log().base_index() + 2'000'000) {
      ASSERT(open.log().CompactTo(open.log().last_index()).ok());
      ASSERT(open.log().DoChores().ok());
    }
    const std::vector<Entry> entries = open.MakeEntries(static_cast<size_t>(state.range(0)));
    state.ResumeTiming();
    ASSERT(open.log().Append(entries).ok());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Append)->ArgName("entries")->Arg(1)->Arg(100)->Arg(1000);

// Measures appends that are each followed by a sync. Argument: entries per sync.
void BM_GroupCommit(benchmark::State& state) {
  OpenLog open;
  for (auto unused : state) {
    ASSERT(open.log().Append(open.MakeEntries(static_cast<size_t>(state.range(0)))).ok());
    ASSERT(open.log().Sync().ok());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_GroupCommit)
    ->ArgName("entries")
    ->Arg(1)
    ->Arg(30)
    ->Arg(1000)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

// Measures reading the log, as a start does.
void BM_Read(benchmark::State& state) {
  OpenLog open;
  for (int i = 0; i < 200; ++i) ASSERT(open.log().Append(open.MakeEntries(1000)).ok());
  for (auto unused : state) {
    Index next = open.log().first_index();
    while (next <= open.log().last_index()) {
      auto entries = open.log().Read(next, open.log().last_index(), 4u << 20);
      ASSERT(entries.ok());
      next = entries->back().index + 1;
    }
  }
  state.SetItemsProcessed(state.iterations() * 200'000);
}
BENCHMARK(BM_Read)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace quorate::bench
