// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/request_stages.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <utility>

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
  CHECK(ring.Find(1).state == MarkRing::State::kUnknown);
  ring.Add(10, clock.Now());
  const auto first = clock.Now();
  clock.Advance(5);
  ring.Add(10, clock.Now());  // nothing new
  ring.Add(12, clock.Now(), /*leads=*/true);
  CHECK(ring.Find(3).time == first);
  CHECK(ring.Find(10).time == first);
  CHECK(!ring.Find(10).leads);
  const auto found = ring.Find(12);
  CHECK((found.first == 11 && found.last == 12));
  CHECK(found.time == clock.Now());
  CHECK(found.leads);
  CHECK(!found.Contains(10));
  CHECK(ring.Find(13).state == MarkRing::State::kNotReached);
}

TEST_CASE("Positions that are reached again have the later time") {
  ManualClock clock;
  MarkRing ring;
  ring.Add(10, clock.Now());
  ring.Add(12, clock.Now());
  clock.Advance(100);
  ring.Add(9, clock.Now());
  CHECK(!ring.Find(12).is_reached());
  ring.Add(12, clock.Now());
  clock.Advance(1);
  ring.Add(15, clock.Now());
  CHECK(ring.Find(12).time == clock.Now() - milliseconds(1));
  CHECK(ring.Find(11).time == clock.Now() - milliseconds(1));
}

TEST_CASE(
    "After a lower mark, positions up to it keep their time, and those above it have a new one") {
  ManualClock clock;
  const auto at = [&clock](int ms) { return clock.Now() + milliseconds(ms); };
  MarkRing ring;
  ring.Add(10, at(1));
  ring.Add(20, at(2));
  ring.Add(15, at(29));  // the log was truncated after 15
  CHECK(!ring.Find(17).is_reached());
  ring.Add(18, at(30));
  CHECK(ring.Find(17).time == at(30));
  CHECK(ring.Find(17).first == 16);
  CHECK(ring.Find(18).time == at(30));
  CHECK(!ring.Find(19).is_reached());
  CHECK(ring.Find(15).time == at(2));
  CHECK(ring.Find(12).time == at(2));
  CHECK(ring.Find(12).Contains(15));
  CHECK(!ring.Find(12).Contains(16));
  CHECK(ring.Find(10).time == at(1));
}

TEST_CASE("A position whose mark was overwritten is not known") {
  ManualClock clock;
  MarkRing ring;
  for (uint64_t i = 1; i <= 2 * MarkRing::kMarks; ++i) {
    clock.Advance(1);
    ring.Add(10 * i, clock.Now());
  }
  CHECK(ring.Find(20 * MarkRing::kMarks).time == clock.Now());
  CHECK(ring.Find(20 * MarkRing::kMarks - 15).time == clock.Now() - milliseconds(1));
  const auto gone = ring.Find(1);
  CHECK(gone.state == MarkRing::State::kUnknown);
  CHECK(ring.Find(10 * MarkRing::kMarks).state == MarkRing::State::kUnknown);
  // It is known at once of all positions up to the oldest mark.
  CHECK(gone.Contains(10 * MarkRing::kMarks));
  CHECK(!ring.Find(gone.last).is_reached());
  CHECK(!gone.Contains(gone.last + 1));
  CHECK(ring.Find(gone.last + 1).is_reached());
}

TEST_CASE("A mark that is overwritten while it is read is not found") {
  MarkRing ring;
  const auto add = [&ring](uint64_t position, int64_t ns) {
    ring.Add(position, MarkRing::TimePoint(std::chrono::nanoseconds(ns)));
  };
  const bool is_full = GENERATE(true, false);
  const uint64_t marks = is_full ? MarkRing::kMarks : MarkRing::kMarks - 1;
  for (uint64_t i = 1; i <= marks; ++i) add(i, 1);
  bool is_first = true;
  const auto overwrite_from = [&](uint64_t first) {
    return [&, first] {
      if (!std::exchange(is_first, false)) return;
      for (uint64_t i = 0; i < MarkRing::kMarks; ++i) add(first + i, 2);
    };
  };
  SECTION("by marks of higher positions") {
    const auto found = ring.FindMeanwhile(5, overwrite_from(marks + 1));
    CHECK(!found.is_reached());
    CHECK(!found.Contains(5));
  }
  SECTION("by marks of the same positions, which are reached again") {
    const auto found = ring.FindMeanwhile(marks, overwrite_from(1));
    CHECK(!found.is_reached());
    CHECK(!found.Contains(marks));
  }
  SECTION("but a mark that stays is found") {
    const auto found = ring.FindMeanwhile(marks, [&] {
      if (std::exchange(is_first, false)) add(marks + 1, 2);
    });
    CHECK(found.is_reached());
    CHECK(found.time.time_since_epoch().count() == 1);
  }
}

TEST_CASE("A reader beside the writer finds no mark of another position") {
  MarkRing ring;
  std::atomic<uint64_t> written{0};
  std::atomic<bool> stops{false};
  std::thread writer([&] {
    // The time of each mark is its position.
    for (uint64_t i = 1; !stops.load(); ++i) {
      ring.Add(i, MarkRing::TimePoint(std::chrono::nanoseconds(i)));
      written.store(i);
    }
  });
  size_t wrong = 0;
  size_t hits = 0;
  // The positions are of all ages: from the newest mark to those that the writer is about to overwrite.
  for (uint64_t age = 0; hits < 20'000; age = (age + 7) % (MarkRing::kMarks - 3)) {
    const uint64_t last = written.load();
    if (last <= MarkRing::kMarks) continue;
    const uint64_t position = last - age;
    const auto found = ring.Find(position);
    if (!found.is_reached()) continue;
    ++hits;
    const auto ns = static_cast<uint64_t>(found.time.time_since_epoch().count());
    wrong += found.last != position || found.first != position || ns != position ? 1 : 0;
  }
  stops.store(true);
  writer.join();
  CHECK(wrong == 0);
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

TEST_CASE("A write that is answered before the mark of its chunk was applied until then") {
  Fixture f;
  f.MarkAfter(2, &f.marks.sent, 7, /*leads=*/true);
  f.marks.applied.Add(100, f.clock.Now());  // an earlier chunk
  f.MarkAfter(30, &f.marks.committed, 107);
  const StageTimes times = f.AnswerAfter(400, 7, 107);
  CHECK(Us(times, RequestStage::kApply) == 400'000);
  CHECK(Us(times, RequestStage::kAnswer) == 0);
}

TEST_CASE("A leader's write whose mark of the proposal is gone still waited for the disk") {
  Fixture f;
  const bool leads = GENERATE(true, false);
  f.MarkAfter(1, &f.marks.sent, 7, leads);
  for (uint64_t i = 0; i < MarkRing::kMarks; ++i) {
    f.marks.sent.Add(100 + i, f.clock.Now(), leads);
  }
  f.MarkAfter(300, &f.marks.durable, 107);
  f.MarkAfter(20, &f.marks.committed, 107, leads);
  f.MarkAfter(1, &f.marks.applied, 107);
  StageFinder finder(&f.marks);
  const StageTimes times = finder.Find(f.received, f.clock.Now(), 7, 107);
  CHECK(Us(times, RequestStage::kQueue) == -1);
  CHECK(Us(times, RequestStage::kLogWrite) == (leads ? 301'000 : -1));
  CHECK(Us(times, RequestStage::kCommit) == (leads ? 20'000 : 321'000));
}

TEST_CASE("The times of a batch are kept until they are dropped") {
  Fixture f;
  f.MarkAfter(1, &f.marks.sent, 7, /*leads=*/true);
  StageFinder finder(&f.marks);
  CHECK(finder.Find(f.received, f.clock.Now(), 7, 107).us(RequestStage::kQueue) == 1000);
  f.marks.sent.Add(0, f.clock.Now());
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
