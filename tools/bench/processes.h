// Processes of this machine: who listens on a port, and how much processor time they have used.
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
// on another machine, or if its process cannot be seen (another user's, another network namespace).
std::optional<std::vector<int>> ListenersOf(const std::vector<Endpoint>& servers);

// User and system time of all of them since they began, in seconds; nothing if one is gone.
std::optional<double> CpuSecondsOf(const std::vector<int>& pids);
// Of this process.
double OwnCpuSeconds();

// What figures of this machine have to be read with: "2 x Intel(R) Xeon(R) ..., Linux 6.1.0".
std::string DescribeMachine();

}  // namespace quorate::tools::bench
