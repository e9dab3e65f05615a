// SPDX-License-Identifier: Apache-2.0

// Watches. The changes are known from what all clients wrote and read.
//
// - One-shot watches ("data", "exist", "children"): fire once, for the first change after they were
//   set, and before the session gets an answer that is as new as the change; also if the client
//   moves to another member in between.
// - Lasting watches ("persistent", "recursive"): report each change once, in the order of zxids,
//   before the session gets an answer that is as new. On the native front end none is missed,
//   unless the front end reports that. On the ZooKeeper front end, a client that connects again gets
//   the events that it has missed. Reconnects after which events are missing are counted; runner.py
//   looks for a server's log line that gives the reason.
// - An event reports that a node has appeared or disappeared before the session gets an answer that
//   shows it, even if the zxid of that change is unknown.
// - No event reports a change that no operation may have made.
//
// Thread-safety: none; one thread.
#pragma once

#include "tests/chaos/checkers/report.h"
#include "tests/chaos/checkers/run.h"

namespace quorate::chaos {

Verdicts CheckWatches(const Run& run);

}  // namespace quorate::chaos
