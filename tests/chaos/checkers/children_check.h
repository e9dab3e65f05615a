// SPDX-License-Identifier: Apache-2.0

// Sets: unique names under a parent, and what lists of them show. Checked for the parents of all
// workloads.
//
// - A name whose creation was acknowledged, and that no client tried to delete, is in every later
//   linearizable list, in later lists of its session, and in all lists that are as new as the
//   creation. A name that was in a list once is in all newer ones.
// - A name whose deletion was acknowledged is in no later linearizable list. (No name is used
//   twice.)
// - No name is in a list twice, or acknowledged twice, or in a list without a creation that may
//   have happened by then.
// - Of the creations of a multi, a list shows all or none.
//
// Ephemeral nodes may disappear, but not appear without a creation.
//
// Thread-safety: none; one thread.
#pragma once

#include "tests/chaos/checkers/report.h"
#include "tests/chaos/checkers/run.h"

namespace quorate::chaos {

Verdicts CheckChildren(const Run& run);

}  // namespace quorate::chaos
