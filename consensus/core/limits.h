// Every bound of consensus in one place, with the relations between them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quorate::consensus {

// Largest payload of one entry. Above jute.maxbuffer's usual 1 MiB, with room for a raised one.
inline constexpr size_t kEntryPayloadBytesMax = 64u << 20;
// The entries of one AppendRequest take at most this many bytes (a larger entry travels alone).
inline constexpr size_t kAppendBytesMax = 512u << 10;
// Unacknowledged AppendRequests to one follower: bounds what a slow follower holds in memory.
inline constexpr size_t kInflightMessagesMax = 256;
inline constexpr size_t kInflightBytesMax = 16u << 20;
// Bytes that a leader has appended and not yet committed. A proposal beyond it is refused, unless
// nothing is uncommitted.
inline constexpr size_t kUncommittedBytesMax = 256u << 20;
// Entries kept in memory that are durable, applied and possibly still wanted by a follower.
inline constexpr size_t kCachedBytesMax = 24u << 20;
// Entries handed out for apply in one Output.
inline constexpr size_t kApplyBytesMax = 4u << 20;
// Bytes of the log before a checkpoint that are kept for followers that lag or are away.
inline constexpr uint64_t kRetainedBytesMax = uint64_t{1} << 30;
// The same for a follower that receives a checkpoint, or catches up after one, while it makes
// progress: the entries appended meanwhile must still be there when the transfer is complete.
inline constexpr uint64_t kTransferBytesMax = uint64_t{8} << 30;
// Bytes of checkpoint chunks on their way to one follower; at the receiver they wait for its disk.
inline constexpr size_t kSnapshotWindowBytesMax = 4u << 20;
// The rate of all checkpoints that are being sent adapts between the initial rate
// (RaftOptions::snapshot_bytes_per_tick) divided by the divisor and that rate times the growth.
inline constexpr size_t kSnapshotRateGrowthMax = 8;
inline constexpr size_t kSnapshotRateDivisorMax = 4;
// Bytes of the reason for which another member could not store a checkpoint.
inline constexpr size_t kReasonBytesMax = 1024;
// Reads waiting for one confirmation round.
inline constexpr size_t kPendingReadsMax = 1u << 16;

static_assert(kAppendBytesMax <= kInflightBytesMax, "a window holds at least one full message");
static_assert(kInflightBytesMax <= kCachedBytesMax,
              "a follower within its window is served from memory");
static_assert(kRetainedBytesMax <= kTransferBytesMax,
              "the log is kept longer for a follower that cannot do without it");
static_assert(kEntryPayloadBytesMax <= kUncommittedBytesMax,
              "the largest entry fits into an empty uncommitted log");

}  // namespace quorate::consensus
