// SPDX-License-Identifier: Apache-2.0

// Measures how long writes pause when the leader dies.
//
// Thread-safety: that of the engine.
#pragma once

#include "absl/status/status.h"
#include "tools/bench/engine.h"
#include "tools/bench/load.h"
#include "tools/bench/options.h"
#include "tools/bench/slice.h"

namespace quorate::tools::bench {

// Runs one round: writes at a fixed rate, kills the leader, waits until writes are answered again,
// and restarts the member. Adds the results to `*measurement`. REQUIRES: `load` is prepared.
absl::Status FailOver(const ClusterOptions& cluster, const std::vector<Endpoint>& servers,
                      Engine* engine, Load* load, Measurement* measurement);

}  // namespace quorate::tools::bench
