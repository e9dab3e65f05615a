// SPDX-License-Identifier: Apache-2.0

// Sessions and their ephemeral nodes: a node exists exactly until its session has ended or the node
// was deleted.
//
// - A session does not end before its timeout. In a steady period the timeout is counted from its
//   last answered message. Otherwise a member may answer for a while without being able to inform
//   the leader, so that the last messages may not count: see UnheardNs.
// - An ended session does nothing any more: none of its answers is newer than the operation or
//   event that showed its end.
// - After a session was closed, or its client was notified of the expiry, its nodes are gone for
//   every linearizable reader, and in all answers that are as new as the end. The nodes of
//   abandoned sessions go in bounded time in a steady period. That is undecided if there were such
//   sessions before the last steady period, and no steady period had a list late enough to show it.
// - An ephemeral node belongs to the session that created it; session ids are used once.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/chaos/checkers/report.h"
#include "tests/chaos/checkers/run.h"

namespace quorate::chaos {

// A time without faults, with one leader that served throughout.
struct SteadyPeriod {
  int64_t from_ns = 0;
  int64_t to_ns = 0;
};

// How long before its session's last answered message a message must have been sent so that it has
// certainly reached the leader, whatever happened among members.
int64_t UnheardNs(int32_t timeout_ms);

// REQUIRES: `periods` are ascending.
Verdicts CheckEphemerals(const Run& run, const std::vector<SteadyPeriod>& periods);

}  // namespace quorate::chaos
