// SPDX-License-Identifier: Apache-2.0

// Accounts: transfers are multis of two sets. In every multi-get of all accounts the sum is the
// same, and multi-gets are views of one history: of any two, one is not older than the other in any
// account.
//
// Thread-safety: none; one thread.
#pragma once

#include "tests/chaos/checkers/report.h"
#include "tests/chaos/checkers/run.h"

namespace quorate::chaos {

Verdicts CheckBank(const Run& run);

}  // namespace quorate::chaos
