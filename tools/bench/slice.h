// SPDX-License-Identifier: Apache-2.0

// The values measured in one slice of time, and their sums over all slices of a run.
//
// Thread-safety: values without state of their own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/histogram.h"

namespace quorate::tools::bench {

// The values of one slice, which a running workload records. Operations that end from `begin_ns` to
// `end_ns` count. An operation that is outstanding at `end_ns` still adds its latency when it ends,
// so that no slow operation is left out.
struct Slice {
  explicit Slice(size_t series) : latencies(series) {}

  int64_t begin_ns = INT64_MAX;
  int64_t end_ns = INT64_MAX;
  uint64_t operations = 0;
  // The latencies of each series of the workload.
  std::vector<Histogram> latencies;
  // The number of errors of each kind: "connection lost", "no node".
  std::map<std::string, uint64_t> errors;
  // When the last operation that counted was answered, and the longest time without an answer;
  // negative: not known.
  int64_t last_answer_ns = 0;
  int64_t longest_pause_ns = -1;
  // The processor time. That of the servers is set only if all their processes are known.
  double tool_cpu_seconds = 0;
  std::optional<double> server_cpu_seconds;

  // Records that an operation has ended. It counts if `now_ns` lies in the slice.
  void Count(int64_t now_ns) {
    if (now_ns < begin_ns || now_ns >= end_ns) return;
    ++operations;
    RecordPause(now_ns);
    last_answer_ns = now_ns;
  }
  // Adds the latency of an operation.
  void Record(size_t series, int64_t start_ns, int64_t now_ns) {
    if (now_ns >= begin_ns) latencies[series].Add(now_ns - start_ns);
  }
  // Records a pause that has lasted until now and continues, because no answer has ended it.
  void RecordPause(int64_t now_ns) {
    const int64_t since = last_answer_ns == 0 ? begin_ns : last_answer_ns;
    if (now_ns - since > longest_pause_ns) longest_pause_ns = now_ns - since;
  }
};

// The values of a slice by which two clusters are compared. A negative value is not known.
struct SliceFigures {
  double operations_per_second = -1;
  double p50_us = -1;  // of the first series
  double p99_us = -1;
  double p999_us = -1;
  double server_cpu_us = -1;  // per operation
};

// All slices of one workload at one cluster.
struct Measurement {
  explicit Measurement(std::vector<std::string> names)
      : series(std::move(names)), latencies(series.size()) {}

  // Adds a finished slice, in which operations counted for `slice_seconds`.
  void Add(const Slice& slice, double slice_seconds);

  double operations_per_second() const {
    return seconds > 0 ? static_cast<double>(operations) / seconds : 0;
  }
  uint64_t error_count() const;

  // The names of the series, the most important one first.
  std::vector<std::string> series;
  std::vector<Histogram> latencies;
  double seconds = 0;
  uint64_t operations = 0;
  std::map<std::string, uint64_t> errors;
  int64_t longest_pause_ns = -1;  // negative: not known
  double tool_cpu_seconds = 0;
  std::optional<double> server_cpu_seconds = 0;
  std::vector<SliceFigures> slices;
  // For failover: how long writes were not answered, one value per round, and how many connections
  // were dropped in all rounds.
  std::vector<double> pauses_ms;
  uint64_t connections_dropped = 0;
};

}  // namespace quorate::tools::bench
