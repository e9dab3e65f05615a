// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/options.h"

#include <string>
#include <utility>

#include "consensus/core/describe.h"
#include "consensus/core/limits.h"
#include "consensus/core/membership.h"

namespace quorate::consensus {

RaftOptions::RaftOptions()
    : retained_bytes_max(kRetainedBytesMax),
      transfer_bytes_max(kTransferBytesMax),
      snapshot_window_bytes_max(kSnapshotWindowBytesMax),
      append_bytes_max(kAppendBytesMax),
      inflight_messages_max(kInflightMessagesMax),
      inflight_bytes_max(kInflightBytesMax),
      uncommitted_bytes_max(kUncommittedBytesMax),
      cached_bytes_max(kCachedBytesMax),
      apply_bytes_max(kApplyBytesMax) {}

absl::Status RaftOptions::Validate() const {
  if (absl::Status status = ValidateMembership(membership); !status.ok()) return status;
  if (membership.joint()) {
    return absl::InvalidArgumentError("membership.outgoing must be empty at the beginning");
  }
  if (self == kNoMember || self.value() > kMemberIdMax) {
    return absl::InvalidArgumentError("self is " + Describe(self) + "; it must be in 1 to 254");
  }
  if (heartbeat_ticks <= 0 || heartbeat_ticks >= election_ticks) {
    return absl::InvalidArgumentError("heartbeat_ticks is " + std::to_string(heartbeat_ticks) +
                                      "; it must be positive and less than election_ticks, " +
                                      std::to_string(election_ticks));
  }
  const std::pair<const char*, int> times[] = {{"disk_stall_ticks", disk_stall_ticks},
                                               {"retained_ticks_max", retained_ticks_max},
                                               {"snapshot_stall_ticks", snapshot_stall_ticks}};
  for (const auto& [field, value] : times) {
    if (value < 0) return absl::InvalidArgumentError(std::string(field) + " is negative");
  }
  if (transfer_bytes_max < retained_bytes_max) {
    return absl::InvalidArgumentError(
        "transfer_bytes_max is " + std::to_string(transfer_bytes_max) +
        ", less than retained_bytes_max, " + std::to_string(retained_bytes_max));
  }
  if (retained_entries_max < trailing_entries) {
    return absl::InvalidArgumentError(
        "retained_entries_max is " + std::to_string(retained_entries_max) +
        ", less than trailing_entries, " + std::to_string(trailing_entries));
  }
  if (cluster_id_if_new.size() > kEntryPayloadBytesMax) {
    return absl::InvalidArgumentError("cluster_id_if_new is larger than an entry may be");
  }
  const std::pair<const char*, size_t> bounds[] = {
      {"append_bytes_max", append_bytes_max},
      {"inflight_messages_max", inflight_messages_max},
      {"inflight_bytes_max", inflight_bytes_max},
      {"uncommitted_bytes_max", uncommitted_bytes_max},
      {"cached_bytes_max", cached_bytes_max},
      {"apply_bytes_max", apply_bytes_max},
      {"directory_epoch", directory_epoch},
      {"version", version},
      {"snapshot_chunk_bytes", snapshot_chunk_bytes},
      {"snapshot_window_bytes_max", snapshot_window_bytes_max},
      {"snapshot_bytes_per_tick", snapshot_bytes_per_tick},
      {"retained_bytes_max", retained_bytes_max},
      {"compaction_step_entries", compaction_step_entries},
  };
  for (const auto& [field, value] : bounds) {
    if (value == 0) return absl::InvalidArgumentError(std::string(field) + " must not be 0");
  }
  if (append_bytes_max > inflight_bytes_max) {
    return absl::InvalidArgumentError("append_bytes_max is " + std::to_string(append_bytes_max) +
                                      ", more than inflight_bytes_max, " +
                                      std::to_string(inflight_bytes_max));
  }
  return absl::OkStatus();
}

}  // namespace quorate::consensus
