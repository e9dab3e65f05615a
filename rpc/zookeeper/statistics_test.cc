// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/statistics.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace quorate::rpc::zk {
namespace {

TEST_CASE("percentiles are exact for small values and near for large ones") {
  LiveDistribution values;
  CHECK(values.value().Percentile(0.99) == 0);
  CHECK(values.value().shown_min() == 0);
  for (int64_t i = 1; i <= 10; ++i) values.Add(i);
  CHECK(values.value().Percentile(0.5) == 5);
  CHECK(values.value().Percentile(0.999) == 10);
  CHECK(values.value().shown_min() == 1);
  CHECK(values.value().average() == 5.5);
  for (int64_t i = 0; i < 90; ++i) values.Add(1000);
  const Distribution distribution = values.value();
  CHECK(distribution.Percentile(0.5) <= 1000);
  CHECK(distribution.Percentile(0.5) >= 800);
  CHECK(distribution.max == 1000);
  values.Add(INT64_MAX / 2);
  CHECK(values.value().Percentile(1) > 1'000'000);
  values.Clear();
  CHECK(values.value().count == 0);
  CHECK(values.value().Percentile(1) == 0);
}

TEST_CASE("a percentile is not below the least value") {
  LiveDistribution values;
  for (int i = 0; i < 3; ++i) values.Add(19);  // their bucket begins below 19
  CHECK(values.value().Percentile(0.5) == 19);
  CHECK(values.value().Percentile(0.999) == 19);
}

TEST_CASE("buckets never go down as values go up") {
  size_t last = 0;
  for (int64_t value = 0; value < 100'000; ++value) {
    const size_t bucket = Distribution::BucketOf(value);
    REQUIRE((bucket == last || bucket == last + 1));
    last = bucket;
  }
}

TEST_CASE("a latency is in the bucket of the least bound that it does not exceed") {
  CHECK(LatencyHistogram::BucketOf(0) == 0);
  CHECK(LatencyHistogram::BucketOf(100) == 0);
  CHECK(LatencyHistogram::BucketOf(101) == 1);
  CHECK(LatencyHistogram::BucketOf(10'000'000) == LatencyHistogram::kBuckets - 2);
  CHECK(LatencyHistogram::BucketOf(10'000'001) == LatencyHistogram::kBuckets - 1);
}

TEST_CASE("latencies of all loops are added up by opcode, and a reset clears them") {
  Statistics statistics;
  LoopStatistics* loop = statistics.AddLoop();
  statistics.AddLoop()->op_latencies.Add(OpCode::kGetData, 101);
  loop->op_latencies.Add(OpCode::kGetData, 50);
  loop->op_latencies.Add(OpCode::kCreate, 7);
  loop->op_latencies.Add(static_cast<OpCode>(12'345), 8);
  const OpLatencies sums = statistics.SumOpLatencies();
  const LatencyHistogram& reads = sums[PositionOf(OpCode::kGetData)];
  CHECK(reads.buckets[0] == 1);
  CHECK(reads.buckets[1] == 1);
  CHECK(reads.count() == 2);
  CHECK(reads.sum_us == 151);
  CHECK(sums[PositionOf(OpCode::kCreate)].sum_us == 7);
  CHECK(sums[PositionOf(OpCode::kDelete)].count() == 0);
  CHECK(sums.back().sum_us == 8);
  statistics.ResetServer();
  CHECK(statistics.SumOpLatencies()[PositionOf(OpCode::kCreate)].count() == 0);
  loop->Clear();
  loop->resets_seen.Set(statistics.server_resets());
  CHECK(statistics.SumOpLatencies()[PositionOf(OpCode::kCreate)].count() == 0);
}

TEST_CASE("what a loop did before the statistics were reset is not shown after") {
  Statistics statistics;
  LoopStatistics* loop = statistics.AddLoop();
  LoopStatistics* other = statistics.AddLoop();
  loop->packets_received.Add(3);
  other->packets_received.Add(4);
  loop->response_bytes.Add(7);
  other->response_bytes.Add(5);
  other->outstanding.Add(2);
  CHECK(statistics.Sum().packets_received == 7);
  CHECK(statistics.Sum().response_bytes_min == 5);
  CHECK(statistics.Sum().response_bytes_max == 7);
  statistics.ResetServer();
  CHECK(statistics.Sum().packets_received == 0);
  CHECK(statistics.Sum().response_bytes_max == -1);
  CHECK(statistics.outstanding() == 2);
  // One of the two loops sees the reset.
  loop->Clear();
  loop->resets_seen.Set(statistics.server_resets());
  loop->packets_received.Add(1);
  CHECK(statistics.Sum().packets_received == 1);
}

TEST_CASE("connections are visited in parts, whatever comes and goes between them") {
  Statistics statistics;
  for (uint32_t tag = 0; tag < 10; ++tag) statistics.AddConnection(tag, std::to_string(tag));
  std::vector<std::string> seen;
  const auto see = [&](const ConnectionStatistics& connection, bool) {
    statistics.SessionOf(0);  // would wait for ever if the statistics were locked
    seen.push_back(connection.peer);
  };
  std::optional<uint32_t> next = statistics.Visit(0, 4, see);
  REQUIRE(next == 4);
  statistics.RemoveConnection(4);
  statistics.RemoveConnection(0);
  next = statistics.Visit(*next, 4, see);
  REQUIRE(next == 9);
  CHECK_FALSE(statistics.Visit(*next, 4, see).has_value());
  CHECK(seen == std::vector<std::string>{"0", "1", "2", "3", "5", "6", "7", "8", "9"});
  CHECK(statistics.connections() == 8);
}

}  // namespace
}  // namespace quorate::rpc::zk
