// The differences from ZooKeeper that are intended. COMPATIBILITY.md says why, by the same names;
// nothing else may differ.
//
// Thread-safety: a function without state.
#pragma once

#include <vector>

#include "tests/differential/comparison.h"

namespace quorate::differential {

struct KnownDifference {
  const char* name;
  bool (*matches)(const Mismatch& mismatch);
  // Makes our answer what the reference's would be from the mismatched field on; null if the fields
  // after it are comparable as they are.
  void (*adapt)(std::vector<Field>* ours, size_t field);
};

// The intended difference that this is, null if it is none.
const KnownDifference* FindKnownDifference(const Mismatch& mismatch);

}  // namespace quorate::differential
