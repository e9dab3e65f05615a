// Every bound of consensus in one place, with the relations between them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quorate::consensus {

// Largest payload of one entry. Above jute.maxbuffer's usual 1 MiB, with room for a raised one.
inline constexpr size_t kEntryPayloadBytesMax = 64u << 20;
// Entries of one AppendRequest stop growing at this size (one larger entry still travels alone).
inline constexpr size_t kAppendBytesMax = 512u << 10;
// Unacknowledged AppendRequests to one follower: bounds what a slow follower holds in memory.
inline constexpr size_t kInflightMessagesMax = 256;
inline constexpr size_t kInflightBytesMax = 16u << 20;
// Appended by a leader and not yet committed. A proposal beyond it is refused, except the first.
inline constexpr size_t kUncommittedBytesMax = 256u << 20;
// Entries kept in memory that are durable, applied and possibly still wanted by a follower.
inline constexpr size_t kCachedBytesMax = 24u << 20;
// Entries handed out for apply in one Output.
inline constexpr size_t kApplyBytesMax = 4u << 20;
// Of the log, kept behind a checkpoint for followers that lag or are away.
inline constexpr uint64_t kRetainedBytesMax = uint64_t{1} << 30;
// The same for a follower that is being sent a checkpoint, or that follows after one, as long as it
// makes progress: what is written meanwhile must be there when the checkpoint is.
inline constexpr uint64_t kTransferBytesMax = uint64_t{8} << 30;
// Chunks of a checkpoint on their way to one follower: at the receiver they wait for its disk.
inline constexpr size_t kSnapshotWindowBytesMax = 4u << 20;
// The rate of all checkpoints that are being sent adapts within these multiples and parts of the
// one they begin with (RaftOptions::snapshot_bytes_per_tick).
inline constexpr size_t kSnapshotRateGrowthMax = 8;
inline constexpr size_t kSnapshotRateDivisorMax = 4;
// A text from another member that says why it could not keep a checkpoint.
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
