// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/history_check.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "tests/chaos/checkers/append_check.h"
#include "tests/chaos/checkers/bank_check.h"
#include "tests/chaos/checkers/children_check.h"
#include "tests/chaos/checkers/consistency_check.h"
#include "tests/chaos/checkers/counter_check.h"
#include "tests/chaos/checkers/register_check.h"
#include "tests/chaos/checkers/sequence_check.h"
#include "tests/chaos/checkers/watch_check.h"

namespace quorate::chaos {
namespace {

Verdicts CheckOperations(const Run& run, const std::vector<std::string>& workloads) {
  Verdicts verdicts(&run, "operations");
  // Closes belong to no workload.
  std::map<std::string_view, int64_t> acknowledged;
  for (const std::string& workload : workloads) acknowledged[workload];
  for (const Operation& operation : run.operations()) {
    if (operation.function == Function::kClose) continue;
    acknowledged[operation.workload] += operation.ok() ? 1 : 0;
    verdicts.Count(operation.ok()                           ? "acknowledged"
                   : operation.outcome == Outcome::kRefused ? "refused"
                                                            : "in doubt");
  }
  constexpr char kSome[] = "each workload has acknowledged operations";
  if (acknowledged.empty()) verdicts.Fail(kSome, "the history is empty", {});
  for (const auto& [workload, count] : acknowledged) {
    if (count > 0) continue;
    verdicts.Fail(kSome, absl::StrCat(std::string(workload), " has none: it tested nothing"), {});
  }
  return verdicts;
}

}  // namespace

std::vector<Verdicts> CheckHistory(const Run& run, const HistoryCheckSettings& settings) {
  std::vector<Verdicts> all;
  all.push_back(CheckOperations(run, settings.workloads));
  all.push_back(CheckConsistency(run));
  all.push_back(CheckRegisters(run));
  all.push_back(CheckChildren(run));
  all.push_back(CheckSequences(run));
  all.push_back(CheckBank(run));
  all.push_back(CheckEphemerals(run, settings.periods));
  all.push_back(CheckWatches(run));
  all.push_back(CheckCounters(run));
  all.push_back(CheckLogs(run));
  return all;
}

}  // namespace quorate::chaos
