// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/comparison.h"

#include <catch2/catch.hpp>
#include <string>

namespace quorate::tools::bench {
namespace {

TEST_CASE("Slices alternate so that each side is as often first as second") {
  std::string order;
  for (size_t i = 0; i < 8; ++i) order += SideOf(i) == Side::kServers ? 'A' : 'B';
  CHECK(order == "ABBAABBA");
  // A steady improvement over the slices affects both sides alike.
  size_t places[2] = {0, 0};
  for (size_t i = 0; i < 400; ++i) places[static_cast<size_t>(SideOf(i))] += i;
  CHECK(places[0] == places[1]);
}

TEST_CASE("The spread of values is their median and quartiles") {
  const Spread odd = SpreadOf({5, 1, 3, 2, 4});
  CHECK(odd.count == 5);
  CHECK(odd.median == 3);
  CHECK(odd.quartile1 == 2);
  CHECK(odd.quartile3 == 4);

  const Spread even = SpreadOf({4, 1, 3, 2});
  CHECK(even.median == Approx(2.5));
  CHECK(even.quartile1 == Approx(1.75));
  CHECK(even.quartile3 == Approx(3.25));

  const Spread one = SpreadOf({7});
  CHECK(one.median == 7);
  CHECK(one.quartile1 == 7);
  CHECK(one.quartile3 == 7);

  CHECK(SpreadOf({}).count == 0);
}

SliceFigures Figures(double rate, double p50_us, double cpu_us, double p999_us = -1) {
  SliceFigures figures;
  figures.p999_us = p999_us;
  figures.operations_per_second = rate;
  figures.p50_us = p50_us;
  figures.server_cpu_us = cpu_us;
  return figures;
}

TEST_CASE("Each ratio is that of the two slices of a pair") {
  // A machine that is half as fast in the second pair changes no ratio.
  const Ratios ratios = Compare({Figures(400, 10, 5, 30), Figures(200, 20, 5, 90)},
                                {Figures(100, 40, 20, 60), Figures(50, 80, 20, 180)});
  CHECK(ratios.operations_per_second.median == 4);
  CHECK(ratios.operations_per_second.quartile1 == 4);
  CHECK(ratios.operations_per_second.quartile3 == 4);
  CHECK(ratios.p50.median == 0.25);
  CHECK(ratios.server_cpu.median == 0.25);
  CHECK(ratios.server_cpu.count == 2);
  CHECK(ratios.p99.count == 0);
  CHECK(ratios.p999.median == 0.5);
}

TEST_CASE("A pair has no ratio if one side is not known") {
  const Ratios ratios = Compare({Figures(4, 1, 1), Figures(6, 1, -1), Figures(8, 1, 1)},
                                {Figures(0, 1, 1), Figures(2, 1, 1), Figures(4, -1, 1)});
  CHECK(ratios.operations_per_second.count == 2);
  CHECK(ratios.operations_per_second.median == Approx(2.5));
  CHECK(ratios.p50.count == 2);
  CHECK(ratios.server_cpu.count == 2);
}

TEST_CASE("A measurement is the sum of its slices") {
  Measurement measurement({"write"});
  Slice first(1);
  first.begin_ns = 1000;
  first.end_ns = 2000;
  first.Count(999);  // too early
  first.Record(0, 500, 999);
  first.Count(1500);
  first.Record(0, 900, 1500);
  first.Count(2000);  // answered after the end: not in the rate, but its latency counts
  first.Record(0, 1900, 2900);
  first.server_cpu_seconds = 0.5e-6;
  first.errors["no node"] = 2;
  measurement.Add(first, 1e-6);
  CHECK(measurement.operations == 1);
  CHECK(measurement.latencies[0].count() == 2);
  CHECK(measurement.latencies[0].max_ns() == 1000);
  CHECK(measurement.longest_pause_ns == 500);
  CHECK(measurement.slices[0].operations_per_second == Approx(1e6));
  CHECK(measurement.slices[0].server_cpu_us == Approx(0.5));

  Slice second(1);
  second.errors["no node"] = 1;
  measurement.Add(second, 1e-6);
  CHECK(measurement.operations_per_second() == Approx(0.5e6));
  CHECK(measurement.error_count() == 3);
  // The servers' time is not known in one slice, so the total is not known either.
  CHECK_FALSE(measurement.server_cpu_seconds.has_value());
}

}  // namespace
}  // namespace quorate::tools::bench
