// SPDX-License-Identifier: Apache-2.0

// Every bound of consensus in one place, with the relations between them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quorate::consensus {

// The largest payload of one entry. It is greater than the usual 1 MiB of jute.maxbuffer, so that
// this can be raised.
inline constexpr size_t kEntryPayloadBytesMax = 64u << 20;
// The most bytes of the entries in one AppendRequest. A larger entry is sent alone.
inline constexpr size_t kAppendBytesMax = 512u << 10;
// The most unacknowledged AppendRequests to one follower. They bound the memory of a slow follower.
inline constexpr size_t kInflightMessagesMax = 256;
inline constexpr size_t kInflightBytesMax = 16u << 20;
// The most bytes that a leader has appended and not yet committed. A proposal beyond this is
// refused, unless nothing is uncommitted.
inline constexpr size_t kUncommittedBytesMax = 256u << 20;
// The most bytes of entries kept in memory that are durable and applied, and that a follower may
// still need.
inline constexpr size_t kCachedBytesMax = 24u << 20;
// The most bytes of entries handed out for apply in one Output.
inline constexpr size_t kApplyBytesMax = 4u << 20;
// The most bytes of the log before a checkpoint that are kept for followers that lag or are away.
inline constexpr uint64_t kRetainedBytesMax = uint64_t{1} << 30;
// The same bound for a follower that receives a checkpoint, or catches up after one, while it makes
// progress. The entries that are appended during the transfer must still be there when it is
// complete.
inline constexpr uint64_t kTransferBytesMax = uint64_t{8} << 30;
// The most bytes of checkpoint chunks in flight to one follower. At the receiver they wait for its
// disk.
inline constexpr size_t kSnapshotWindowBytesMax = 4u << 20;
// The total rate at which checkpoints are sent adapts. It stays between the initial rate
// (RaftOptions::snapshot_bytes_per_tick) divided by the divisor and the initial rate times the
// growth.
inline constexpr size_t kSnapshotRateGrowthMax = 8;
inline constexpr size_t kSnapshotRateDivisorMax = 4;
// The most bytes of the reason for which a member could not store a checkpoint.
inline constexpr size_t kReasonBytesMax = 1024;
// The most reads that wait for one confirmation round.
inline constexpr size_t kPendingReadsMax = 1u << 16;

static_assert(kAppendBytesMax <= kInflightBytesMax, "a window holds at least one full message");
static_assert(kInflightBytesMax <= kCachedBytesMax,
              "a follower within its window is served from memory");
static_assert(kRetainedBytesMax <= kTransferBytesMax,
              "the log is kept longer for a follower that cannot do without it");
static_assert(kEntryPayloadBytesMax <= kUncommittedBytesMax,
              "the largest entry fits into an empty uncommitted log");

}  // namespace quorate::consensus
