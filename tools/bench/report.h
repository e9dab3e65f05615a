// Results for people and for programs.
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
// "30 connections x 32 requests, 100 B, 1,000 keys": what a workload depends on.
std::string Describe(const std::string& workload, const Options& options);

// How a workload ends in rows, as it is printed.
std::string ReportHeading(const Results& results);
std::string ReportWorkload(const WorkloadResult& result, const Results& results,
                           const Options& options);
// Times in microseconds, processor time in microseconds for each operation; what is not known is
// null.
nlohmann::ordered_json ToJson(const Results& results, const Options& options);

}  // namespace quorate::tools::bench
