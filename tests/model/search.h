// SPDX-License-Identifier: Apache-2.0

// Searches all schedules of a scenario, up to a number of steps.
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
  // The violated invariant, and the steps that lead to it, one per line; empty if there is none.
  std::string report;
  // The number of distinct states that were reached, and of steps that were tried.
  uint64_t states = 0;
  uint64_t steps = 0;
  // The number of steps after which no new state can be reached, or the depth of the search.
  int depth = 0;
};

// Tries all schedules of up to `depth` steps, shortest first, so that a reported schedule is as
// short as possible. A failed assertion ends the process, after printing the steps that lead to it.
SearchResult Search(const Scenario& scenario, int depth);

}  // namespace quorate::model
