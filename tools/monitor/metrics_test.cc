// SPDX-License-Identifier: Apache-2.0

#include "tools/monitor/metrics.h"

#include <catch2/catch.hpp>

namespace quorate::tools {
namespace {

TEST_CASE("samples are read with their labels") {
  const Metrics metrics = Metrics::Parse(
      "# HELP znode_count znodes in the tree\n"
      "# TYPE znode_count gauge\n"
      "znode_count 5\n"
      "readlatency{quantile=\"0.5\"} 0.25\n"
      "readlatency{quantile=\"0.99\"} 1e1\n"
      "expiry{stores=\"a } {b\"} 7\n"
      "last -1.5");
  CHECK(metrics.Value("znode_count") == 5);
  CHECK(metrics.Value("readlatency", "quantile=\"0.5\"") == 0.25);
  CHECK(metrics.Value("readlatency", "quantile=\"0.99\"") == 10);
  CHECK_FALSE(metrics.Value("readlatency").has_value());
  CHECK(metrics.All("readlatency").size() == 2);
  CHECK(metrics.Value("expiry", "stores=\"a } {b\"") == 7);
  CHECK(metrics.Value("last") == -1.5);
  CHECK(metrics.All("none").empty());
}

TEST_CASE("what is no sample, or no number, is skipped") {
  const Metrics metrics =
      Metrics::Parse("\n\nname\nname x\nname NaN\nname +Inf\n}{ 1\n{ 2\ngood 3\n");
  CHECK_FALSE(metrics.Value("name").has_value());
  CHECK(metrics.Value("good") == 3);
  CHECK(Metrics::Parse("").empty());
}

}  // namespace
}  // namespace quorate::tools
