// SPDX-License-Identifier: Apache-2.0

// Counters: additions, by a compare-and-set or an add that is executed exactly once. Each addition
// counts once: no read shows less than what was acknowledged before it, or more than what may have
// been added by then; no two additions lead to the same value, and each value has an addition that
// leads to it; no session sees a counter decrease.
// Thread-safety: none; one thread.
#pragma once

#include "tests/chaos/checkers/report.h"
#include "tests/chaos/checkers/run.h"

namespace quorate::chaos {

Verdicts CheckCounters(const Run& run);

}  // namespace quorate::chaos
