// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/request_stages.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>

#include "base/testing/manual_clock.h"

namespace quorate::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// The marks of a member's writes, set in virtual time.
struct Fixture {
  // Sets a mark `ms` milliseconds after the one before.
  void MarkAfter(int64_t ms, MarkRing* ring, uint64_t position, bool leads = false) {
    clock.Advance(ms);
    ring->Add(position, clock.Now(), leads);
  }
  StageTimes AnswerAfter(int64_t ms, uint64_t sequence, uint64_t index) {
    clock.Advance(ms);
    return StageFinder(&marks).Find(received, clock.Now(), sequence, index);
  }

  ManualClock clock;
  ProgressMarks marks;
  const std::chrono::steady_clock::time_point received = clock.Now();
};

int64_t Us(const StageTimes& times, RequestStage stage) { return times.us(stage); }

TEST_CASE("A mark tells when each position up to it was reached") {
  ManualClock clock;
  MarkRing ring;
  CHECK(!ring.Find(1).has_value());
  ring.Add(10, clock.Now());
  const auto first = clock.Now();
  clock.Advance(5);
  ring.Add(10, clock.Now());  // nothing new
  ring.Add(12, clock.Now(), /*leads=*/true);
  CHECK(ring.Find(3)->time == first);
  CHECK(ring.Find(10)->time == first);
  CHECK(!ring.Find(10)->leads);
  const auto found = ring.Find(12);
  CHECK((found->first == 11 && found->last == 12));
  CHECK(found->time == clock.Now());
  CHECK(found->leads);
  CHECK(!found->Contains(10));
  CHECK(!ring.Find(13).has_value());
}

TEST_CASE("Positions that are reached again have the later time") {
  ManualClock clock;
  MarkRing ring;
  ring.Add(10, clock.Now());
  ring.Add(12, clock.Now());
  clock.Advance(100);
  ring.Restart();
  CHECK(!ring.Find(12).has_value());
  ring.Add(12, clock.Now());
  clock.Advance(1);
  ring.Add(15, clock.Now());
  CHECK(ring.Find(12)->time == clock.Now() - milliseconds(1));
  CHECK(ring.Find(11)->time == clock.Now() - milliseconds(1));
}

TEST_CASE("A position whose mark was overwritten is not known") {
  ManualClock clock;
  MarkRing ring;
  for (uint64_t i = 1; i <= 2 * MarkRing::kMarks; ++i) {
    clock.Advance(1);
    ring.Add(10 * i, clock.Now());
  }
  CHECK(ring.Find(20 * MarkRing::kMarks)->time == clock.Now());
  CHECK(ring.Find(20 * MarkRing::kMarks - 15)->time == clock.Now() - milliseconds(1));
  CHECK(!ring.Find(1).has_value());
  CHECK(!ring.Find(10 * MarkRing::kMarks).has_value());
}

TEST_CASE("A reader beside the writer finds no mark of another position") {
  MarkRing ring;
  std::atomic<uint64_t> written{0};
  constexpr uint64_t kLast = 2000 * MarkRing::kMarks;
  std::thread writer([&] {
    // The time of each mark is its position.
    for (uint64_t i = 1; i <= kLast; ++i) {
      ring.Add(i, MarkRing::TimePoint(std::chrono::nanoseconds(i)));
      written.store(i);
    }
  });
  size_t wrong = 0;
  for (uint64_t last = 0; last < kLast;) {
    last = written.load();
    // One of the oldest marks, which the writer is about to overwrite.
    const uint64_t position = last < MarkRing::kMarks ? 1 : last - MarkRing::kMarks + 5;
    const auto found = ring.Find(position);
    if (!found.has_value()) continue;
    const auto ns = static_cast<uint64_t>(found->time.time_since_epoch().count());
    wrong += found->last != position || found->first != position || ns != position ? 1 : 0;
  }
  writer.join();
  CHECK(wrong == 0);
  CHECK(ring.Find(kLast - MarkRing::kMarks + 5)->last == kLast - MarkRing::kMarks + 5);
}

TEST_CASE("The stages of a write at the leader add up to its time") {
  Fixture f;
  f.MarkAfter(2, &f.marks.sent, 7, /*leads=*/true);
  f.MarkAfter(300, &f.marks.durable, 107);
  f.MarkAfter(20, &f.marks.committed, 110);
  f.MarkAfter(4, &f.marks.applied, 110);
  const StageTimes times = f.AnswerAfter(1, 6, 106);
  CHECK(Us(times, RequestStage::kQueue) == 2000);
  CHECK(Us(times, RequestStage::kLogWrite) == 300'000);
  CHECK(Us(times, RequestStage::kCommit) == 20'000);
  CHECK(Us(times, RequestStage::kApply) == 4000);
  CHECK(Us(times, RequestStage::kAnswer) == 1000);
  CHECK(Us(times, RequestStage::kBarrier) == -1);
  CHECK(times.longest() == RequestStage::kLogWrite);
}

TEST_CASE("A write that the followers have committed did not wait for the leader's disk") {
  Fixture f;
  f.MarkAfter(2, &f.marks.sent, 7, /*leads=*/true);
  f.MarkAfter(30, &f.marks.committed, 107);
  f.MarkAfter(1, &f.marks.applied, 107);
  SECTION("which is still busy") {}
  SECTION("which was done later") { f.marks.durable.Add(107, f.clock.Now()); }
  const StageTimes times = f.AnswerAfter(1, 7, 107);
  CHECK(Us(times, RequestStage::kLogWrite) == 0);
  CHECK(Us(times, RequestStage::kCommit) == 30'000);
}

TEST_CASE("At a follower, a write has no stage of the leader's log") {
  Fixture f;
  f.MarkAfter(2, &f.marks.sent, 7);
  f.MarkAfter(5, &f.marks.durable, 107);
  f.MarkAfter(40, &f.marks.committed, 107);
  f.MarkAfter(1, &f.marks.applied, 107);
  const StageTimes times = f.AnswerAfter(3, 7, 107);
  CHECK(Us(times, RequestStage::kQueue) == 2000);
  CHECK(Us(times, RequestStage::kLogWrite) == -1);
  CHECK(Us(times, RequestStage::kCommit) == 45'000);
  CHECK(Us(times, RequestStage::kApply) == 1000);
  CHECK(Us(times, RequestStage::kAnswer) == 3000);
}

TEST_CASE("The time of a stage that is not known counts for the next one") {
  Fixture f;
  f.MarkAfter(10, &f.marks.committed, 107);
  SECTION("nothing but the commit is known") {
    const StageTimes times = f.AnswerAfter(5, 7, 107);
    CHECK(Us(times, RequestStage::kQueue) == -1);
    CHECK(Us(times, RequestStage::kCommit) == 10'000);
    CHECK(Us(times, RequestStage::kApply) == -1);
    CHECK(Us(times, RequestStage::kAnswer) == 5000);
  }
  SECTION("a clock that was read earlier makes no stage negative") {
    f.marks.applied.Add(107, f.clock.Now() - milliseconds(3));
    const StageTimes times = f.AnswerAfter(0, 7, 107);
    CHECK(Us(times, RequestStage::kApply) == 0);
    CHECK(Us(times, RequestStage::kAnswer) == 0);
  }
}

TEST_CASE("The times of a batch are kept until they are dropped") {
  Fixture f;
  f.MarkAfter(1, &f.marks.sent, 7, /*leads=*/true);
  StageFinder finder(&f.marks);
  CHECK(finder.Find(f.received, f.clock.Now(), 7, 107).us(RequestStage::kQueue) == 1000);
  f.marks.sent.Restart();
  f.clock.Advance(9);
  f.marks.sent.Add(7, f.clock.Now(), /*leads=*/true);
  CHECK(finder.Find(f.received, f.clock.Now(), 7, 107).us(RequestStage::kQueue) == 1000);
  finder.Forget();
  CHECK(finder.Find(f.received, f.clock.Now(), 7, 107).us(RequestStage::kQueue) == 10'000);
}

TEST_CASE("A window has the latencies of the last minutes alone") {
  ManualClock clock;
  const auto latencies = std::make_unique<StageLatencies>();
  StageTimes slow;
  slow.Set(RequestStage::kCommit, 400'000);
  StageTimes fast;
  fast.Set(RequestStage::kCommit, 90);
  const auto recent = [&](seconds window) {
    StageHistograms sums;
    latencies->AddRecentTo(window, clock.Now(), &sums);
    return sums[static_cast<size_t>(RequestStage::kCommit)];
  };
  const auto pass = [&](seconds time) {
    for (seconds passed{0}; passed < time; passed += seconds(1)) {
      latencies->Tick(clock.Now());
      clock.Advance(1000);
    }
  };
  pass(seconds(15));
  for (int i = 0; i < 10; ++i) latencies->Add(slow);
  CHECK(recent(minutes(1)).count() == 10);
  pass(seconds(80));
  for (int i = 0; i < 5; ++i) latencies->Add(fast);
  CHECK(recent(minutes(1)).count() == 5);
  CHECK(recent(minutes(1)).PercentileUs(0.99) <= 100);
  CHECK(recent(minutes(5)).count() == 15);
  CHECK(recent(minutes(5)).PercentileUs(0.99) > 250'000);
  pass(minutes(6));
  CHECK(recent(minutes(1)).count() == 0);
  CHECK(recent(minutes(5)).count() == 0);
  StageHistograms all;
  latencies->AddTo(&all);
  CHECK(all[static_cast<size_t>(RequestStage::kCommit)].count() == 15);
  CHECK(all[static_cast<size_t>(RequestStage::kQueue)].count() == 0);
}

TEST_CASE("A percentile spreads the latencies of a bucket evenly") {
  LatencyHistogram histogram;
  CHECK(histogram.PercentileUs(0.99) == 0);
  histogram.buckets[LatencyHistogram::BucketOf(100)] = 50;
  histogram.buckets[LatencyHistogram::BucketOf(200)] = 50;
  CHECK(histogram.PercentileUs(0.25) == Approx(50));
  CHECK(histogram.PercentileUs(0.75) == Approx(175));
  CHECK(histogram.PercentileUs(1) == Approx(250));
  histogram.buckets.back() = 100;
  CHECK(histogram.PercentileUs(0.99) == Approx(10'000'000));
}

}  // namespace
}  // namespace quorate::rpc
