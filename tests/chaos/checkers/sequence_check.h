// SPDX-License-Identifier: Apache-2.0

// Sequential nodes: under one parent each number is given once, numbers grow in the order of real
// time and of zxids, and no more nodes appear than may have been created.
//
// Thread-safety: none; one thread.
#pragma once

#include "tests/chaos/checkers/report.h"
#include "tests/chaos/checkers/run.h"

namespace quorate::chaos {

Verdicts CheckSequences(const Run& run);

}  // namespace quorate::chaos
