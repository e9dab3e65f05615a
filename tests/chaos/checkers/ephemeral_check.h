// Sessions and their ephemeral nodes: a node is gone if and only if its session has ended (or it
// was deleted).
//
// - A session does not end before its timeout, counted from the last message that was answered:
//   exactly so in a steady period. Otherwise a member may answer for a while without being able to
//   tell the leader, so that the last messages may not count: see UnheardNs.
// - What ended does nothing any more: no answer to a session is newer than what showed it ended.
// - When a session was closed, or its client was told that it had expired, its nodes are gone for
//   every linearizable reader, and in all that is as new as the end. Those of sessions that were
//   left without a word go in bounded time in a steady period; not decided if there were such
//   sessions before the last steady period, and never a steady period with a list for long enough.
// - An ephemeral node belongs to the session that made it; ids of sessions are given once.
//
// Thread-safety: none; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/chaos/checkers/report.h"
#include "tests/chaos/checkers/run.h"

namespace quorate::chaos {

// A time in which there was no fault, and a leader that served all of it.
struct SteadyPeriod {
  int64_t from_ns = 0;
  int64_t to_ns = 0;
};

// Of a session's answered messages, those that had been sent by so much before the last one have
// reached the leader, whatever happened among members.
int64_t UnheardNs(int32_t timeout_ms);

// `periods`: ascending.
Verdicts CheckEphemerals(const Run& run, const std::vector<SteadyPeriod>& periods);

}  // namespace quorate::chaos
