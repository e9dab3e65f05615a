// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/report.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/bench/chart.h"
#include "tools/bench/html.h"

namespace quorate::tools::bench {
namespace {

using Catch::Matchers::Contains;

Measurement MakeMeasurement(double factor, bool with_cpu) {
  Measurement measurement({"getData", "setData"});
  for (int i = 0; i < 4; ++i) {
    Slice slice(2);
    slice.begin_ns = 0;
    slice.operations = static_cast<uint64_t>(1000 * factor);
    for (int j = 0; j < 1000; ++j) slice.latencies[0].Add(static_cast<int64_t>(200'000 / factor));
    slice.latencies[0].Add(5'000'000);
    slice.tool_cpu_seconds = 0.002;
    if (with_cpu) slice.server_cpu_seconds = 0.02;
    measurement.Add(slice, 0.5);
  }
  return measurement;
}

Options MakeOptions() {
  Options options;
  options.clusters.resize(2);
  options.seconds = 2;
  return options;
}

Results MakeResults() {
  Results results;
  results.machine = "2 x Test <&> Machine";
  results.clusters = {{"quorate", "127.0.0.1:2181", false, true, 1, "3.8.0", true},
                      {"other", "127.0.0.1:2182", true, false, 1, "", false}};
  WorkloadResult mix;
  mix.name = "mix";
  mix.measurements = {MakeMeasurement(4, true), MakeMeasurement(1, false)};
  mix.measurements[1].errors["no node"] = 3;
  mix.ratios = Compare(mix.measurements[0].slices, mix.measurements[1].slices);
  results.workloads.push_back(mix);
  return results;
}

TEST_CASE("Numbers are formatted for people") {
  CHECK(Latency(0) == "0 us");
  CHECK(Latency(999) == "999 us");
  CHECK(Latency(1234) == "1.23 ms");
  CHECK(Latency(56'789) == "56.8 ms");
  CHECK(Latency(567'890) == "568 ms");
  CHECK(Latency(2'500'000) == "2.50 s");
  CHECK(Grouped(0) == "0");
  CHECK(Grouped(999) == "999");
  CHECK(Grouped(1000) == "1,000");
  CHECK(Grouped(1'234'567) == "1,234,567");
  CHECK(Ratio(0.1234) == "0.123");
  CHECK(Ratio(4.126) == "4.13");
  CHECK(Ratio(41.26) == "41.3");
  CHECK(Ratio(412.6) == "413");
}

TEST_CASE("The rows of a workload have its figures, ratios and errors") {
  const std::string text = ReportWorkload(MakeResults().workloads[0], MakeResults(), MakeOptions());
  CHECK_THAT(text, Contains("mix: 30 connections x 1, 100 B, 2 s\n"));
  CHECK_THAT(text, Contains("quorate  8,000  getData     50 us"));
  CHECK_THAT(text, Contains("other    2,000  getData     200 us"));
  CHECK_THAT(text, Contains("5.00 ms  5.0 us"));  // processor time of the servers
  CHECK_THAT(text, Contains("5.00 ms  ?"));       // not known for this cluster
  CHECK_THAT(text, Contains("setData     -"));    // nothing was written
  CHECK_THAT(text, Contains("quorate / other: ops/s 4.00 [4.00 4.00]"));
  CHECK_THAT(text, Contains("server CPU -; median [quartiles] of 4 pairs"));
  CHECK_THAT(text, Contains("other: 3 x no node\n"));
}

TEST_CASE("The heading names the servers, and those whose processes are not visible") {
  const std::string text = ReportHeading(MakeResults());
  CHECK_THAT(text, Contains("quorate: 127.0.0.1:2181 with TLS, version 3.8.0\n"));
  CHECK_THAT(text, Contains("other: 127.0.0.1:2182 over gRPC; the servers' processes"));
}

TEST_CASE("The report lists the pauses of a failover") {
  Results results = MakeResults();
  WorkloadResult& failover = results.workloads[0];
  failover.name = "failover";
  failover.measurements[0].pauses_ms = {210, 190, 400};
  failover.measurements[0].connections_dropped = 6;
  const std::string text = ReportWorkload(failover, results, MakeOptions());
  CHECK_THAT(text, Contains("quorate: writes paused for 210, 190, 400 ms (median 210 ms); "
                            "6 connections dropped\n"));
  const auto json = ToJson(results, MakeOptions());
  CHECK(json["workloads"][0]["measurements"][0]["pauses_ms"][2] == 400);
  CHECK_THAT(ToHtml(results, MakeOptions()), Contains("Pause of writes when the leader dies"));
}

TEST_CASE("JSON has the printed values, and null for unknown values") {
  const auto json = ToJson(MakeResults(), MakeOptions());
  CHECK(json["clusters"][1]["protocol"] == "grpc");
  CHECK(json["clusters"][0]["tls"] == true);
  CHECK(json["clusters"][1]["tls"] == false);
  CHECK(json["clusters"][1]["version"].is_null());
  const auto& workload = json["workloads"][0];
  CHECK(workload["name"] == "mix");
  const auto& first = workload["measurements"][0];
  CHECK(first["operations"] == 16'000);
  CHECK(first["operations_per_second"] == Approx(8000));
  CHECK(first["latencies"]["getData"]["p50_us"].get<double>() == Approx(50).epsilon(0.01));
  CHECK(first["latencies"]["getData"]["max_us"] == 5000);
  CHECK(first["server_cpu_us"] == Approx(5));
  CHECK(first["slices"].size() == 4);
  const auto& second = workload["measurements"][1];
  CHECK(second["server_cpu_us"].is_null());
  CHECK(second["slices"][0]["server_cpu_us"].is_null());
  CHECK(second["errors"]["no node"] == 3);
  CHECK(workload["ratios"]["operations_per_second"]["median"] == Approx(4));
  CHECK(workload["ratios"]["server_cpu"].is_null());
}

TEST_CASE("The page refers to nothing outside of it") {
  const std::string html = ToHtml(MakeResults(), MakeOptions());
  CHECK(html.rfind("<!DOCTYPE html>", 0) == 0);
  CHECK_THAT(html, Contains("prefers-color-scheme: dark"));
  for (const char* foreign : {"http:", "https:", "<script", "<link", "url(", "@import"}) {
    CHECK_THAT(html, !Contains(foreign));
  }
  CHECK_THAT(html, Contains("2 x Test &lt;&amp;&gt; Machine"));
  CHECK_THAT(html, !Contains("<&>"));
  CHECK_THAT(html, Contains("<h2>Ratios</h2>"));
  CHECK_THAT(html, Contains("mix: operations/s"));
  CHECK_THAT(html, !Contains("mix: server CPU"));
  CHECK_THAT(html, Contains("<h2>mix</h2>"));
  CHECK_THAT(html, Contains("<td>8,000</td><td class=\"left\">getData</td><td>50 us</td>"));
  CHECK_THAT(html, Contains("Latency of getData"));
  CHECK_THAT(html, Contains("Operations a second, by slice"));
  CHECK_THAT(html, !Contains("nan"));
  CHECK_THAT(html, !Contains("inf"));
}

TEST_CASE("A page can lack a comparison, or any operation") {
  Results results = MakeResults();
  results.clusters.pop_back();
  results.workloads[0].measurements.pop_back();
  results.workloads[0].ratios.reset();
  CHECK_THAT(ToHtml(results, MakeOptions()), !Contains("Ratios"));
  results.workloads[0].measurements[0] = Measurement({"getData"});
  const std::string html = ToHtml(results, MakeOptions());
  CHECK_THAT(html, !Contains("nan"));
  CHECK_THAT(html, !Contains("inf"));
}

TEST_CASE("A line of a chart connects the points of its values") {
  LineChart chart;
  chart.title = "a < b";
  chart.y_text = Grouped;
  chart.x_min = 0;
  chart.x_max = 2;
  chart.lines = {{"x", 0, {{0, 0}, {1, -1}, {2, 1000}}}};
  const std::string svg = ToSvg(chart);
  CHECK_THAT(svg, Contains("a &lt; b"));
  // The line goes from the lower left to the upper right. Unknown points are left out.
  CHECK_THAT(svg, Contains("<path d=\"M70.0 220.0 L446.0 34.0\" class=\"c0 line\"/>"));
  CHECK_THAT(svg, Contains(">1,000</text>"));
}

TEST_CASE("Bars of ratios lie on both sides of one") {
  const std::string svg = ToSvg("ratios", {{"up", 0, 4, 2, 4}, {"down", 1, 0.25, 0.25, 0.5}});
  CHECK_THAT(svg, Contains(">4.00 x<"));
  CHECK_THAT(svg, Contains(">0.25 x<"));
  CHECK_THAT(svg, Contains(">1/2<"));
  CHECK_THAT(svg, Contains(">2<"));
}

}  // namespace
}  // namespace quorate::tools::bench
