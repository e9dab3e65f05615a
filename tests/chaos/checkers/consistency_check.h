// What holds for all operations of all workloads, told by zxids:
//
// - A session never sees time go back, on whichever server: not in the zxids of its answers, not in
//   the state of any node; and it sees its own writes. But a read that the native client had to
//   send again may be of a later time than a write that it sent after it.
// - There is one history: all who see a node at the same change see the same version and data, all
//   who see the same children's change see the same children, and each write has a zxid of its own.
//   An answer shows all changes up to its zxid.
// - What is asked after an event, on the same connection, is answered as of its change or later.
// - Real time: a write, and what a linearizable read shows, comes after everything that anybody had
//   seen when it began. An unknown write has its effect after it began, and not behind what its
//   session does later.
// - A node that was made, and that nobody ever tried to delete, is there.
//
// Thread-safety: none; one thread.
#pragma once

#include "tests/chaos/checkers/report.h"
#include "tests/chaos/checkers/run.h"

namespace quorate::chaos {

Verdicts CheckConsistency(const Run& run);

}  // namespace quorate::chaos
