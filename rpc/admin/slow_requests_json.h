// SPDX-License-Identifier: Apache-2.0

// The slow requests of a member, as JSON.
//
// Thread-safety: functions without state.
#pragma once

#include <cstddef>

#include "rpc/admin/json_text.h"
#include "rpc/frontend/slow_requests.h"

namespace quorate::rpc::admin {

// Adds "threshold_ms"; "counts", the number of slow requests by operation since the start; "not_kept",
// how many of these were only counted; and "requests", the last `count_max` that are kept, the oldest
// first. A stage that a request does not have is left out of its "stages_us".
void AddSlowRequests(const SlowRequests& slow, size_t count_max, Json* fields);

}  // namespace quorate::rpc::admin
