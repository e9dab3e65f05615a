// A search through all schedules of a scenario, up to a number of steps.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/model/cluster_state.h"

namespace quorate::model {

struct SearchResult {
  bool ok = true;
  // What is wrong, and the steps that lead there, a line each; empty if nothing is.
  std::string report;
  // Distinct states that were reached, and steps that were tried.
  uint64_t states = 0;
  uint64_t steps = 0;
  // Steps in a row after which nothing new can happen any more, or the depth of the search.
  int depth = 0;
};

// Tries everything that may happen within `depth` steps, shortest schedules first: what it reports
// is as short as can be. An assertion that fails ends the process; the steps that lead there are
// printed before.
SearchResult Search(const Scenario& scenario, int depth);

}  // namespace quorate::model
