// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/metrics_text.h"

#include <cmath>
#include <limits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/strings.h"

namespace quorate::rpc::admin {
namespace {

using zk::Distribution;
using zk::MetricType;

constexpr double kQuantiles[] = {0.5, 0.9, 0.99};
constexpr double kMicrosecondsPerSecond = 1e6;

absl::string_view TypeName(MetricType type) {
  switch (type) {
    case MetricType::kText:
      return "untyped";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kCounter:
      return "counter";
    case MetricType::kSummary:
    case MetricType::kDistribution:
      return "summary";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "untyped";
}

// Returns the value in the form of Java, which monitoring of ZooKeeper expects: "5.0", "NaN".
std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::string text = absl::StrFormat("%.17g", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

// --- Quantiles -----------------------------------------------------------------------------------

Distribution QuantileWindow::Recent(std::string_view name, const Distribution& distribution,
                                    Time now) {
  MutexLock lock(&mutex_);
  auto found = histories_.find(name);
  if (found == histories_.end()) {
    // Before the first call, everything since the start is recent.
    found = histories_.emplace(std::string(name), History{{now, Distribution()}}).first;
  }
  History& history = found->second;
  if (distribution.count < history.back().second.count) history = {{now, Distribution()}};
  if (now - history.back().first >= kStep) history.emplace_back(now, distribution);
  while (history.size() > 1 && now - history[1].first >= kStep * kStepsMax) history.pop_front();
  Distribution recent = distribution;
  const Distribution& before = history.front().second;
  recent.count -= before.count;
  recent.sum -= before.sum;
  for (size_t i = 0; i < recent.buckets.size(); ++i) recent.buckets[i] -= before.buckets[i];
  return recent;
}

// --- Text ----------------------------------------------------------------------------------------

bool MetricsText::Begin(std::string_view name, MetricType type, std::string_view help) {
  if (!only_.empty() && !only_.contains(name)) return false;
  absl::StrAppend(&text_, "# HELP ", ToAbsl(name), " ",
                  absl::StrReplaceAll(ToAbsl(help), {{"\\", "\\\\"}, {"\n", "\\n"}}), "\n# TYPE ",
                  ToAbsl(name), " ", TypeName(type), "\n");
  return true;
}

void MetricsText::AddSample(std::string_view name, std::string_view suffix, const Labels& labels,
                            double value) {
  absl::StrAppend(&text_, ToAbsl(name), ToAbsl(suffix));
  const char* separator = "{";
  for (const auto& [label, text] : labels) {
    absl::StrAppend(&text_, separator, ToAbsl(label), "=\"",
                    absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}),
                    "\"");
    separator = ",";
  }
  absl::StrAppend(&text_, labels.empty() ? " " : "} ", NumberText(value), "\n");
}

void MetricsText::AddSummary(std::string_view name,
                             const std::vector<std::pair<double, double>>& quantiles, int64_t count,
                             int64_t sum) {
  for (const auto& [quantile, value] : quantiles) {
    AddSample(name, "", {{"quantile", absl::StrCat(quantile)}}, value);
  }
  AddSample(name, "_count", {}, static_cast<double>(count));
  AddSample(name, "_sum", {}, static_cast<double>(sum));
}

void MetricsText::Add(std::string_view name, MetricType type, std::string_view help,
                      const std::vector<std::pair<Labels, double>>& samples) {
  if (samples.empty() || !Begin(name, type, help)) return;
  for (const auto& [labels, value] : samples) AddSample(name, "", labels, value);
}

void MetricsText::AddHistograms(std::string_view name, std::string_view help,
                                std::string_view label,
                                const std::vector<LabelledHistogram>& histograms) {
  if (histograms.empty() || !Begin(name, MetricType::kHistogram, help)) return;
  for (const auto& [value, histogram] : histograms) {
    int64_t count = 0;
    for (size_t i = 0; i < histogram.buckets.size(); ++i) {
      count += histogram.buckets[i];
      const std::string bound =
          i < histogram.kBoundsUs.size()
              ? absl::StrCat(static_cast<double>(histogram.kBoundsUs[i]) / kMicrosecondsPerSecond)
              : "+Inf";
      AddSample(name, "_bucket", {{label, value}, {"le", bound}}, static_cast<double>(count));
    }
    AddSample(name, "_sum", {{label, value}},
              static_cast<double>(histogram.sum_us) / kMicrosecondsPerSecond);
    AddSample(name, "_count", {{label, value}}, static_cast<double>(count));
  }
}

void MetricsText::Add(const zk::Metric& metric, const zk::MetricValue& value,
                      QuantileWindow* window, QuantileWindow::Time now) {
  if (metric.type == MetricType::kText || !Begin(metric.name, metric.type, metric.help)) return;
  if (const auto* times = std::get_if<TimeSummary>(&value)) {
    return AddSummary(metric.name, {{0.5, std::numeric_limits<double>::quiet_NaN()}}, times->count,
                      times->sum_ms);
  }
  if (const auto* all = std::get_if<Distribution>(&value)) {
    const Distribution recent = window->Recent(metric.name, *all, now);
    std::vector<std::pair<double, double>> quantiles;
    for (const double quantile : kQuantiles) {
      quantiles.emplace_back(quantile, recent.count == 0
                                           ? std::numeric_limits<double>::quiet_NaN()
                                           : static_cast<double>(recent.Percentile(quantile)));
    }
    return AddSummary(metric.name, quantiles, all->count, all->sum);
  }
  if (const auto* number = std::get_if<int64_t>(&value)) {
    AddSample(metric.name, "", {}, static_cast<double>(*number));
  } else if (const auto* count = std::get_if<uint64_t>(&value)) {
    AddSample(metric.name, "", {}, static_cast<double>(*count));
  } else if (const auto* real = std::get_if<double>(&value)) {
    AddSample(metric.name, "", {}, *real);
  }
}

void MetricsText::Add(const zk::UnusedMetric& metric) {
  if (!Begin(metric.name, metric.type, zk::kUnusedMetricHelp)) return;
  if (metric.type == MetricType::kCounter || metric.type == MetricType::kGauge) {
    return AddSample(metric.name, "", {}, 0);
  }
  const size_t quantiles = metric.type == MetricType::kSummary ? 1 : std::size(kQuantiles);
  std::vector<std::pair<double, double>> unknown;
  for (size_t i = 0; i < quantiles; ++i) {
    unknown.emplace_back(kQuantiles[i], std::numeric_limits<double>::quiet_NaN());
  }
  AddSummary(metric.name, unknown, 0, 0);
}

}  // namespace quorate::rpc::admin
