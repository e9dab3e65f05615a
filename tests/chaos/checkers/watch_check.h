// Watches. Which changes there were is known from what all clients wrote and read.
//
// - One-shot watches ("data", "exist", "children"): fire once, for the first change after they were
//   set, and before the session gets an answer that is as new as the change; also if the client
//   moves to another member in between.
// - Lasting watches ("persistent", "recursive"): tell each change once, in the order of zxids,
//   before the session gets an answer that is as new. On the native front end none is missed,
//   unless the front end says so; on the ZooKeeper front end they rest while a client is
//   disconnected.
// - That a node has come or gone is told before the session gets an answer that shows it, even if
//   nobody knows at which zxid that was.
// - No event tells of a change that nobody may have made.
//
// Thread-safety: none; one thread.
#pragma once

#include "tests/chaos/checkers/report.h"
#include "tests/chaos/checkers/run.h"

namespace quorate::chaos {

Verdicts CheckWatches(const Run& run);

}  // namespace quorate::chaos
