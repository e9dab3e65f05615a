// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/metrics_text.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <string>

namespace quorate::rpc::admin {
namespace {

using std::chrono::minutes;
using zk::Distribution;
using zk::MetricType;

constexpr QuantileWindow::Time kStart{};

void Add(int64_t value, Distribution* to) {
  Distribution one;
  one.count = 1;
  one.sum = one.min = one.max = value;
  one.buckets[Distribution::BucketOf(value)] = 1;
  to->Merge(one);
}

TEST_CASE("samples have help, a type, escaped labels, and numbers as Java prints them") {
  MetricsText text;
  text.Add("quorate_a", MetricType::kGauge, "a\\b\nc", {{{{"x", "q\"\\\n"}, {"y", "2"}}, 5}});
  text.Add("quorate_b", MetricType::kCounter, "b", {{{}, 0.25}});
  text.Add("quorate_none", MetricType::kGauge, "no samples, so no metric", {});
  CHECK(text.text() ==
        "# HELP quorate_a a\\\\b\\nc\n# TYPE quorate_a gauge\n"
        "quorate_a{x=\"q\\\"\\\\\\n\",y=\"2\"} 5.0\n"
        "# HELP quorate_b b\n# TYPE quorate_b counter\nquorate_b 0.25\n");
}

TEST_CASE("only the metrics asked for are shown") {
  MetricsText text({"b"});
  text.Add("a", MetricType::kGauge, "a", {{{}, 1}});
  text.Add("b", MetricType::kGauge, "b", {{{}, 2}});
  CHECK(text.text() == "# HELP b b\n# TYPE b gauge\nb 2.0\n");
}

TEST_CASE("a distribution has three quantiles, its count and its sum") {
  MetricsText text;
  QuantileWindow window;
  Distribution values;
  for (int64_t i = 1; i <= 10; ++i) Add(i, &values);
  const zk::Metric metric{"lat", MetricType::kDistribution, "h", nullptr};
  text.Add(metric, values, &window, kStart);
  CHECK(text.text() ==
        "# HELP lat h\n# TYPE lat summary\nlat{quantile=\"0.5\"} 5.0\nlat{quantile=\"0.9\"} 9.0\n"
        "lat{quantile=\"0.99\"} 10.0\nlat_count 10.0\nlat_sum 55.0\n");
}

TEST_CASE("a histogram has cumulative buckets in seconds, its sum and its count") {
  MetricsText text;
  zk::LatencyHistogram latencies;
  latencies.buckets.front() = 2;
  latencies.buckets[3] = 1;
  latencies.buckets.back() = 4;
  latencies.sum_us = 1'500'000;
  text.AddHistograms("lat", "h", "op", {{"create", latencies}});
  text.AddHistograms("none", "h", "op", {});
  CHECK(
      text.text().starts_with("# HELP lat h\n# TYPE lat histogram\n"
                              "lat_bucket{op=\"create\",le=\"0.0001\"} 2.0\n"
                              "lat_bucket{op=\"create\",le=\"0.00025\"} 2.0\n"
                              "lat_bucket{op=\"create\",le=\"0.0005\"} 2.0\n"
                              "lat_bucket{op=\"create\",le=\"0.001\"} 3.0\n"));
  CHECK(
      text.text().ends_with("lat_bucket{op=\"create\",le=\"10\"} 3.0\n"
                            "lat_bucket{op=\"create\",le=\"+Inf\"} 7.0\n"
                            "lat_sum{op=\"create\"} 1.5\nlat_count{op=\"create\"} 7.0\n"));
}

TEST_CASE("quantiles are those of the last ten minutes") {
  QuantileWindow window;
  Distribution values;
  for (int i = 0; i < 100; ++i) Add(1, &values);
  CHECK(window.Recent("m", values, kStart).count == 100);
  // Asked each minute, the window forgets what is older than ten minutes.
  for (int minute = 1; minute <= 10; ++minute) {
    window.Recent("m", values, kStart + minutes(minute));
  }
  for (int i = 0; i < 3; ++i) Add(7, &values);
  const Distribution recent = window.Recent("m", values, kStart + minutes(12));
  CHECK(recent.count == 3);
  CHECK(recent.Percentile(0.5) == 7);
  // A reset makes the counts smaller: everything since then counts.
  Distribution later;
  Add(2, &later);
  CHECK(window.Recent("m", later, kStart + minutes(13)).count == 1);
}

TEST_CASE("without a sample a summary has NaN as its quantiles") {
  MetricsText text;
  text.Add(zk::UnusedMetric{"s", MetricType::kSummary});
  text.Add(zk::UnusedMetric{"c", MetricType::kCounter});
  const std::string help = std::string(zk::kUnusedMetricHelp);
  CHECK(text.text() == "# HELP s " + help +
                           "\n# TYPE s summary\ns{quantile=\"0.5\"} NaN\ns_count 0.0\ns_sum 0.0\n"
                           "# HELP c " +
                           help + "\n# TYPE c counter\nc 0.0\n");
}

}  // namespace
}  // namespace quorate::rpc::admin
