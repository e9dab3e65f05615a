// SPDX-License-Identifier: Apache-2.0

// Runs each seed in a process of its own, so that a failed assertion of a server ends only its own
// run, and no run can affect the next.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/simulation/trace.h"

namespace quorate::simulation {

// The result of a run.
struct RunResult {
  uint64_t seed = 0;
  bool passed = false;
  uint64_t hash = 0;
  uint64_t events = 0;
  int64_t virtual_us = 0;
  std::map<std::string, uint64_t> counts;
  std::string output;  // of a failed run
};

// Runs one seed in this process; the process ends if the run fails.
RunResult RunHere(uint64_t seed, Trace::Lines lines);

// Runs seeds in processes of their own, `jobs` at a time. Calls `done` with each result, in any
// order; stops when `done` returns false.
void RunSeeds(uint64_t first, uint64_t last, size_t jobs, Trace::Lines lines,
              const std::function<bool(const RunResult&)>& done);

}  // namespace quorate::simulation
