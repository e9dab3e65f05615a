// SPDX-License-Identifier: Apache-2.0

// Logs: a node whose data are entries, with a blank between two; an entry is appended by a set,
// with the version that was read, to the old data and the entry. All reads show prefixes of one
// log, in which each acknowledged entry occurs once, and no entry occurs that no client appended or
// that was refused.
//
// Thread-safety: none; one thread.
#pragma once

#include "tests/chaos/checkers/report.h"
#include "tests/chaos/checkers/run.h"

namespace quorate::chaos {

Verdicts CheckLogs(const Run& run);

}  // namespace quorate::chaos
