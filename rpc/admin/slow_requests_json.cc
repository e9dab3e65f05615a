// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/slow_requests_json.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"

namespace quorate::rpc::admin {
namespace {

Json RequestFields(const SlowRequest& request) {
  Json stages = Json::object();
  for (size_t i = 0; i < kRequestStages; ++i) {
    const auto stage = static_cast<RequestStage>(i);
    const int64_t us = request.stages.us(stage);
    if (us >= 0) stages[std::string(NameOf(stage))] = us;
  }
  return {{"answered_ms", request.answered_ms},
          {"operation", std::string(request.operation)},
          {"path", request.path},
          {"session", absl::StrFormat("0x%x", static_cast<uint64_t>(request.session))},
          {"client", request.client},
          {"zxid", request.zxid},
          {"us", request.us},
          {"longest_stage", std::string(NameOf(request.stages.longest()))},
          {"stages_us", std::move(stages)}};
}

}  // namespace

void AddSlowRequests(const SlowRequests& slow, size_t count_max, Json* fields) {
  Json counts = Json::object();
  for (const auto& [operation, count] : slow.counts()) counts[std::string(operation)] = count;
  Json requests = Json::array();
  for (const SlowRequest& request : slow.Last(count_max)) {
    requests.push_back(RequestFields(request));
  }
  (*fields)["threshold_ms"] = slow.threshold_ms();
  (*fields)["counts"] = std::move(counts);
  (*fields)["not_kept"] = slow.not_kept();
  (*fields)["requests"] = std::move(requests);
}

}  // namespace quorate::rpc::admin
