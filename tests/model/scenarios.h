// SPDX-License-Identifier: Apache-2.0

// The scenarios of the model checker.
//
// Thread-safety: functions without state.
#pragma once

#include <vector>

#include "tests/model/cluster_state.h"

namespace quorate::model {

std::vector<Scenario> AllScenarios();

}  // namespace quorate::model
