// SPDX-License-Identifier: Apache-2.0

// Examines processes of this machine: which of them listen on a port, and how much processor time
// they have used.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/engine.h"

namespace quorate::tools::bench {

// Returns the processes that listen on the ports of `servers`, each once. Returns nothing if one of
// the servers is on another machine, or if its process is not visible (another user's, another
// network namespace).
std::optional<std::vector<int>> ListenersOf(const std::vector<Endpoint>& servers);

// Returns the sum of the processes' user and system time since they started, in seconds; nothing if
// one of them has ended.
std::optional<double> CpuSecondsOf(const std::vector<int>& pids);
// Returns the user and system time of this process, in seconds.
double OwnCpuSeconds();

// Returns processors and kernel of this machine: "2 x Intel(R) Xeon(R) ..., Linux 6.1.0".
std::string DescribeMachine();

}  // namespace quorate::tools::bench
