// Sets: unique names under a parent, and what lists of them show. For the parents of all workloads.
//
// - What was created and acknowledged, and what nobody tried to delete, is in every later
//   linearizable list, in lists that its session makes, and in all that are as new as the change.
//   What was in a list once is in all newer ones.
// - What was deleted and acknowledged is in no later linearizable list. (Names are made once.)
// - No name is in a list twice, or acknowledged twice, or there without somebody's creation
//   that may have happened by then.
// - Of the creations of a multi, a list shows all or none.
//
// Ephemeral nodes may go, but not come without a creation.
//
// Thread-safety: none; one thread.
#pragma once

#include "tests/chaos/checkers/report.h"
#include "tests/chaos/checkers/run.h"

namespace quorate::chaos {

Verdicts CheckChildren(const Run& run);

}  // namespace quorate::chaos
