// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/statistics.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/assert.h"

namespace quorate::rpc::zk {
namespace {

constexpr int64_t kExactBelow = 16;
constexpr int kExactBits = 4;

// Returns the least value of a bucket.
int64_t BucketStart(size_t bucket) {
  if (bucket < kExactBelow) return static_cast<int64_t>(bucket);
  const size_t step = bucket - kExactBelow;
  const int64_t power = int64_t{1} << (kExactBits + step / 4);
  return power + static_cast<int64_t>(step % 4) * (power / 4);
}

}  // namespace

// --- Distributions -------------------------------------------------------------------------------

size_t Distribution::BucketOf(int64_t value) {
  if (value < kExactBelow) return static_cast<size_t>(std::max<int64_t>(value, 0));
  const int exponent = std::bit_width(static_cast<uint64_t>(value)) - 1;
  const auto quarter = static_cast<size_t>((value >> (exponent - 2)) & 3);
  return std::min(kExactBelow + static_cast<size_t>(exponent - kExactBits) * 4 + quarter,
                  kBuckets - 1);
}

void Distribution::Merge(const Distribution& other) {
  count += other.count;
  sum += other.sum;
  min = std::min(min, other.min);
  max = std::max(max, other.max);
  for (size_t i = 0; i < kBuckets; ++i) buckets[i] += other.buckets[i];
}

int64_t Distribution::Percentile(double part) const {
  int64_t all = 0;
  for (int64_t bucket : buckets) all += bucket;
  int64_t below = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    below += buckets[i];
    if (below > 0 && static_cast<double>(below) >= part * static_cast<double>(all)) {
      return std::min(std::max(BucketStart(i), min), max);
    }
  }
  return 0;
}

void LiveDistribution::Add(int64_t value) {
  ASSERT(value >= 0);
  count_.Add(1);
  sum_.Add(value);
  if (value < min_.value()) min_.Set(value);
  if (value > max_.value()) max_.Set(value);
  buckets_[Distribution::BucketOf(value)].Add(1);
}

void LiveDistribution::Clear() {
  count_.Set(0);
  sum_.Set(0);
  min_.Set(INT64_MAX);
  max_.Set(0);
  for (Counter& bucket : buckets_) bucket.Set(0);
}

Distribution LiveDistribution::value() const {
  Distribution value;
  value.count = count_.value();
  value.sum = sum_.value();
  value.min = min_.value();
  value.max = max_.value();
  for (size_t i = 0; i < buckets_.size(); ++i) value.buckets[i] = buckets_[i].value();
  return value;
}

void LiveOpLatencies::Add(OpCode op, int64_t us) { histograms_[PositionOf(op)].Add(us); }

void LiveOpLatencies::Clear() {
  for (LiveLatencyHistogram& histogram : histograms_) histogram.Clear();
}

void LiveOpLatencies::AddTo(OpLatencies* sums) const {
  for (size_t op = 0; op < histograms_.size(); ++op) (*sums)[op].Merge(histograms_[op].value());
}

void LiveSizes::Add(int64_t size) {
  last_.Set(size);
  if (min() < 0 || size < min()) min_.Set(size);
  if (size > max()) max_.Set(size);
}

void LiveSizes::Clear() {
  for (Counter* counter : {&last_, &min_, &max_}) counter->Set(-1);
}

// --- Loops and connections -----------------------------------------------------------------------

void LoopStatistics::Clear() {
  for (Counter* counter :
       {&packets_received, &packets_sent, &bytes_received, &bytes_sent, &sessions_requested,
        &sessions_revalidated, &auth_failures, &large_requests_rejected, &handshakes_timed_out,
        &throttle_waits, &missed_events_sent, &missed_events_lost}) {
    counter->Set(0);
  }
  for (LiveDistribution* latency : {&latency_ms, &read_latency_ms, &update_latency_ms}) {
    latency->Clear();
  }
  op_latencies.Clear();
  response_bytes.Clear();
}

void ConnectionStatistics::AddLatency(int64_t ms) {
  latency_count.Add(1);
  latency_sum_ms.Add(ms);
  if (ms < latency_min_ms.value()) latency_min_ms.Set(ms);
  if (ms > latency_max_ms.value()) latency_max_ms.Set(ms);
  last_latency_ms.Set(ms);
}

void ConnectionStatistics::Clear() {
  for (Counter* counter :
       {&received, &sent, &latency_count, &latency_sum_ms, &latency_max_ms, &last_latency_ms}) {
    counter->Set(0);
  }
  latency_min_ms.Set(INT64_MAX);
}

LoopStatistics* Statistics::AddLoop() {
  loops_.push_back(std::make_unique<LoopStatistics>());
  return loops_.back().get();
}

std::shared_ptr<ConnectionStatistics> Statistics::AddConnection(uint32_t tag, std::string peer,
                                                                bool is_secure) {
  connections_count_.fetch_add(1, std::memory_order_relaxed);
  auto connection = std::make_shared<ConnectionStatistics>(std::move(peer), is_secure);
  connection->resets_seen.Set(connection_resets());
  MutexLock lock(&mutex_);
  connections_[tag] = connection;
  return connection;
}

void Statistics::RemoveConnection(uint32_t tag) {
  connections_count_.fetch_sub(1, std::memory_order_relaxed);
  MutexLock lock(&mutex_);
  const size_t erased = connections_.erase(tag);
  ASSERT(erased == 1);
}

Statistics::Totals Statistics::Sum() const {
  Totals totals;
  for (const auto& loop : loops_) {
    if (loop->resets_seen.value() != server_resets()) continue;
    totals.packets_received += loop->packets_received.value();
    totals.packets_sent += loop->packets_sent.value();
    totals.bytes_received += loop->bytes_received.value();
    totals.bytes_sent += loop->bytes_sent.value();
    totals.sessions_requested += loop->sessions_requested.value();
    totals.sessions_revalidated += loop->sessions_revalidated.value();
    totals.auth_failures += loop->auth_failures.value();
    totals.large_requests_rejected += loop->large_requests_rejected.value();
    totals.handshakes_timed_out += loop->handshakes_timed_out.value();
    totals.throttle_waits += loop->throttle_waits.value();
    totals.missed_events_sent += loop->missed_events_sent.value();
    totals.missed_events_lost += loop->missed_events_lost.value();
    totals.latency_ms.Merge(loop->latency_ms.value());
    totals.read_latency_ms.Merge(loop->read_latency_ms.value());
    totals.update_latency_ms.Merge(loop->update_latency_ms.value());
    const LiveSizes& sizes = loop->response_bytes;
    if (sizes.last() < 0) continue;
    totals.response_bytes_last = sizes.last();
    totals.response_bytes_max = std::max(totals.response_bytes_max, sizes.max());
    totals.response_bytes_min = totals.response_bytes_min < 0
                                    ? sizes.min()
                                    : std::min(totals.response_bytes_min, sizes.min());
  }
  return totals;
}

OpLatencies Statistics::SumOpLatencies() const {
  OpLatencies sums;
  for (const auto& loop : loops_) {
    if (loop->resets_seen.value() == server_resets()) loop->op_latencies.AddTo(&sums);
  }
  return sums;
}

StageHistograms Statistics::SumStages() const {
  StageHistograms sums;
  for (const auto& loop : loops_) loop->stages.AddTo(&sums);
  return sums;
}

StageHistograms Statistics::SumRecentStages(std::chrono::seconds window,
                                            std::chrono::steady_clock::time_point now) const {
  StageHistograms sums;
  for (const auto& loop : loops_) loop->stages.AddRecentTo(window, now, &sums);
  return sums;
}

int64_t Statistics::outstanding() const {
  int64_t sum = 0;
  for (const auto& loop : loops_) sum += loop->outstanding.value();
  return sum;
}

std::optional<uint32_t> Statistics::Visit(uint32_t from_tag, size_t count_max,
                                          const ConnectionFunction& connection) const {
  std::vector<std::shared_ptr<ConnectionStatistics>> visited;
  std::optional<uint32_t> next;
  {
    // The loops wait for the mutex when clients connect, so the work for each is done without it.
    MutexLock lock(&mutex_);
    auto it = connections_.lower_bound(from_tag);
    for (; visited.size() < count_max && it != connections_.end(); ++it) {
      visited.push_back(it->second);
    }
    if (it != connections_.end()) next = it->first;
  }
  for (const std::shared_ptr<ConnectionStatistics>& one : visited) {
    connection(*one, one->resets_seen.value() != connection_resets());
  }
  return next;
}

int64_t Statistics::SessionOf(uint32_t tag) const {
  MutexLock lock(&mutex_);
  const auto it = connections_.find(tag);
  return it == connections_.end() ? 0 : it->second->session_id.value();
}

}  // namespace quorate::rpc::zk
