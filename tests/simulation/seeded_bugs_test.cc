// SPDX-License-Identifier: Apache-2.0

// Checks that each seeded bug is found within its number of seeds.
#include "tests/simulation/seeded_bugs.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>

#include "base/seeded_bug.h"
#include "tests/simulation/options.h"
#include "tests/simulation/runner.h"

int main() {
  using namespace quorate;
  using namespace quorate::simulation;
  if (!kBugsAreSeeded) {
    std::printf("built without seeded bugs (--config=seeded_bugs): nothing to do\n");
    return 0;
  }
  const size_t jobs = std::max(1u, std::thread::hardware_concurrency());
  int missed = 0;
  for (const SeededBugCase& fault : kSeededBugs) {
    SeedBug(fault.name);
    ChooseKeeperSeeds(fault.needs_keeper ? KeeperSeeds::kAll : KeeperSeeds::kNone);
    uint64_t runs = 0;
    std::string found;
    RunSeeds(
        fault.first_seed, fault.first_seed + fault.seeds_max - 1, jobs, Trace::Lines::kNone,
        [&](const RunResult& result) {
          ++runs;
          if (result.passed) return true;
          if (fault.invariant != nullptr &&
              result.output.find(std::string("FAILED: ") + fault.invariant) == std::string::npos) {
            return true;
          }
          if (found.empty()) found = result.output;
          return false;
        });
    const size_t begin = found.find("FAILED: ");
    std::printf("%-40s %s after %lu seeds%s%s\n", fault.name, found.empty() ? "MISSED" : "found",
                runs, found.empty() ? "" : ": ",
                begin == std::string::npos
                    ? ""
                    : found.substr(begin + 8, found.find('\n', begin) - begin - 8).c_str());
    std::fflush(stdout);
    if (found.empty()) ++missed;
  }
  return missed == 0 ? 0 : 1;
}
