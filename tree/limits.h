// SPDX-License-Identifier: Apache-2.0

// Limits for one session and for one operation. All members must decide alike, so these limits are
// part of the meaning of a command: changing a limit needs a new kind of command.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quorate::tree {

// The maximum number of responses that are kept for one session, for numbered writes that the
// client has not acknowledged yet. A client with that many writes in flight must wait.
inline constexpr size_t kAnswersMax = 1024;
// The maximum size of those responses in bytes, encoded as in tree/response_cache.h. They take
// memory on every server. They are also part of the session's record, which every checkpoint after
// a change of the session includes.
inline constexpr size_t kAnswerBytesMax = 1u << 20;
// The maximum cost of the reads in those responses, together, counted as for kReadCostMax; only reads
// that have found their node count. It is much smaller, because a short request can read much, and
// because a client that becomes idle never acknowledges its last response.
inline constexpr size_t kReadAnswerBytesMax = 64u << 10;

// The largest difference, in milliseconds, between a command's time and the tree's time that counts
// as a normal difference between clocks: a later time then advances the tree's time, an earlier
// time leaves it. A larger difference is a leap: a clock was wrong, now or before, or nothing was
// written for that long. After a leap the tree's time follows the command's, also backwards, but no
// znode is removed because of its TTL until the time has advanced by kLeapHoldMs without another
// leap.
inline constexpr int64_t kLeapMsMin = 3'600'000;
inline constexpr int64_t kLeapHoldMs = 600'000;

// The maximum number of operations of a numbered request: far more than a log entry can hold.
inline constexpr uint64_t kAnswerOperationsMax = 1u << 24;

// The maximum number of nodes that one request may remove by recursive deletes, add as the missing
// parents of its creates, and list, together; and the maximum size of the paths of those that it
// removes and adds, in bytes. They are limited because nothing else is applied in the meantime, and
// because the watchers of each path that is removed or added are notified.
inline constexpr size_t kDeleteRecursiveMax = 10'000;
inline constexpr size_t kDeleteRecursivePathBytesMax = 8u << 20;

// The maximum cost of the reads in one request. A read costs kReadCost, plus the bytes of the data
// that it returns, plus kReadChildCost and the bytes of the name for each child. Every member looks
// at what a request reads while nothing else is applied, and keeps it if the request is numbered.
inline constexpr size_t kReadCostMax = 1u << 20;
// The same for a numbered request, whose response is kept.
inline constexpr size_t kNumberedReadCostMax = kReadAnswerBytesMax;
inline constexpr size_t kReadCost = 128;
inline constexpr size_t kReadChildCost = 128;

// The maximum size in bytes of the response to one operation without its path and without what a
// read returns. Only creates have a path in the response.
inline constexpr size_t kAnswerNumbersBytesMax = 128;
static_assert(kAnswersMax * kAnswerNumbersBytesMax <= kAnswerBytesMax,
              "kAnswersMax alone limits the responses without paths");

}  // namespace quorate::tree
