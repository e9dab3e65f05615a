// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/request_statistics.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/manual_clock.h"

namespace quorate::rpc {
namespace {

using std::chrono::minutes;

// Returns a clock at a time at which a step begins.
ManualClock ClockAtStep() {
  const ManualClock clock;
  CHECK(clock.Now() ==
        LoopTopRequests::Steps::BeginOf(LoopTopRequests::Steps::NumberAt(clock.Now())));
  return clock;
}

RequestSample Sample(std::string_view client, std::string_view path = "/a/b/c") {
  return {.client = client,
          .session = 7,
          .scheme = "digest",
          .id = "ann",
          .path = path,
          .operation = "getData"};
}

// Adds requests of a client as a loop does. Returns how many were looked at.
int AddRequests(LoopTopRequests* top, std::string_view client, int count,
                const ManualClock& clock) {
  int sampled = 0;
  for (int i = 0; i < count; ++i) {
    if (!top->ShouldSample(clock.Now())) continue;
    ++sampled;
    top->Add(Sample(client), clock.Now());
  }
  return sampled;
}

std::vector<TopEntry> Top(const LoopTopRequests& top, RequestKey key, const ManualClock& clock,
                          size_t count_max = 10) {
  std::vector<TopEntry> entries;
  top.AddTo(key, clock.Now(), &entries);
  return TopOf(std::move(entries), count_max);
}

TEST_CASE("a window has the latencies of its time, and no others") {
  RequestStatistics statistics;
  LoopRequests* loop = statistics.AddLoop();
  LoopRequests* other = statistics.AddLoop();
  ManualClock clock = ClockAtStep();
  CHECK(statistics.SumRecent(minutes(1), clock.Now()).all().seconds == 0);
  loop->recent_reads.Add(900'000, clock.Now());
  clock.Advance(120'000);
  for (int i = 0; i < 99; ++i) loop->recent_reads.Add(2000, clock.Now());
  other->recent_writes.Add(40'000, clock.Now());
  clock.Advance(30'000);
  const auto minute = statistics.SumRecent(minutes(1), clock.Now());
  CHECK(minute.reads.count() == 99);
  CHECK(minute.reads.max_us == 2000);
  CHECK(minute.reads.average_us() == 2000);
  // All are in the bucket up to 2.5 ms, but none took longer than 2 ms.
  CHECK(minute.reads.PercentileUs(0.99) == 2000);
  CHECK(minute.writes.count() == 1);
  CHECK(minute.all().count() == 100);
  CHECK(minute.all().max_us == 40'000);
  CHECK(minute.all().seconds >= 60);
  CHECK(minute.all().seconds <= 70);
  const auto five = statistics.SumRecent(minutes(5), clock.Now());
  CHECK(five.reads.count() == 100);
  CHECK(five.reads.max_us == 900'000);
  CHECK(five.all().seconds >= 150);  // since the first request
  CHECK(five.all().seconds <= 160);
  // A loop that has nothing to do forgets all the same.
  clock.Advance(600'000);
  CHECK(statistics.SumRecent(minutes(5), clock.Now()).all().count() == 0);
  CHECK(statistics.SumRecent(minutes(5), clock.Now()).all().max_us == 0);
}

TEST_CASE("the place of an old step of latencies is taken by a new one") {
  RecentLatencies latencies;
  ManualClock clock = ClockAtStep();
  for (int step = 0; step < 200; ++step) {
    clock.Advance(10'000);
    latencies.Add(step == 0 ? 1'000'000 : 1000, clock.Now());
  }
  WindowLatencies sum;
  latencies.AddRecentTo(minutes(5), clock.Now(), &sum);
  CHECK(sum.count() == 31);
  CHECK(sum.max_us == 1000);
}

TEST_CASE("few requests are counted exactly, by client, identity, path and operation") {
  RequestStatistics statistics;
  LoopRequests* loop = statistics.AddLoop();
  LoopRequests* other = statistics.AddLoop();
  const ManualClock clock = ClockAtStep();
  CHECK(AddRequests(&loop->top, "10.0.0.1:1", 30, clock) == 30);
  CHECK(AddRequests(&other->top, "10.0.0.2:1", 50, clock) == 50);
  CHECK(AddRequests(&other->top, "10.0.0.1:1", 5, clock) == 5);
  const auto clients = statistics.Top(RequestKey::kClient, clock.Now(), 10);
  REQUIRE(clients.size() == 2);
  CHECK(clients[0].text == "10.0.0.2:1");
  CHECK(clients[0].session == 7);
  CHECK(clients[0].count == 50);
  CHECK(clients[1].text == "10.0.0.1:1");
  CHECK(clients[1].count == 35);
  const auto only = [&](RequestKey key) {
    const auto top = statistics.Top(key, clock.Now(), 10);
    REQUIRE(top.size() == 1);
    CHECK(top[0].count == 85);
    return top[0].text;
  };
  CHECK(only(RequestKey::kIdentity) == "digest:ann");
  CHECK(only(RequestKey::kPath) == "/a/b");
  CHECK(only(RequestKey::kOperation) == "getData");
  CHECK(statistics.Top(RequestKey::kClient, clock.Now(), 1).size() == 1);
}

TEST_CASE("requests are forgotten after a minute") {
  LoopTopRequests top;
  ManualClock clock = ClockAtStep();
  AddRequests(&top, "old", 10, clock);
  clock.Advance(55'000);
  AddRequests(&top, "new", 3, clock);
  CHECK(Top(top, RequestKey::kClient, clock).size() == 2);
  clock.Advance(20'000);
  REQUIRE(Top(top, RequestKey::kClient, clock).size() == 1);
  CHECK(Top(top, RequestKey::kClient, clock)[0].text == "new");
  // The place of a step is used again, and nothing of it is left.
  clock.Advance(5000);
  AddRequests(&top, "newest", 1, clock);
  clock.Advance(60'000);
  REQUIRE(Top(top, RequestKey::kClient, clock).size() == 1);
  CHECK(Top(top, RequestKey::kClient, clock)[0].text == "newest");
}

TEST_CASE("one who floods is found among very many, and none is shown with too many requests") {
  LoopTopRequests top;
  const ManualClock clock = ClockAtStep();
  constexpr int kOthers = 5000;
  for (int i = 0; i < kOthers; ++i) {
    top.Add(Sample("flood"), clock.Now());
    top.Add(Sample(absl::StrCat("client", i)), clock.Now());
  }
  const auto clients = Top(top, RequestKey::kClient, clock, 100);
  CHECK(clients.size() <= LiveSketch::kCounters);
  REQUIRE(!clients.empty());
  CHECK(clients[0].text == "flood");
  // The gap has grown, so that the two are not exactly equal.
  int64_t all = 0;
  for (const TopEntry& entry : Top(top, RequestKey::kOperation, clock)) all += entry.count;
  CHECK(clients[0].count > all * 45 / 100);
  CHECK(clients[0].count < all * 55 / 100);
  CHECK(clients[1].count < all / 50);
}

TEST_CASE("of very many requests only some are looked at, and they stand for all") {
  LoopTopRequests top(99);
  ManualClock clock = ClockAtStep();
  constexpr int kPerSecond = 200'000;
  int sampled = 0;
  for (int second = 0; second < 9; ++second) {
    int of_second = 0;
    // A pattern whose period divides the gaps.
    for (int i = 0; i < kPerSecond; ++i) {
      if (!top.ShouldSample(clock.Now())) continue;
      ++of_second;
      top.Add(Sample(i % 4 == 0 ? "quarter" : "rest"), clock.Now());
    }
    sampled += of_second;
    clock.Advance(1000);
  }
  CHECK(sampled < 9 * 10 * LoopTopRequests::kSamplesPerSecond);
  const auto clients = Top(top, RequestKey::kClient, clock);
  REQUIRE(clients.size() == 2);
  const double all = 9.0 * kPerSecond;
  CHECK(static_cast<double>(clients[0].count + clients[1].count) == Approx(all).epsilon(0.05));
  CHECK(static_cast<double>(clients[1].count) == Approx(all / 4).epsilon(0.08));
}

TEST_CASE("after a peak, few requests are counted exactly") {
  const int idle_seconds = GENERATE(15, 600);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    LoopTopRequests top(seed);
    ManualClock clock = ClockAtStep();
    for (int second = 0; second < 5; ++second) {
      AddRequests(&top, "peak", 200'000, clock);
      clock.Advance(1000);
    }
    clock.Advance(idle_seconds * 1000);
    for (int second = 0; second < 50; ++second) {
      AddRequests(&top, "few", 1, clock);
      clock.Advance(1000);
    }
    std::vector<TopEntry> clients = Top(top, RequestKey::kClient, clock);
    std::erase_if(clients, [](const TopEntry& entry) { return entry.text == "peak"; });
    REQUIRE(clients.size() == 1);
    CHECK(clients[0].count == 50);
  }
}

TEST_CASE("requests of a rate that sinks are neither lost nor counted twice") {
  int64_t real = 0;
  int64_t shown = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    LoopTopRequests top(seed);
    ManualClock clock = ClockAtStep();
    AddRequests(&top, "peak", 400'000, clock);
    for (int second = 0; second < 12; ++second) {
      clock.Advance(1000);
      AddRequests(&top, "few", 20, clock);
      real += 20;
    }
    for (const TopEntry& entry : Top(top, RequestKey::kClient, clock)) {
      if (entry.text == "few") shown += entry.count;
    }
  }
  CHECK(static_cast<double>(shown) == Approx(static_cast<double>(real)).epsilon(0.03));
}

TEST_CASE("long texts are cut, and hostile ones change nothing") {
  LoopTopRequests top;
  const ManualClock clock = ClockAtStep();
  const std::string long_path = "/" + std::string(5000, 'x');
  RequestSample sample = Sample(std::string_view("a\0b\n", 4), long_path);
  sample.scheme = long_path;
  sample.id = "";
  top.Add(sample, clock.Now());
  CHECK(Top(top, RequestKey::kClient, clock)[0].text == std::string("a\0b\n", 4));
  CHECK(Top(top, RequestKey::kPath, clock)[0].text == long_path.substr(0, 96));
  CHECK(Top(top, RequestKey::kIdentity, clock)[0].text.size() == 96);
  sample.scheme = "";
  sample.path = "";
  top.Add(sample, clock.Now());
  CHECK(Top(top, RequestKey::kIdentity, clock)[0].count == 1);
  CHECK(Top(top, RequestKey::kPath, clock)[0].count == 1);
  CHECK(Top(top, RequestKey::kClient, clock)[0].count == 2);
}

TEST_CASE("users of a name with different passwords are told apart, without their hashes") {
  LoopTopRequests top;
  const ManualClock clock = ClockAtStep();
  RequestSample sample = Sample("client");
  const std::string long_name(200, 'n');
  for (const std::string& id :
       {std::string("ann:aaaa="), std::string("ann:bbbb="), long_name + ":1", long_name + ":2"}) {
    sample.id = id;
    top.Add(sample, clock.Now());
  }
  sample.scheme = "sasl";
  sample.id = "ann:x";
  top.Add(sample, clock.Now());
  const std::vector<TopEntry> identities = Top(top, RequestKey::kIdentity, clock);
  REQUIRE(identities.size() == 5);
  CHECK(identities[0].text.starts_with("digest:ann#"));
  CHECK(identities[1].text.starts_with("digest:ann#"));
  CHECK(identities[2].text.size() == LiveSketch::kTextBytesMax);
  CHECK(identities[3].text.size() == LiveSketch::kTextBytesMax);
  CHECK(identities[4].text == "sasl:ann:x");
}

TEST_CASE("a path counts for its first two components") {
  CHECK(PathPrefixOf("/") == "/");
  CHECK(PathPrefixOf("/a") == "/a");
  CHECK(PathPrefixOf("/a/b") == "/a/b");
  CHECK(PathPrefixOf("/a/b/c/d") == "/a/b");
  CHECK(PathPrefixOf("") == "");
  CHECK(PathPrefixOf("////") == "//");
}

TEST_CASE("operations of loops with the same names are added up") {
  static constexpr std::string_view kNames[] = {"x", "y"};
  RequestStatistics statistics;
  statistics.AddLoop(kNames)->operations[1].Add(100);
  statistics.AddLoop(kNames)->operations[1].Add(300);
  statistics.AddLoop();
  const auto sums = statistics.SumOperations();
  REQUIRE(sums.size() == 2);
  CHECK(sums[0].second.count() == 0);
  CHECK(sums[1].first == "y");
  CHECK(sums[1].second.sum_us == 400);
}

}  // namespace
}  // namespace quorate::rpc
