// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/metrics_reference.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>

namespace quorate::rpc::admin {
namespace {

TEST_CASE("the page of metrics agrees with the tables") {
  std::ifstream file(kMetricsReferencePath, std::ios::binary);
  REQUIRE(file);
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  INFO("the file differs from the tables of metrics; run\n" << kWriteMetricsReference);
  const bool is_current = page == MetricsReference();
  CHECK(is_current);
}

}  // namespace
}  // namespace quorate::rpc::admin
