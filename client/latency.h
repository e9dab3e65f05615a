// SPDX-License-Identifier: Apache-2.0

// Measures how near servers are.
//
// Thread-safety: functions without state.
#pragma once

#include <chrono>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "client/access.h"

namespace quorate::internal {

// The latencies of servers, by their addresses.
using Latencies = std::map<std::string, std::chrono::nanoseconds>;

// Calls all servers at the same time, each over a new connection, and returns the time of the
// fastest of a few round trips, without the time to connect. Any answer counts, also one that
// refuses the call. A server that has not answered all of them within `patience` is left out. Blocks
// until all have answered, `patience` is over, or `stop` is requested; it then returns what it has.
Latencies MeasureLatencies(const Access& access, const std::vector<std::string>& addresses,
                           std::chrono::milliseconds patience, const std::stop_token& stop);

// Returns how near a server is: 0 for the nearest. Servers of one rank are equally near for a client:
// the latencies of a rank are up to twice those of the one before, and those below 1 ms are equal.
int RankOf(std::chrono::nanoseconds latency);

}  // namespace quorate::internal
