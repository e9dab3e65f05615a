// SPDX-License-Identifier: Apache-2.0

// What `quorate top` shows: rates and latencies of each server.
//
// Thread-safety: functions without state.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/monitor/observation.h"

namespace quorate::tools {

// Returns the page: a line about the cluster, a table with a line for each server, and a line for each
// server that does not answer, or that does not show its metrics. `before` and `now` are two
// observations of the same servers; rates are those of the time between them.
std::string TopText(const std::vector<Observation>& before, const std::vector<Observation>& now);

// Returns the table as {"time", "servers": [...]}, with null for what is not known.
nlohmann::ordered_json TopJson(const std::vector<Observation>& before,
                               const std::vector<Observation>& now);

}  // namespace quorate::tools
