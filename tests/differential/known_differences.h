// SPDX-License-Identifier: Apache-2.0

// The intended differences from ZooKeeper. COMPATIBILITY.md gives the reasons, under the same
// names; nothing else may differ.
//
// Thread-safety: a function without state.
#pragma once

#include <vector>

#include "tests/differential/comparison.h"

namespace quorate::differential {

struct KnownDifference {
  const char* name;
  bool (*matches)(const Mismatch& mismatch);
  // Changes our answer, from the mismatched field on, to the reference's form; null if the fields
  // after it are comparable as they are.
  void (*adapt)(std::vector<Field>* ours, size_t field);
};

// Returns the known difference that matches, or null if there is none.
const KnownDifference* FindKnownDifference(const Mismatch& mismatch);

}  // namespace quorate::differential
