// Processes of this machine: which of them listen on a port, and how much processor time they used.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/engine.h"

namespace quorate::tools::bench {

// The processes that listen on the ports of `servers`, each once; nothing if one of the servers is
// on another machine, or if its process is not visible (another user's, another network namespace).
std::optional<std::vector<int>> ListenersOf(const std::vector<Endpoint>& servers);

// The sum of their user and system time since they started, in seconds; nothing if one has ended.
std::optional<double> CpuSecondsOf(const std::vector<int>& pids);
// User and system time of this process.
double OwnCpuSeconds();

// What the figures depend on: "2 x Intel(R) Xeon(R) ..., Linux 6.1.0".
std::string DescribeMachine();

}  // namespace quorate::tools::bench
