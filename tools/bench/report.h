// SPDX-License-Identifier: Apache-2.0

// Formats results for people and for programs.
//
// Thread-safety: functions without state.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/bench/options.h"
#include "tools/bench/run.h"

namespace quorate::tools::bench {

// Formats a latency in a suitable unit: "12.3 us", "4.56 ms", "1.2 s".
std::string Latency(double us);
// Formats a number with separators: "1,234,567". REQUIRES: number >= 0.
std::string Grouped(double number);
// Formats a ratio: "4.12".
std::string Ratio(double ratio);
// Returns the options that a workload depends on: "30 connections x 32, 100 B, 2 s".
std::string Describe(const std::string& workload, const Options& options);

// Return the heading of the report, and the rows of a workload.
std::string ReportHeading(const Results& results);
std::string ReportWorkload(const WorkloadResult& result, const Results& results,
                           const Options& options);
// Returns the results for programs. Times are in microseconds, processor time is in microseconds
// per operation; unknown values are null.
nlohmann::ordered_json ToJson(const Results& results, const Options& options);

}  // namespace quorate::tools::bench
