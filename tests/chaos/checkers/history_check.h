// SPDX-License-Identifier: Apache-2.0

// Runs all checks of a run.
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
  // The requested workloads: each must have acknowledged operations. Empty: those found in the run.
  std::vector<std::string> workloads;
  std::vector<SteadyPeriod> periods;
};

// Checks that the workloads did any operations, and returns the verdict of each check that applies
// to the run.
std::vector<Verdicts> CheckHistory(const Run& run, const HistoryCheckSettings& settings);

}  // namespace quorate::chaos
