// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/bench/workload.h"
#include "tools/cli/text.h"

namespace quorate::tools::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNsEachUs = 1000;
constexpr std::pair<const char*, double> kPercentiles[] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}};

double PercentileUs(const Histogram& histogram, double share) {
  return static_cast<double>(histogram.PercentileNs(share)) / kNsEachUs;
}

// Returns the processor time in microseconds per operation.
std::string CpuEach(const Measurement& measurement, std::optional<double> seconds) {
  if (!seconds.has_value()) return "?";
  if (measurement.operations == 0) return "-";
  return absl::StrFormat("%.1f us", *seconds * 1e6 / static_cast<double>(measurement.operations));
}

std::string SpreadText(const Spread& spread) {
  if (spread.count == 0) return "-";
  return absl::StrCat(Ratio(spread.median), " [", Ratio(spread.quartile1), " ",
                      Ratio(spread.quartile3), "]");
}

void AddRows(const std::string& label, const Measurement& measurement,
             std::vector<std::vector<std::string>>* rows) {
  for (size_t i = 0; i < measurement.series.size(); ++i) {
    const Histogram& latencies = measurement.latencies[i];
    std::vector<std::string> row = {i == 0 ? label : "",
                                    i == 0 ? Grouped(measurement.operations_per_second()) : "",
                                    measurement.series[i]};
    for (const auto& [name, share] : kPercentiles) {
      row.push_back(latencies.count() == 0 ? "-" : Latency(PercentileUs(latencies, share)));
    }
    if (i == 0) {
      row.push_back(CpuEach(measurement, measurement.server_cpu_seconds));
      row.push_back(CpuEach(measurement, measurement.tool_cpu_seconds));
      row.push_back(Grouped(static_cast<double>(measurement.error_count())));
    }
    rows->push_back(std::move(row));
  }
}

std::string FailoverText(const std::string& label, const Measurement& measurement) {
  std::string text = absl::StrCat("  ", label, ": writes paused for ");
  for (size_t i = 0; i < measurement.pauses_ms.size(); ++i) {
    absl::StrAppendFormat(&text, "%s%.0f", i == 0 ? "" : ", ", measurement.pauses_ms[i]);
  }
  absl::StrAppendFormat(&text, " ms (median %.0f ms); %d connections dropped\n",
                        SpreadOf(measurement.pauses_ms).median, measurement.connections_dropped);
  return text;
}

Json CpuJson(const Measurement& measurement, std::optional<double> seconds) {
  if (!seconds.has_value() || measurement.operations == 0) return nullptr;
  return *seconds * 1e6 / static_cast<double>(measurement.operations);
}

Json Known(double figure) { return figure < 0 ? Json(nullptr) : Json(figure); }

Json SpreadJson(const Spread& spread) {
  if (spread.count == 0) return nullptr;
  return {{"median", spread.median},
          {"quartile1", spread.quartile1},
          {"quartile3", spread.quartile3},
          {"pairs", spread.count}};
}

Json MeasurementJson(const std::string& label, const Measurement& measurement) {
  Json latencies = Json::object();
  for (size_t i = 0; i < measurement.series.size(); ++i) {
    const Histogram& histogram = measurement.latencies[i];
    Json series = {{"count", histogram.count()}, {"mean_us", histogram.mean_ns() / kNsEachUs}};
    for (const auto& [name, share] : kPercentiles) {
      series[absl::StrCat(name, "_us")] = PercentileUs(histogram, share);
    }
    latencies[measurement.series[i]] = std::move(series);
  }
  Json slices = Json::array();
  for (const SliceFigures& slice : measurement.slices) {
    slices.push_back({{"operations_per_second", Known(slice.operations_per_second)},
                      {"p50_us", Known(slice.p50_us)},
                      {"p99_us", Known(slice.p99_us)},
                      {"p99.9_us", Known(slice.p999_us)},
                      {"server_cpu_us", Known(slice.server_cpu_us)}});
  }
  Json json = {{"label", label},
               {"operations", measurement.operations},
               {"seconds", measurement.seconds},
               {"operations_per_second", measurement.operations_per_second()},
               {"latencies", std::move(latencies)},
               {"errors", measurement.errors},
               {"server_cpu_us", CpuJson(measurement, measurement.server_cpu_seconds)},
               {"tool_cpu_us", CpuJson(measurement, measurement.tool_cpu_seconds)},
               {"longest_pause_ms", Known(static_cast<double>(measurement.longest_pause_ns) / 1e6)},
               {"slices", std::move(slices)}};
  if (!measurement.pauses_ms.empty()) {
    json["pauses_ms"] = measurement.pauses_ms;
    json["connections_dropped"] = measurement.connections_dropped;
  }
  return json;
}

}  // namespace

std::string Latency(double us) {
  const auto format = [](double value, const char* unit) {
    const int digits = value < 10 ? 2 : value < 100 ? 1 : 0;
    return absl::StrFormat("%.*f %s", digits, value, unit);
  };
  if (us < 1000) return absl::StrFormat("%.0f us", us);
  if (us < 1e6) return format(us / 1e3, "ms");
  return format(us / 1e6, "s");
}

std::string Grouped(double number) {
  const std::string digits = absl::StrFormat("%.0f", number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string Ratio(double ratio) {
  const int digits = ratio < 1 ? 3 : ratio < 10 ? 2 : ratio < 100 ? 1 : 0;
  return absl::StrFormat("%.*f", digits, ratio);
}

std::string Describe(const std::string& workload, const Options& options) {
  std::vector<std::string> parts;
  if (workload == "watch") {
    parts.push_back(absl::StrCat(Grouped(static_cast<double>(options.watchers)), " watchers"));
  } else if (workload == "open-loop" || workload == "failover") {
    parts.push_back(absl::StrCat(options.connections, " connections, ", Grouped(options.rate),
                                 " operations/s"));
  } else if (workload == "connect" || workload == "lock" || workload == "idle") {
    parts.push_back(absl::StrCat(options.connections, " connections"));
  } else {
    parts.push_back(absl::StrCat(options.connections, " connections x ", options.depth));
  }
  if (workload == "populate") {
    parts.push_back(absl::StrCat(Grouped(options.count), " nodes, ", NameOf(options.shape),
                                 ", names of ", options.name_bytes, " B"));
  }
  if (workload == "children") parts.push_back(absl::StrCat(options.children, " children"));
  if (workload == "multi") {
    parts.push_back(absl::StrCat(options.multi_operations, " operations each"));
  }
  const bool has_data =
      workload != "connect" && workload != "lock" && workload != "children" && workload != "idle";
  if (has_data) parts.push_back(Bytes(options.data_bytes));
  if (workload == "failover") {
    parts.push_back(absl::StrCat(options.rounds, " rounds"));
  } else if (workload != "populate") {
    parts.push_back(absl::StrFormat("%g s", options.seconds));
  }
  std::string text;
  for (const std::string& part : parts) absl::StrAppend(&text, text.empty() ? "" : ", ", part);
  return text;
}

std::string ReportHeading(const Results& results) {
  std::string text = results.machine + "\n";
  for (const ClusterFacts& cluster : results.clusters) {
    absl::StrAppend(&text, cluster.label, ": ", cluster.servers, cluster.native ? " over gRPC" : "",
                    cluster.tls ? " with TLS" : "");
    if (!cluster.version.empty()) absl::StrAppend(&text, ", version ", cluster.version);
    if (!cluster.has_processes) {
      absl::StrAppend(&text,
                      "; the servers' processes are not visible (name them with --server-pids)");
    }
    text += '\n';
  }
  return text;
}

std::string ReportWorkload(const WorkloadResult& result, const Results& results,
                           const Options& options) {
  std::string text = absl::StrCat("\n", result.name, ": ", Describe(result.name, options), "\n");
  std::vector<std::vector<std::string>> rows = {{"", "ops/s", "latency of", "p50", "p90", "p99",
                                                 "p99.9", "max", "server CPU/op", "own CPU/op",
                                                 "errors"}};
  for (size_t i = 0; i < result.measurements.size(); ++i) {
    AddRows(results.clusters[i].label, result.measurements[i], &rows);
  }
  text += Table(rows);
  if (result.ratios.has_value() && result.name != "failover") {
    const Ratios& ratios = *result.ratios;
    absl::StrAppend(&text, results.clusters[0].label, " / ", results.clusters[1].label, ": ops/s ",
                    SpreadText(ratios.operations_per_second), ", p50 ", SpreadText(ratios.p50),
                    ", p99 ", SpreadText(ratios.p99), ", server CPU ",
                    SpreadText(ratios.server_cpu), "; median [quartiles] of ",
                    ratios.operations_per_second.count, " pairs\n");
  }
  for (size_t i = 0; i < result.measurements.size(); ++i) {
    const Measurement& measurement = result.measurements[i];
    const std::string& label = results.clusters[i].label;
    if (!measurement.pauses_ms.empty()) text += FailoverText(label, measurement);
    for (const auto& [what, times] : measurement.errors) {
      absl::StrAppend(&text, "  ", label, ": ", times, " x ", what, "\n");
    }
  }
  return text;
}

Json ToJson(const Results& results, const Options& options) {
  Json clusters = Json::array();
  for (const ClusterFacts& cluster : results.clusters) {
    clusters.push_back(
        {{"label", cluster.label},
         {"servers", cluster.servers},
         {"protocol", cluster.native ? "grpc" : "zookeeper"},
         {"tls", cluster.tls},
         {"version", cluster.version.empty() ? Json(nullptr) : Json(cluster.version)}});
  }
  Json workloads = Json::array();
  for (const WorkloadResult& result : results.workloads) {
    Json measurements = Json::array();
    for (size_t i = 0; i < result.measurements.size(); ++i) {
      measurements.push_back(MeasurementJson(results.clusters[i].label, result.measurements[i]));
    }
    Json workload = {{"name", result.name},
                     {"description", Describe(result.name, options)},
                     {"measurements", std::move(measurements)}};
    if (result.ratios.has_value()) {
      workload["ratios"] = {
          {"operations_per_second", SpreadJson(result.ratios->operations_per_second)},
          {"p50", SpreadJson(result.ratios->p50)},
          {"p99", SpreadJson(result.ratios->p99)},
          {"p99.9", SpreadJson(result.ratios->p999)},
          {"server_cpu", SpreadJson(result.ratios->server_cpu)}};
    }
    workloads.push_back(std::move(workload));
  }
  return {{"machine", results.machine},
          {"clusters", std::move(clusters)},
          {"options",
           {{"connections", options.connections},
            {"depth", options.depth},
            {"data_bytes", options.data_bytes},
            {"keys", options.keys},
            {"children", options.children},
            {"multi_operations", options.multi_operations},
            {"watchers", options.watchers},
            {"count", options.count},
            {"shape", NameOf(options.shape)},
            {"name_bytes", options.name_bytes},
            {"rate", options.rate},
            {"seconds", options.seconds},
            {"warm_up_seconds", options.warm_up_seconds},
            {"slice_seconds", options.slice_seconds}}},
          {"workloads", std::move(workloads)}};
}

}  // namespace quorate::tools::bench
