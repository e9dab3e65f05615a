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

struct JudgementSettings {
  // That were asked for: each must have acknowledged operations. None: those that are in the run.
  std::vector<std::string> workloads;
  std::vector<Calm> calms;
};

// What was done at all, and the verdict of each check that has something to say on it.
std::vector<Verdicts> JudgeRun(const Run& run, const JudgementSettings& settings);

}  // namespace quorate::chaos
