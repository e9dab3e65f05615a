// Invariants of all operations of all workloads, checked by zxids:
//
// - A session never sees time go back, on whichever server: not in the zxids of its answers, not in
//   the state of any node; and it sees its own writes. But a read that the native client had to
//   send again may be of a later time than a write that it sent after it.
// - There is one history: all who see a node at the same change see the same version and data, all
//   who see the same change of children see the same children, and each write has a zxid of its
//   own. An answer shows all changes up to its zxid.
// - A request that is sent after an event, on the same connection, is answered as of the event's
//   change or later.
// - Real time: a write, and what a linearizable read shows, comes after everything that any client
//   had seen when it began. An unknown write takes effect after it began, and not after the later
//   operations of its session.
// - A node that was created, and that nobody ever tried to delete, exists.
//
// Thread-safety: none; one thread.
#pragma once

#include "tests/chaos/checkers/report.h"
#include "tests/chaos/checkers/run.h"

namespace quorate::chaos {

Verdicts CheckConsistency(const Run& run);

}  // namespace quorate::chaos
