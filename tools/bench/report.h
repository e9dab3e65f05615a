// Formats results for people and for programs.
//
// Thread-safety: functions without state.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/bench/options.h"
#include "tools/bench/run.h"

namespace quorate::tools::bench {

// "12.3 us", "4.56 ms", "1.2 s".
std::string Latency(double us);
// "1,234,567". REQUIRES: number >= 0.
std::string Grouped(double number);
// "4.12".
std::string Ratio(double ratio);
// The options that a workload depends on: "30 connections x 32 requests, 100 B, 1,000 keys".
std::string Describe(const std::string& workload, const Options& options);

// The heading of the report, and the rows of a workload.
std::string ReportHeading(const Results& results);
std::string ReportWorkload(const WorkloadResult& result, const Results& results,
                           const Options& options);
// Times are in microseconds, processor time in microseconds per operation; unknown values are null.
nlohmann::ordered_json ToJson(const Results& results, const Options& options);

}  // namespace quorate::tools::bench
