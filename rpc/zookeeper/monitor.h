// SPDX-License-Identifier: Apache-2.0

// The table of metrics, each declared once, with its type and help text. The four-letter word `mntr`,
// the command `monitor` over HTTP and the metrics for Prometheus are made from it.
//
// Thread-safety: constant tables and functions without state.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "rpc/frontend/memory_budget.h"
#include "rpc/frontend/service.h"
#include "rpc/frontend/tenant_limits.h"
#include "rpc/zookeeper/statistics.h"
#include "tree/tree.h"

namespace quorate::rpc::zk {

// What the metrics show of a tree. It is copied, so that the pages over HTTP are formatted without the
// lock of the tree, for which writes would wait.
struct TreeTotals {
  explicit TreeTotals(const tree::Tree& tree);
  // Returns those of the tree of `service`, which is locked for that time only.
  static TreeTotals Read(const Service& service);

  size_t nodes;
  size_t ephemerals;
  size_t data_bytes;
  size_t sessions;
  size_t node_memory_bytes;
  size_t session_memory_bytes;
  size_t answer_memory_bytes;
};

// The sources of the metrics: a snapshot of this server. The references outlive the object.
struct MetricSources {
  const ServerStatus& status;
  const ServerMetrics& server;
  const MemoryBudget& memory;
  const TenantTable& tenants;
  const Statistics& statistics;
  const Statistics::Totals& totals;  // of `statistics`
  TreeTotals tree;
  // The latencies of the last minute and of the last five.
  RequestStatistics::Recent last_minute;
  RequestStatistics::Recent last_five_minutes;
  int64_t failed_authentications = 0;  // Service::failed_authentications
  std::string_view version;
  std::string_view mode;       // leader, follower, ...
  size_t watches = 0;          // of ZooKeeper clients
  int64_t local_sessions = 0;  // those of read-only clients included
  int64_t open_files = 0;
  uint64_t open_files_max = 0;
  int64_t uptime_ms = 0;
};

enum class MetricType : uint8_t {
  kText,
  kGauge,         // the current value
  kCounter,       // since the start, or since the word `srst`; never decreases otherwise
  kSummary,       // average, min, max, count and sum of durations
  kDistribution,  // a summary and percentiles
  kHistogram,     // counts of values by buckets; in Prometheus alone
};

using MetricValue = std::variant<int64_t, uint64_t, double, std::string, TimeSummary, Distribution>;

struct Metric {
  // Without "zk_"; of a summary, without "avg_" and the like. The name of a metric that ZooKeeper
  // does not have begins with "quorate_".
  std::string_view name;
  MetricType type;
  std::string_view help;
  MetricValue (*value)(const MetricSources& sources);
  // Whether this server has the metric now; nullptr: always.
  bool (*is_shown)(const MetricSources& sources) = nullptr;
};

// All metrics, in the order of their lines.
std::span<const Metric> Metrics();

// A metric of ZooKeeper for which this server has nothing to count. `monitor` and Prometheus show it
// without values, because dashboards expect the name.
struct UnusedMetric {
  std::string_view name;
  MetricType type;
};
inline constexpr std::string_view kUnusedMetricHelp =
    "a metric of ZooKeeper that this server does not count";
std::span<const UnusedMetric> UnusedMetrics();

// The parts of the value of a metric: a summary has several.
using PlainValue = std::variant<int64_t, uint64_t, double, std::string>;
using UsePlainValue = std::function<void(std::string_view name, const PlainValue& value)>;
// Calls `use` with each part of each metric that is shown, in the order of the table. A summary has the
// parts avg_<name>, min_, max_, cnt_ and sum_, and a distribution also p50_, p95_, p99_ and p999_.
void ForEachValue(const MetricSources& sources, const UsePlainValue& use);
// Does the same for the metrics that are not counted, with zeros.
void ForEachUnusedValue(const UsePlainValue& use);

// Returns a number as Java prints it, with at least one and up to four decimals.
std::string DecimalText(double value);

// Returns the reply to `mntr`: "zk_<name>\t<value>\n" for each metric that is shown; a summary or a
// distribution has several lines. Each line begins with "zk_", because some monitoring agents
// (telegraf) reject the whole reply otherwise.
std::string MonitorText(const MetricSources& sources);

}  // namespace quorate::rpc::zk
