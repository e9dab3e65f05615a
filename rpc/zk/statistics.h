// What srvr, stat and mntr report of the door's work.
//
// Thread-safety: all functions may be called from any thread. Counters are relaxed: they are added
// to once a batch, and read by people.
#pragma once

#include <atomic>
#include <cstdint>

namespace quorate::rpc::zk {

class Statistics {
 public:
  std::atomic<int64_t> packets_received{0};
  std::atomic<int64_t> packets_sent{0};
  std::atomic<int64_t> connections{0};
  std::atomic<int64_t> outstanding{0};  // requests received and not answered
  std::atomic<int64_t> connections_refused{0};

  // A request that went through the log was answered after `latency_ms`.
  void AddLatency(int64_t latency_ms) {
    latency_count_.fetch_add(1, std::memory_order_relaxed);
    latency_sum_ms_.fetch_add(latency_ms, std::memory_order_relaxed);
    int64_t max = latency_max_ms_.load(std::memory_order_relaxed);
    while (latency_ms > max && !latency_max_ms_.compare_exchange_weak(max, latency_ms)) {
    }
    int64_t min = latency_min_ms_.load(std::memory_order_relaxed);
    while (latency_ms < min && !latency_min_ms_.compare_exchange_weak(min, latency_ms)) {
    }
  }
  int64_t latency_min_ms() const { return latency_count_ == 0 ? 0 : latency_min_ms_.load(); }
  int64_t latency_max_ms() const { return latency_max_ms_; }
  double latency_average_ms() const {
    const int64_t count = latency_count_;
    return count == 0 ? 0 : static_cast<double>(latency_sum_ms_) / static_cast<double>(count);
  }

 private:
  std::atomic<int64_t> latency_count_{0};
  std::atomic<int64_t> latency_sum_ms_{0};
  std::atomic<int64_t> latency_max_ms_{0};
  std::atomic<int64_t> latency_min_ms_{INT64_MAX};
};

}  // namespace quorate::rpc::zk
