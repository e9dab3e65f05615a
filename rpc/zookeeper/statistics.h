// SPDX-License-Identifier: Apache-2.0

// The statistics of the front end that srvr, stat, cons and mntr report.
//
// Each number has one writer, the thread of a loop (or the apply thread), and any number of
// readers: a write is a plain store, and requests take no lock for it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "rpc/frontend/connection_counters.h"
#include "rpc/frontend/latency_histogram.h"
#include "rpc/frontend/request_stages.h"
#include "rpc/zookeeper/opcodes.h"

namespace quorate::rpc::zk {

using rpc::Counter;
using rpc::LatencyHistogram;

// A histogram of values: exact below 16; above, four buckets for each power of two. A value type.
class Distribution {
 public:
  static constexpr size_t kBuckets = 128;
  static size_t BucketOf(int64_t value);

  int64_t count = 0;
  int64_t sum = 0;
  int64_t min = INT64_MAX;  // without values: shown as 0
  int64_t max = 0;
  std::array<int64_t, kBuckets> buckets{};

  void Merge(const Distribution& other);
  int64_t shown_min() const { return count == 0 ? 0 : min; }
  double average() const {
    return count == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(count);
  }
  // Returns the value that the least `part` (0 to 1) of all values do not exceed, rounded down to
  // the least value of its bucket, but not below the minimum; 0 if there are no values.
  int64_t Percentile(double part) const;
};

// A Distribution with one writer. Thread-safety: Add and Clear from the writer's thread, value from
// any. The result of value() may lack parts of a concurrent Add.
class LiveDistribution {
 public:
  // REQUIRES: value >= 0.
  void Add(int64_t value);
  void Clear();
  Distribution value() const;

 private:
  Counter count_;
  Counter sum_;
  Counter min_{INT64_MAX};
  Counter max_;
  std::array<Counter, Distribution::kBuckets> buckets_;
};

// The least, greatest and last of the sizes added; -1 if there is none, as ZooKeeper shows it.
class LiveSizes {
 public:
  void Add(int64_t size);
  void Clear();
  int64_t last() const { return last_.value(); }
  int64_t min() const { return min_.value(); }
  int64_t max() const { return max_.value(); }

 private:
  Counter last_{-1};
  Counter min_{-1};
  Counter max_{-1};
};

// The latencies of each opcode, in the order of kOpCodes; the last one is for unknown opcodes.
inline constexpr size_t kLatencyHistograms = std::size(kOpCodes) + 1;
using OpLatencies = std::array<LatencyHistogram, kLatencyHistograms>;

// OpLatencies with one writer. Thread-safety: Add and Clear from the writer's thread, AddTo from any.
// What AddTo adds may lack parts of a concurrent Add.
class LiveOpLatencies {
 public:
  void Add(OpCode op, int64_t us);
  void Clear();
  void AddTo(OpLatencies* sums) const;

 private:
  std::array<LiveLatencyHistogram, kLatencyHistograms> histograms_;
};

// The statistics of a loop since the last reset. Thread-safety: written on the loop's thread.
struct LoopStatistics {
  Counter packets_received;
  Counter packets_sent;
  Counter bytes_received;
  Counter bytes_sent;
  Counter sessions_requested;
  Counter sessions_revalidated;
  Counter auth_failures;
  Counter large_requests_rejected;
  Counter handshakes_timed_out;
  Counter throttle_waits;
  Counter missed_events_sent;
  Counter missed_events_lost;
  LiveDistribution latency_ms;  // of all requests
  LiveDistribution read_latency_ms;
  LiveDistribution update_latency_ms;
  LiveOpLatencies op_latencies;
  LiveSizes response_bytes;
  Counter resets_seen;  // not reset: the number of resets applied here

  StageLatencies stages;  // not reset, because windows are computed from it
  // Not reset: the number of requests received and not answered.
  Counter outstanding;

  void Clear();
};

// The statistics of a connection, as cons and stat show them. Thread-safety: written on the thread
// of its loop, except for the constants.
struct ConnectionStatistics {
  explicit ConnectionStatistics(std::string peer_name, bool has_tls = false)
      : peer(std::move(peer_name)), is_secure(has_tls) {}

  const std::string peer;  // address:port
  const bool is_secure;    // uses TLS
  Counter queued;
  Counter session_id;  // 0: none yet
  Counter established_ms;
  Counter timeout_ms;
  Counter last_operation;  // the number of an OpCode; that of kNotification: none yet
  Counter last_xid{-1};
  Counter last_zxid;
  Counter last_response_ms;  // monotonic clock, not wall clock, as in ZooKeeper

  // These are reset by crst.
  Counter received;
  Counter sent;
  Counter latency_count;
  Counter latency_sum_ms;
  Counter latency_min_ms{INT64_MAX};
  Counter latency_max_ms;
  Counter last_latency_ms;
  Counter resets_seen;

  void AddLatency(int64_t ms);
  void Clear();
};

// The statistics of all loops and connections of a front end. Thread-safety: any thread.
class Statistics {
 public:
  // Called once for each loop, before the first connection. The result lives as long as this
  // object.
  LoopStatistics* AddLoop();
  std::shared_ptr<ConnectionStatistics> AddConnection(uint32_t tag, std::string peer,
                                                      bool is_secure = false);
  void RemoveConnection(uint32_t tag);
  int64_t connections() const { return connections_count_.load(std::memory_order_relaxed); }

  // Loops and connections clear their statistics when they see that the number of resets has grown;
  // until then they are shown as cleared.
  void ResetServer() { server_resets_.fetch_add(1); }
  void ResetConnections() { connection_resets_.fetch_add(1); }
  int64_t server_resets() const { return server_resets_.load(std::memory_order_relaxed); }
  int64_t connection_resets() const { return connection_resets_.load(std::memory_order_relaxed); }

  // The sums of all loops.
  struct Totals {
    int64_t packets_received = 0;
    int64_t packets_sent = 0;
    int64_t bytes_received = 0;
    int64_t bytes_sent = 0;
    int64_t sessions_requested = 0;
    int64_t sessions_revalidated = 0;
    int64_t auth_failures = 0;
    int64_t large_requests_rejected = 0;
    int64_t handshakes_timed_out = 0;
    int64_t throttle_waits = 0;
    int64_t missed_events_sent = 0;
    int64_t missed_events_lost = 0;
    Distribution latency_ms;
    Distribution read_latency_ms;
    Distribution update_latency_ms;
    int64_t response_bytes_last = -1;
    int64_t response_bytes_min = -1;
    int64_t response_bytes_max = -1;
  };
  Totals Sum() const;
  // Returns the latencies of the requests of all loops, by opcode.
  OpLatencies SumOpLatencies() const;
  // Returns how long the stages of requests took in all loops: since the start, or in the last `window`.
  StageHistograms SumStages() const;
  StageHistograms SumRecentStages(std::chrono::seconds window,
                                  std::chrono::steady_clock::time_point now) const;
  // The number of requests received and not answered, of all loops; cheaper than Sum.
  int64_t outstanding() const;

  // Calls `connection` for up to `count_max` connections in the order of their tags, from
  // `from_tag` on. Returns the tag to continue with; no value if there are no more. `cleared`: the
  // connection has not seen the last reset, so its resettable values count as 0. No lock is held during
  // the calls; a connection may be removed meanwhile.
  using ConnectionFunction =
      std::function<void(const ConnectionStatistics& connection, bool cleared)>;
  std::optional<uint32_t> Visit(uint32_t from_tag, size_t count_max,
                                const ConnectionFunction& connection) const;

  // Returns the session of a connection; 0 if there is none.
  int64_t SessionOf(uint32_t tag) const;

  std::atomic<int64_t> connections_refused{0};
  // Handshakes of TLS: those under way now, those that wait for them, and how many failed, or were
  // refused because too many were under way.
  std::atomic<int64_t> tls_handshakes{0};
  std::atomic<int64_t> tls_handshakes_waiting{0};
  std::atomic<int64_t> tls_handshakes_failed{0};
  std::atomic<int64_t> tls_handshakes_refused{0};
  // Returns how many handshakes have failed in other front ends; nullptr: there are none. Set before
  // there is a client.
  int64_t (*handshakes_failed_elsewhere)() = nullptr;
  // Connections that a port which takes clients without TLS has accepted, from this machine and from
  // others.
  std::atomic<int64_t> local_connections_without_tls{0};
  std::atomic<int64_t> remote_connections_without_tls{0};
  // Wrong credentials of administrators, of all front ends.
  std::atomic<int64_t> administrators_refused{0};
  // Connections of gRPC clients.
  ConnectionCounters grpc_connections;

 private:
  std::vector<std::unique_ptr<LoopStatistics>> loops_;
  std::atomic<int64_t> server_resets_{0};
  std::atomic<int64_t> connection_resets_{0};
  std::atomic<int64_t> connections_count_{0};

  mutable Mutex mutex_;
  std::map<uint32_t, std::shared_ptr<ConnectionStatistics>> connections_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate::rpc::zk
