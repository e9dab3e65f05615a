// How much one session, and one operation, may ask of the tree. Each server has to decide alike, so
// these are part of what a command means: a change of one needs a new kind of command.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quorate::tree {

// Answers that are kept for one session: to writes which it numbered, and of which it has not yet
// said that it has the answer. A client that has so many writes on their way must wait.
inline constexpr size_t kAnswersMax = 1024;
// The bytes of those answers, as they are kept (tree/response_cache.h): it is memory of every
// server, and part of the session's record in each checkpoint that it changed before.
inline constexpr size_t kAnswerBytesMax = 1u << 20;

// How far a command's time may be from the tree's to be taken for what clocks do: what is later
// moves the tree's time on, what is earlier leaves it. A time further away is a leap: a clock was
// wrong, now or before, or nothing was written for so long. The tree's time follows it, also back,
// but no znode goes because of its TTL until the time has gone on for kLeapHoldMs without another
// leap.
inline constexpr int64_t kLeapMsMin = 3'600'000;
inline constexpr int64_t kLeapHoldMs = 600'000;

// Operations of a numbered request: far more than a log entry can hold.
inline constexpr uint64_t kAnswerOperationsMax = 1u << 24;

// What the recursive deletes of one request may remove, taken together: nodes, and the bytes of
// their paths. Nothing else is applied meanwhile, and each path is told to those who watch.
inline constexpr size_t kDeleteRecursiveMax = 10'000;
inline constexpr size_t kDeleteRecursivePathBytesMax = 8u << 20;

// An answer of one operation: the numbers take less than this, and the path is that of a create.
inline constexpr size_t kAnswerNumbersBytesMax = 128;
static_assert(kAnswersMax * kAnswerNumbersBytesMax <= kAnswerBytesMax,
              "writes without paths to tell are bounded by their number alone");

}  // namespace quorate::tree
