// SPDX-License-Identifier: Apache-2.0

#include "tools/monitor/top_table.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace quorate::tools {
namespace {

using Catch::Matchers::Contains;

Observation Server(const std::string& text, int seconds) {
  v1::StatusResponse status;
  status.set_member(2);
  status.set_role(v1::ROLE_LEADER);
  status.set_serving(true);
  status.set_leader(2);
  status.set_zxid(100);
  return {.address = "host:1",
          .status = status,
          .members = v1::MembersResponse(),
          .metrics = Metrics::Parse(text),
          .at = std::chrono::steady_clock::time_point(std::chrono::seconds(seconds))};
}

TEST_CASE("rates are those between two observations") {
  const std::vector<Observation> before = {Server(
      "packets_received 100\nfsynctime_count 1\nfsynctime_sum 1\nprocess_cpu_seconds_total 1", 10)};
  const std::vector<Observation> now = {Server(
      "packets_received 500\nfsynctime_count 5\nfsynctime_sum 9\nprocess_cpu_seconds_total 2\n"
      "readlatency{quantile=\"0.99\"} 3\nupdatelatency{quantile=\"0.99\"} "
      "0\nprocess_resident_memory_bytes 1048576",
      12)};
  const nlohmann::ordered_json json = TopJson(before, now)["servers"][0];
  CHECK(json["member"] == 2);
  CHECK(json["role"] == "leader");
  CHECK(json["requests_per_second"] == 200);
  CHECK(json["sync_ms"] == 2);
  CHECK(json["cpu_percent"] == 50);
  CHECK(json["read_p99_ms"] == 3);
  CHECK(json["watches"].is_null());
  const std::string text = TopText(before, now);
  CHECK_THAT(text, Contains("leader 2"));
  CHECK_THAT(text, Contains(" 200 "));
  CHECK_THAT(text, Contains(" 3 ms "));
  CHECK_THAT(text, Contains("<1 ms"));
  CHECK_THAT(text, Contains("50 %"));
  CHECK_THAT(text, Contains("1.0 MiB"));
}

TEST_CASE("a server that does not answer, or shows no metrics, has a line that says why") {
  std::vector<Observation> now = {Server("", 1), Server("", 1), Server("", 1)};
  now[0].status = absl::UnavailableError("connection\nrefused");
  now[1].metrics = absl::PermissionDeniedError("for administrators");
  now[2].status->set_zxid(170);
  now[2].status->set_serving(false);
  const std::string text = TopText(now, now);
  CHECK_THAT(text, Contains("host:1  no answer"));
  CHECK_THAT(text, Contains("host:1: connection\\nrefused\n"));
  CHECK_THAT(text, Contains("member 2: no metrics: for administrators\n"));
  const nlohmann::ordered_json json = TopJson(now, now);
  CHECK(json["servers"][0]["error"] == "connection\nrefused");
  CHECK(json["servers"][1]["behind"] == 70);
  CHECK(json["servers"][1]["metrics_error"] == "for administrators");
  CHECK(json["servers"][2]["role"] == "not serving");
}

}  // namespace
}  // namespace quorate::tools
