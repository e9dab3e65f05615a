// SPDX-License-Identifier: Apache-2.0

// Reads the histories of a run and reports violations of what servers promise to clients.
//
//   history_checker [--json] [--workload NAME,...] [--steady FROM-TO]... HISTORY...
//
// Exit status: 0 no violation, 1 a violation was found, 2 a history cannot be read.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tests/chaos/checkers/history_check.h"

namespace quorate::chaos {
namespace {

struct Options {
  bool json = false;
  std::vector<std::string> periods;
  std::vector<std::string> histories;
  HistoryCheckSettings settings;
};

// "FROM-TO" in nanoseconds.
bool ParsePeriod(const std::string& text, SteadyPeriod* period) {
  char rest = 0;
  return std::sscanf(text.c_str(), "%ld-%ld%c", &period->from_ns, &period->to_ns, &rest) == 2 &&
         period->from_ns <= period->to_ns;
}

nlohmann::ordered_json ToJson(const std::vector<Verdicts>& all, const Run& run, bool good,
                              double seconds) {
  nlohmann::ordered_json json;
  json["ok"] = good;
  json["lines"] = run.lines();
  json["seconds"] = seconds;
  json["checks"] = nlohmann::ordered_json::array();
  for (const Verdicts& verdicts : all) json["checks"].push_back(verdicts.Json());
  return json;
}

int CheckHistories(const Options& options) {
  const auto begin = std::chrono::steady_clock::now();
  Run run;
  for (const std::string& history : options.histories) {
    const absl::Status status = run.AddFile(history);
    if (!status.ok()) {
      std::fprintf(stderr, "history_checker: %s\n", std::string(status.message()).c_str());
      return 2;
    }
  }
  run.Finish();
  const std::vector<Verdicts> all = CheckHistory(run, options.settings);
  bool good = true;
  std::string text;
  for (const Verdicts& verdicts : all) {
    good &= verdicts.good();
    if (!options.json || !verdicts.good()) absl::StrAppend(&text, verdicts.Print());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (options.json) {
    std::printf("%s\n", ToJson(all, run, good, took.count()).dump(1).c_str());
    std::fputs(text.c_str(), stderr);
  } else {
    std::fputs(text.c_str(), stdout);
    std::puts(absl::StrFormat("%s: %d lines in %.1f s", good ? "no violation" : "VIOLATIONS FOUND",
                              run.lines(), took.count())
                  .c_str());
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace quorate::chaos

int main(int argc, char** argv) {
  using quorate::chaos::SteadyPeriod;
  quorate::chaos::Options options;
  CLI::App app("Checks the histories of a chaos run.");
  app.add_flag("--json", options.json,
               "the verdict of each check as JSON; violations also on standard error, as text");
  app.add_option("--workload", options.settings.workloads,
                 "the requested workloads; each must have acknowledged operations")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--steady", options.periods,
                 "FROM-TO: a steady period (CLOCK_MONOTONIC, ns), without faults and with the same "
                 "leader, in which session timeouts are exact")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("histories", options.histories, "history files")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (const std::string& text : options.periods) {
    SteadyPeriod period;
    if (!quorate::chaos::ParsePeriod(text, &period)) {
      std::fprintf(stderr,
                   "history_checker: --steady %s: not of the form FROM-TO, in nanoseconds\n",
                   text.c_str());
      return 2;
    }
    options.settings.periods.push_back(period);
  }
  return quorate::chaos::CheckHistories(options);
}
