// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/metrics_reference.h"

#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "rpc/admin/metrics_page.h"
#include "rpc/zookeeper/monitor.h"

namespace quorate::rpc::admin {
namespace {

using zk::MetricType;

constexpr char kIntroduction[] =
    "# Metrics\n"
    "\n"
    "All metrics of a server, and where they are. The file is generated from "
    "`rpc/zookeeper/monitor.cc` and\n"
    "`rpc/admin/metrics_page.cc`. How to read them is in [the guide](../guides/monitoring.md).\n"
    "\n"
    "`mntr` puts `zk_` before each name. A summary is `NAME{quantile=...}`, `NAME_count` and "
    "`NAME_sum` for\n"
    "Prometheus, and `avg_NAME`, `min_NAME`, `max_NAME`, `cnt_NAME` and `sum_NAME` in `mntr` and "
    "`monitor`; one with\n"
    "percentiles has the quantiles 0.5, 0.9 and 0.99 for Prometheus, and `p50_NAME`, `p95_NAME`, "
    "`p99_NAME` and\n"
    "`p999_NAME` in the others.\n";

absl::string_view Name(MetricType type) {
  switch (type) {
    case MetricType::kText:
      return "text";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kCounter:
      return "counter";
    case MetricType::kSummary:
      return "summary";
    case MetricType::kDistribution:
      return "summary with percentiles";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "";
}

}  // namespace

std::string MetricsReference() {
  std::string page = kIntroduction;
  absl::StrAppend(
      &page,
      "\n## In Prometheus, `mntr` and `monitor`\n\nText is in `mntr` and `monitor` "
      "alone. Those marked with * are shown only while they have a meaning: by members "
      "of a cluster, or by leaders.\n\n| name | type | meaning |\n| --- | --- | --- |\n");
  for (const zk::Metric& metric : zk::Metrics()) {
    absl::StrAppend(&page, "| `", ToAbsl(metric.name), "`", metric.is_shown == nullptr ? "" : " *",
                    " | ", Name(metric.type), " | ", ToAbsl(metric.help), " |\n");
  }
  absl::StrAppend(&page,
                  "\n## In Prometheus alone\n\n| name | type | label | meaning |\n"
                  "| --- | --- | --- | --- |\n");
  for (const LabelledMetric& metric : LabelledMetrics()) {
    absl::StrAppend(&page, "| `", ToAbsl(metric.name), "` | ", Name(metric.type), " | ",
                    metric.label.empty() ? "" : absl::StrCat("`", ToAbsl(metric.label), "`"), " | ",
                    ToAbsl(metric.help), " |\n");
  }
  absl::StrAppend(
      &page,
      "\n## Not counted\n\nThese metrics of ZooKeeper belong to steps that Quorate does "
      "not have. Prometheus and `monitor` show them without values, so that dashboards "
      "have data.\n\n| name | type |\n| --- | --- |\n");
  for (const zk::UnusedMetric& metric : zk::UnusedMetrics()) {
    absl::StrAppend(&page, "| `", ToAbsl(metric.name), "` | ", Name(metric.type), " |\n");
  }
  return page;
}

}  // namespace quorate::rpc::admin
