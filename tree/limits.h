// Limits for one session and for one operation. All servers must decide alike, so these limits are
// part of the meaning of a command: changing one needs a new kind of command.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quorate::tree {

// The number of responses that are kept for one session: to numbered writes that the client has not
// acknowledged yet. A client with so many writes in flight must wait.
inline constexpr size_t kAnswersMax = 1024;
// The bytes of those responses, as encoded in tree/response_cache.h. They take memory on every
// server, and are part of the session's record, which is written to each checkpoint after a change.
inline constexpr size_t kAnswerBytesMax = 1u << 20;

// A command's time that differs by at most kLeapMsMin from the tree's time is a normal difference
// between clocks: a later time advances the tree's time, an earlier one leaves it. A larger
// difference is a leap: a clock was wrong, now or before, or nothing was written for so long. The
// tree's time then follows, also backwards, but no znode is removed because of its TTL until the
// time has advanced by kLeapHoldMs without another leap.
inline constexpr int64_t kLeapMsMin = 3'600'000;
inline constexpr int64_t kLeapHoldMs = 600'000;

// The number of operations of a numbered request: far more than a log entry can hold.
inline constexpr uint64_t kAnswerOperationsMax = 1u << 24;

// The nodes, and the bytes of their paths, that the recursive deletes of one request may remove
// together. They are limited because nothing else is applied meanwhile, and the watchers of each
// path are notified.
inline constexpr size_t kDeleteRecursiveMax = 10'000;
inline constexpr size_t kDeleteRecursivePathBytesMax = 8u << 20;

// The response to one operation: its numbers take less than this; only a create adds a path.
inline constexpr size_t kAnswerNumbersBytesMax = 128;
static_assert(kAnswersMax * kAnswerNumbersBytesMax <= kAnswerBytesMax,
              "writes without paths to tell are bounded by their number alone");

}  // namespace quorate::tree
