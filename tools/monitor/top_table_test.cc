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

TEST_CASE("rates are of the same requests as latencies, those of all clients") {
  const std::string counters =
      "packets_received 100\nreadlatency_count 100\nupdatelatency_count 100\n";
  const std::vector<Observation> before = {Server(counters, 10)};
  const std::vector<Observation> now = {
      Server(counters + "quorate_requests_1m_per_second 5\nquorate_reads_1m_per_second 3\n"
                        "quorate_writes_1m_per_second 2\nquorate_read_latency_1m_p50_us 4000",
             12)};
  const nlohmann::ordered_json json = TopJson(before, now)["servers"][0];
  CHECK(json["requests_per_second"] == 5);
  CHECK(json["reads_per_second"] == 3);
  CHECK(json["writes_per_second"] == 2);
  CHECK(json["read_p50_ms"] == 4);
  const nlohmann::ordered_json older = TopJson(before, before)["servers"][0];
  CHECK(older["reads_per_second"].is_null());
}

void AddRate(google::protobuf::RepeatedPtrField<v1::RequestRate>* rates, const std::string& name,
             double per_second, int64_t session = 0) {
  v1::RequestRate* rate = rates->Add();
  rate->set_name(name);
  rate->set_per_second(per_second);
  rate->set_session(session);
}

TEST_CASE("the busiest clients and paths of all servers, and the stages, are below the table") {
  std::vector<Observation> now = {
      Server("quorate_read_latency_1m_p99_us 2600\n"
             "quorate_request_stage_p99_1m_seconds{stage=\"log_write\"} 0.0125",
             12),
      Server("readlatency{quantile=\"0.99\"} 7", 12)};
  now[1].status->set_member(3);
  for (size_t i = 0; i < now.size(); ++i) {
    v1::TopRequestsResponse top;
    top.set_member(static_cast<uint32_t>(i) + 2);
    AddRate(top.mutable_clients(), "10.0.0.1:5", 10.0 * static_cast<double>(i + 1), 0xab);
    AddRate(top.mutable_paths(), "/a/b", 15);
    now[i].top = top;
  }
  const std::string text = TopText(now, now);
  CHECK_THAT(text, Contains("LOG_WRITE"));
  CHECK_THAT(text, Contains("12.5 ms"));
  CHECK_THAT(text, Contains("/a/b  30.0"));
  CHECK(text.find("10.0.0.1:5  20.0   3       0xab") <
        text.find("10.0.0.1:5  10.0   2       0xab"));
  CHECK_THAT(text, !Contains("IDENTITY"));
  const nlohmann::ordered_json json = TopJson(now, now);
  CHECK(json["servers"][0]["read_p99_ms"] == 2.6);
  CHECK(json["servers"][1]["read_p99_ms"] == 7);
  CHECK(json["servers"][0]["stage_p99_ms"]["log_write"] == 12.5);
  CHECK(json["busiest_clients"].size() == 2);
  CHECK(json["busiest_clients"][0]["member"] == 3);
  CHECK(json["hottest_paths"][0]["per_second"] == 30);
  CHECK(json["busiest_identities"].empty());
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
