// SPDX-License-Identifier: Apache-2.0

// What `quorate slow` shows: the slow requests of some members, with where their time went.
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/proto/quorate/v1/cluster.pb.h"

namespace quorate::tools {

// The answer of one server.
struct SlowAnswer {
  std::string address;
  absl::StatusOr<v1::SlowRequestsResponse> slow;
};

// Returns a table with a line for each of the last `count_max` slow requests of all members, the newest
// last, a line for each member about all that were slow, and a line for each server that does not answer.
std::string SlowText(const std::vector<SlowAnswer>& answers, size_t count_max);

// Returns the same as {"requests": [...], "servers": [...]}, with times in microseconds.
nlohmann::ordered_json SlowJson(const std::vector<SlowAnswer>& answers, size_t count_max);

}  // namespace quorate::tools
