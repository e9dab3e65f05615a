// All checks of a run.
//
// Thread-safety: none; one thread.
#pragma once

#include <string>
#include <vector>

#include "tests/chaos/checkers/ephemeral_check.h"
#include "tests/chaos/checkers/report.h"
#include "tests/chaos/checkers/run.h"

namespace quorate::chaos {

struct HistoryCheckSettings {
  // That were asked for: each must have acknowledged operations. None: those that are in the run.
  std::vector<std::string> workloads;
  std::vector<SteadyPeriod> periods;
};

// What was done at all, and the verdict of each check that has something to say on it.
std::vector<Verdicts> CheckHistory(const Run& run, const HistoryCheckSettings& settings);

}  // namespace quorate::chaos
