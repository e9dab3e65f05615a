// SPDX-License-Identifier: Apache-2.0

// The text format of Prometheus, version 0.0.4. The text is short and made from a table that other
// formats share (rpc/zookeeper/monitor.h), whose values are not kept by a registry; so it is written
// here, and not by prometheus-cpp, which counts by itself and gives counters the suffix _total, which
// the dashboards for ZooKeeper do not expect.
//
// Thread-safety: MetricsText is used by one thread at a time; QuantileWindow by any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "rpc/zookeeper/monitor.h"

namespace quorate::rpc::admin {

inline constexpr char kMetricsContentType[] = "text/plain; version=0.0.4; charset=utf-8";

// Gives the quantiles of the last ten minutes, as ZooKeeper's do, of distributions that count since
// the start: it keeps the distribution of each minute in which it was asked. If it was asked less
// often, the time is longer.
class QuantileWindow {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr auto kStep = std::chrono::minutes(1);
  static constexpr size_t kStepsMax = 10;

  // Returns what was added to `distribution` since the oldest one that is kept. After a reset of
  // statistics, returns `distribution`.
  zk::Distribution Recent(std::string_view name, const zk::Distribution& distribution, Time now);

 private:
  using History = std::deque<std::pair<Time, zk::Distribution>>;
  Mutex mutex_;
  std::map<std::string, History, std::less<>> histories_ ABSL_GUARDED_BY(mutex_);
};

class MetricsText {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string>>;

  // Only the metrics named in `only` are added, unless it is empty.
  explicit MetricsText(std::set<std::string, std::less<>> only = {}) : only_(std::move(only)) {}

  // Adds the lines # HELP and # TYPE, and one sample for each pair. The characters \, " and newline
  // in values of labels are escaped.
  void Add(std::string_view name, zk::MetricType type, std::string_view help,
           const std::vector<std::pair<Labels, double>>& samples);
  // Adds a histogram of seconds for each pair of a label's value and latencies; nothing if there are
  // none.
  using LabelledHistogram = std::pair<std::string, zk::LatencyHistogram>;
  void AddHistograms(std::string_view name, std::string_view help, std::string_view label,
                     const std::vector<LabelledHistogram>& histograms);
  // Adds a metric of the table; nothing for text. `window` gives the quantiles.
  void Add(const zk::Metric& metric, const zk::MetricValue& value, QuantileWindow* window,
           QuantileWindow::Time now);
  // Adds a metric of ZooKeeper that is never counted here.
  void Add(const zk::UnusedMetric& metric);

  const std::string& text() const { return text_; }

 private:
  bool Begin(std::string_view name, zk::MetricType type, std::string_view help);
  void AddSample(std::string_view name, std::string_view suffix, const Labels& labels,
                 double value);
  void AddSummary(std::string_view name, const std::vector<std::pair<double, double>>& quantiles,
                  int64_t count, int64_t sum);

  const std::set<std::string, std::less<>> only_;
  std::string text_;
};

}  // namespace quorate::rpc::admin
