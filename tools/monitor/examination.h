// SPDX-License-Identifier: Apache-2.0

// What is wrong with a cluster, and how to mend it: rules over what its servers say of themselves.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/monitor/observation.h"

namespace quorate::tools {

enum class Severity : uint8_t {
  kWarning,  // clients are served, and will not be if this goes on or something else is added
  kProblem,  // clients are not served as they should be, or data is in danger
};

struct Finding {
  Severity severity;
  std::string
      subject;  // "member 2", or the address of a server that does not answer, or "the cluster"
  std::string what;    // a sentence without a full stop, which may begin in the middle
  std::string advice;  // sentences
};

// Returns what is wrong, problems first, and otherwise in a fixed order. `before` and `now` are two
// observations of the same servers, some seconds apart: rates are those of this time.
std::vector<Finding> Examine(const std::vector<Observation>& before,
                             const std::vector<Observation>& now);

}  // namespace quorate::tools
