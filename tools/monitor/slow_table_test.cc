// SPDX-License-Identifier: Apache-2.0

#include "tools/monitor/slow_table.h"

#include <catch2/catch.hpp>
#include <utility>

#include "rpc/proto/times.h"

namespace quorate::tools {
namespace {

v1::SlowRequestsResponse Answer(uint32_t member) {
  v1::SlowRequestsResponse answer;
  answer.set_member(member);
  *answer.mutable_threshold() = v1::DurationOfMs(100);
  answer.set_count(7);
  return answer;
}

void AddRequest(int64_t answered_ms, const std::string& path, v1::SlowRequestsResponse* answer) {
  v1::SlowRequest* request = answer->add_requests();
  *request->mutable_answer_time() = v1::TimestampOfMs(answered_ms);
  request->set_operation("setData");
  request->set_path(path);
  request->set_session(0x12ab);
  request->set_client("10.0.0.5:4000");
  *request->mutable_duration() = v1::DurationOfUs(250'500);
  for (const auto& [stage, us] : {std::pair("queue", 500), std::pair("log_write", 250'000)}) {
    v1::StageTime* time = request->add_stages();
    time->set_stage(stage);
    *time->mutable_duration() = v1::DurationOfUs(us);
  }
  request->set_longest_stage("log_write");
}

std::vector<SlowAnswer> Answers() {
  v1::SlowRequestsResponse first = Answer(1);
  AddRequest(1000, "/a", &first);
  AddRequest(3000, "/c", &first);
  v1::SlowRequestsResponse second = Answer(2);
  AddRequest(2000, "/b", &second);
  second.set_not_kept(3);
  return {{"one:1", first}, {"two:1", second}, {"three:1", absl::UnavailableError("no\nanswer")}};
}

TEST_CASE("the requests of all members are in the order of their answers") {
  const std::string text = SlowText(Answers(), 10);
  CHECK(text.find("/a") < text.find("/b"));
  CHECK(text.find("/b") < text.find("/c"));
  CHECK(
      text.find("setData    250.5  log_write  queue=0.5 log_write=250.0  10.0.0.5:4000  0x12ab") !=
      std::string::npos);
  CHECK(text.find("member 1: 7 requests took 100 ms or longer since its start\n") !=
        std::string::npos);
  CHECK(text.find("since its start; 3 of them were only counted\n") != std::string::npos);
  CHECK(text.find("three:1: no\\nanswer\n") != std::string::npos);
}

TEST_CASE("no more requests are shown than are asked for, the newest ones") {
  const std::string text = SlowText(Answers(), 2);
  CHECK(text.find("/a") == std::string::npos);
  CHECK(text.find("/b") != std::string::npos);
  CHECK(SlowJson(Answers(), 2)["requests"].size() == 2);
}

TEST_CASE("a member that records nothing says so") {
  v1::SlowRequestsResponse answer;
  answer.set_member(3);
  CHECK(SlowText({{"one:1", answer}}, 10) ==
        "member 3: slow requests are not recorded (slowRequestThresholdMs=0)\n");
}

TEST_CASE("JSON has all fields, and why a server does not answer") {
  const nlohmann::ordered_json json = SlowJson(Answers(), 10);
  const auto& request = json["requests"][0];
  CHECK(request["member"] == 1);
  CHECK(request["us"] == 250'500);
  CHECK(request["stages_us"]["log_write"] == 250'000);
  CHECK(request["longest_stage"] == "log_write");
  CHECK(request["session"] == "0x12ab");
  CHECK(json["servers"][1]["not_kept"] == 3);
  CHECK(json["servers"][2]["error"] == "no\nanswer");
}

}  // namespace
}  // namespace quorate::tools
