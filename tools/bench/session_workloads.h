// SPDX-License-Identifier: Apache-2.0

// Workloads in which sessions wait for each other, or are opened and closed.
//
// Thread-safety: that of the engine.
#pragma once

#include <memory>
#include <string>

#include "tools/bench/workload.h"

namespace quorate::tools::bench {

// Returns the workload `name`: connect, idle, watch or lock. Returns null for other names.
std::unique_ptr<Workload> MakeSessionWorkload(const std::string& name, const Options& options,
                                              Engine* engine);

}  // namespace quorate::tools::bench
