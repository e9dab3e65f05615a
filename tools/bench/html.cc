// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/html.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/bench/chart.h"
#include "tools/bench/report.h"

namespace quorate::tools::bench {
namespace {

constexpr double kNsEachUs = 1000;

constexpr char kStyle[] = R"(
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --faint: #5c6670; --grid: #d9dee4;
  --c0: #0b62c4; --c1: #c2540a; --c2: #2c8a3d; --c3: #8a3ffc; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14171b; --text: #e4e8ec; --faint: #9aa5b1; --grid: #343b43;
    --c0: #6cb0ff; --c1: #ff9d5c; --c2: #6fce80; --c3: #c09bff; } }
body { background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif;
  max-width: 1000px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.2em; margin: 2em 0 0; } p { margin: .3em 0; }
.faint { color: var(--faint); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .8em 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2em .8em .2em 0; text-align: right; white-space: nowrap; }
th { color: var(--faint); font-weight: normal; border-bottom: 1px solid var(--grid); }
th:first-child, td:first-child, .left { text-align: left; }
svg { max-width: 100%; height: auto; margin: .5em 1em .5em 0; font: 12px system-ui, sans-serif; }
.mark { fill: var(--faint); } .title { fill: var(--text); font-size: 13px; }
.grid { stroke: var(--grid); } .one { stroke: var(--faint); }
.line { fill: none; stroke-width: 2; } .bar { stroke-width: 6; opacity: .45; }
.whisker { stroke: var(--text); stroke-width: 1.5; } .dot { stroke: none; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 50%; margin-right: .4em; }
)";

std::string Colors() {
  std::string style;
  for (int i = 0; i < 4; ++i) {
    absl::StrAppendFormat(&style,
                          ".c%d.line, .c%d.bar { stroke: var(--c%d); } .c%d.dot { fill: "
                          "var(--c%d); } .key.c%d { background: var(--c%d); }\n",
                          i, i, i, i, i, i, i);
  }
  return style;
}

std::string Cell(const std::string& text, const char* attributes = "") {
  return absl::StrCat("<td", attributes, ">", text, "</td>");
}

std::string Key(size_t color, const std::string& label) {
  return absl::StrFormat("<span class=\"key c%d\"></span>%s", color, Escaped(label));
}

std::string CpuCell(const Measurement& measurement, std::optional<double> seconds) {
  if (!seconds.has_value() || measurement.operations == 0) return Cell("-");
  const double each_us = *seconds * 1e6 / static_cast<double>(measurement.operations);
  return Cell(absl::StrFormat("%.1f us", each_us));
}

std::string FiguresTable(const WorkloadResult& result, const Results& results) {
  std::string html =
      "<div class=\"scroll\"><table><tr><th></th><th>ops/s</th><th class=\"left\">latency of</th>"
      "<th>p50</th><th>p90</th><th>p99</th><th>p99.9</th><th>max</th><th>server CPU/op</th>"
      "<th>own CPU/op</th><th>errors</th></tr>";
  for (size_t side = 0; side < result.measurements.size(); ++side) {
    const Measurement& measurement = result.measurements[side];
    for (size_t i = 0; i < measurement.series.size(); ++i) {
      const Histogram& latencies = measurement.latencies[i];
      html += "<tr>";
      html += Cell(i == 0 ? Key(side, results.clusters[side].label) : "");
      html += Cell(i == 0 ? Grouped(measurement.operations_per_second()) : "");
      html += Cell(Escaped(measurement.series[i]), " class=\"left\"");
      for (const double share : {0.5, 0.9, 0.99, 0.999, 1.0}) {
        const double us = static_cast<double>(latencies.PercentileNs(share)) / kNsEachUs;
        html += Cell(latencies.count() == 0 ? "-" : Latency(us));
      }
      if (i == 0) {
        html += CpuCell(measurement, measurement.server_cpu_seconds);
        html += CpuCell(measurement, measurement.tool_cpu_seconds);
        html += Cell(Grouped(static_cast<double>(measurement.error_count())));
      }
      html += "</tr>";
    }
  }
  return html + "</table></div>";
}

std::string LatencyChart(const WorkloadResult& result, const Results& results) {
  constexpr std::pair<const char*, double> kMarks[] = {
      {"p50", 0.5},  {"p75", 0.75},    {"p90", 0.9}, {"p95", 0.95},
      {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}};
  LineChart chart;
  chart.title = "Latency of " + result.measurements[0].series[0];
  chart.log_y = true;
  chart.y_text = Latency;
  chart.x_max = static_cast<double>(std::size(kMarks) - 1);
  for (size_t i = 0; i < std::size(kMarks); ++i) {
    chart.x_marks.emplace_back(static_cast<double>(i), kMarks[i].first);
  }
  for (size_t side = 0; side < result.measurements.size(); ++side) {
    const Histogram& latencies = result.measurements[side].latencies[0];
    ChartLine line{results.clusters[side].label, side, {}};
    for (size_t i = 0; i < std::size(kMarks) && latencies.count() > 0; ++i) {
      line.points.emplace_back(
          static_cast<double>(i),
          static_cast<double>(latencies.PercentileNs(kMarks[i].second)) / kNsEachUs);
    }
    chart.lines.push_back(std::move(line));
  }
  return ToSvg(chart);
}

std::string RateChart(const WorkloadResult& result, const Results& results) {
  LineChart chart;
  chart.title = "Operations a second, by slice";
  chart.y_text = Grouped;
  size_t slices = 1;
  for (size_t side = 0; side < result.measurements.size(); ++side) {
    ChartLine line{results.clusters[side].label, side, {}};
    for (const SliceFigures& figures : result.measurements[side].slices) {
      line.points.emplace_back(static_cast<double>(line.points.size() + 1),
                               figures.operations_per_second);
    }
    slices = std::max(slices, line.points.size());
    chart.lines.push_back(std::move(line));
  }
  chart.x_min = 1;
  chart.x_max = std::max(2.0, static_cast<double>(slices));
  const size_t step = std::max<size_t>(1, slices / 8);
  for (size_t i = 1; i <= slices; i += step) {
    chart.x_marks.emplace_back(static_cast<double>(i), absl::StrCat(i));
  }
  return ToSvg(chart);
}

std::string PausesChart(const WorkloadResult& result, const Results& results) {
  LineChart chart;
  chart.title = "Pause of writes when the leader dies, by round";
  chart.y_text = [](double ms) { return Latency(ms * 1000); };
  chart.x_min = 1;
  for (size_t side = 0; side < result.measurements.size(); ++side) {
    ChartLine line{results.clusters[side].label, side, {}};
    for (const double pause_ms : result.measurements[side].pauses_ms) {
      line.points.emplace_back(static_cast<double>(line.points.size() + 1), pause_ms);
    }
    chart.x_max = std::max(2.0, static_cast<double>(line.points.size()));
    chart.lines.push_back(std::move(line));
  }
  for (double round = 1; round <= chart.x_max; ++round) {
    chart.x_marks.emplace_back(round, absl::StrFormat("%.0f", round));
  }
  return ToSvg(chart);
}

// Returns the chart of all ratios.
std::string RatiosChart(const Results& results) {
  std::vector<RatioRow> rows;
  for (const WorkloadResult& result : results.workloads) {
    if (!result.ratios.has_value() || result.name == "failover") continue;
    const auto add = [&rows, &result](const char* what, size_t color, const Spread& spread) {
      if (spread.count == 0) return;
      rows.push_back({absl::StrCat(result.name, ": ", what), color, spread.median, spread.quartile1,
                      spread.quartile3});
    };
    add("operations/s", 2, result.ratios->operations_per_second);
    add("median latency", 3, result.ratios->p50);
    add("p99 latency", 3, result.ratios->p99);
    add("server CPU", 1, result.ratios->server_cpu);
  }
  if (rows.empty()) return "";
  const std::string title =
      absl::StrCat(results.clusters[0].label, " / ", results.clusters[1].label,
                   ": median of the pairs of slices, and their middle half");
  return absl::StrCat(
      "<h2>Ratios</h2><p class=\"faint\">More operations are better; less latency "
      "and less processor time are.</p>",
      ToSvg(title, rows));
}

}  // namespace

std::string ToHtml(const Results& results, const Options& options) {
  std::string html = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\"><title>quorate bench</title>"
      "<style>",
      kStyle, Colors(), "</style></head><body>\n<h1>quorate bench</h1><p class=\"faint\">",
      Escaped(results.machine), "</p>\n");
  for (size_t i = 0; i < results.clusters.size(); ++i) {
    const ClusterFacts& cluster = results.clusters[i];
    absl::StrAppend(&html, "<p>", Key(i, cluster.label), " <span class=\"faint\">",
                    Escaped(cluster.servers), cluster.native ? " over gRPC" : "",
                    cluster.tls ? " with TLS" : "");
    if (!cluster.version.empty()) {
      absl::StrAppend(&html, ", version ", Escaped(cluster.version));
    }
    html += "</span></p>\n";
  }
  html += RatiosChart(results);
  for (const WorkloadResult& result : results.workloads) {
    absl::StrAppend(&html, "\n<h2>", Escaped(result.name), "</h2><p class=\"faint\">",
                    Escaped(Describe(result.name, options)), "</p>", FiguresTable(result, results),
                    LatencyChart(result, results));
    html += result.name == "failover" ? PausesChart(result, results) : RateChart(result, results);
  }
  return html + "\n</body></html>\n";
}

}  // namespace quorate::tools::bench
