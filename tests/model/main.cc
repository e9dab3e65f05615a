// SPDX-License-Identifier: Apache-2.0

// model: searches through all schedules of small scenarios with the real Raft core.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "base/seeded_bug.h"
#include "tests/model/scenarios.h"
#include "tests/model/search.h"

namespace quorate::model {
namespace {

constexpr char kUsage[] =
    "usage: model [--long] [--depth N] [--only SCENARIO] [--fault NAME]\n"
    "       model --list\n"
    "\n"
    "Searches through every schedule of each scenario, up to its number of steps.\n"
    "  --long       more steps, which take minutes for each scenario, not seconds\n"
    "  --depth N    N steps\n"
    "  --only S     only the scenario with this name\n"
    "  --fault F    with a seeded bug (--config=seeded_bugs)\n"
    "  --list       prints the names of the scenarios\n"
    "Exit status: 0 if no violation was found, 1 if one was, 2 for wrong usage.\n";

struct Options {
  bool is_long = false;
  int depth = 0;  // 0: the scenario's
  std::string only;
  std::string fault;
};

bool Parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--long") {
      options->is_long = true;
      continue;
    }
    if (++i == argc) return false;
    const std::string_view value = argv[i];
    if (name == "--depth") {
      const auto [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), options->depth);
      if (error != std::errc{} || options->depth <= 0) return false;
    } else if (name == "--only") {
      options->only = value;
    } else if (name == "--fault") {
      options->fault = value;
    } else {
      return false;
    }
  }
  return kBugsAreSeeded || options->fault.empty();
}

int List() {
  for (const Scenario& scenario : AllScenarios()) std::puts(scenario.name.c_str());
  return 0;
}

int Main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--list") return List();
  Options options;
  if (!Parse(argc, argv, &options)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  SeedBug(options.fault);
  bool ok = true;
  int ran = 0;
  for (const Scenario& scenario : AllScenarios()) {
    if (!options.only.empty() && options.only != scenario.name) continue;
    ++ran;
    const int own_depth = options.is_long ? scenario.long_depth : scenario.depth;
    const SearchResult result = Search(scenario, options.depth > 0 ? options.depth : own_depth);
    ok &= result.ok;
    std::printf("%s %s: %s (%d steps in a row, %llu states, %llu steps)\n",
                result.ok ? "ok  " : "FAIL", scenario.name.c_str(), scenario.claim.c_str(),
                result.depth, static_cast<unsigned long long>(result.states),
                static_cast<unsigned long long>(result.steps));
    if (!result.ok) std::printf("%s", result.report.c_str());
    std::fflush(stdout);
  }
  if (ran == 0) std::fputs("there is no such scenario\n", stderr);
  return ran == 0 ? 2 : ok ? 0 : 1;
}

}  // namespace
}  // namespace quorate::model

int main(int argc, char** argv) { return quorate::model::Main(argc, argv); }
