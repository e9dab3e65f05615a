// Workloads in which sessions wait for each other, or come and go.
//
// Thread-safety: that of the engine.
#pragma once

#include <memory>
#include <string>

#include "tools/bench/workload.h"

namespace quorate::tools::bench {

// `name` is connect, idle, watch or lock. Null if it is none of these.
std::unique_ptr<Workload> MakeSessionWorkload(const std::string& name, const Options& options,
                                              Engine* engine);

}  // namespace quorate::tools::bench
