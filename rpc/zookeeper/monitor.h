// SPDX-License-Identifier: Apache-2.0

// The table of metrics: the lines of the four-letter word `mntr`, each declared once, with its type
// and help text.
//
// Thread-safety: constant tables and functions without state.
#pragma once

#include <cstdint>
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

// The sources of the metrics: a snapshot of this server. The references outlive the object.
struct MetricSources {
  const ServerStatus& status;
  const ServerMetrics& server;
  const MemoryBudget& memory;
  const TenantTable& tenants;
  const Statistics& statistics;
  const Statistics::Totals& totals;  // of `statistics`
  const tree::Tree& tree;
  int64_t failed_authentications = 0;  // Service::failed_authentications
  std::string_view version;
  std::string_view mode;  // leader, follower, ...
  size_t watches = 0;     // of ZooKeeper clients
  int64_t read_only_sessions = 0;
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

// Returns a number as Java prints it, with at least one and up to four decimals.
std::string DecimalText(double value);

// Returns the reply to `mntr`: "zk_<name>\t<value>\n" for each metric that is shown; a summary or a
// distribution has several lines. Each line begins with "zk_", because some monitoring agents
// (telegraf) reject the whole reply otherwise.
std::string MonitorText(const MetricSources& sources);

}  // namespace quorate::rpc::zk
