// SPDX-License-Identifier: Apache-2.0

// Invariants of all operations of all workloads, checked by zxids:
//
// - A session never sees time go back, on whichever server: neither in the zxids of its answers nor
//   in the state of any node; and it sees its own writes. As an exception, a read that the native
//   client had to send again may show a later state than a write that it sent after the read.
// - There is one history: all answers that show a node at the same change have the same version and
//   data, all answers that show the same change of children have the same children, and each write
//   has a zxid of its own. An answer shows all changes up to its zxid.
// - A request that is sent after an event, on the same connection, is answered as of the event's
//   change or later.
// - Real time: a write, and what a linearizable read shows, comes after everything that any client
//   had seen when it began. An unknown write takes effect after it began, and not after the later
//   operations of its session.
// - A node that was created, and that no client ever tried to delete, exists.
//
// Thread-safety: none; one thread.
#pragma once

#include "tests/chaos/checkers/report.h"
#include "tests/chaos/checkers/run.h"

namespace quorate::chaos {

Verdicts CheckConsistency(const Run& run);

}  // namespace quorate::chaos
