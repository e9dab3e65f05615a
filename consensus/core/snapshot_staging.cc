// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/snapshot_staging.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.h"

namespace quorate::consensus {

std::optional<SnapshotAck> SnapshotStaging::Activate(const SnapshotChunk& chunk, Term term) {
  if (is_active() && active_->meta == chunk.meta) return std::nullopt;
  if (chunk.offset != 0) return SnapshotAck{chunk.meta.index, 0, false};
  if (is_active() && active_->staged > 0 && active_->offered_in != term) {
    active_->offered_in = term;
    return SnapshotAck{active_->meta.index, active_->staged, false};
  }
  Abandon();
  active_ = Active{};
  active_->meta = chunk.meta;
  return std::nullopt;
}

std::optional<SnapshotAck> SnapshotStaging::Receive(const SnapshotChunk& chunk, Term term) {
  if (std::optional<SnapshotAck> ack = Activate(chunk, term)) return ack;
  active_->ticks_since_chunk = 0;
  if (chunk.offset != active_->received) {
    // If writes are in progress, the acknowledgement follows when they are done.
    if (active_->is_writing()) return std::nullopt;
    return SnapshotAck{active_->meta.index, active_->staged, false};
  }
  const uint64_t waiting = active_->received - active_->staged;
  if (active_->is_writing() && waiting + chunk.bytes.size() > window_bytes_max_) {
    return std::nullopt;
  }
  if (active_->last) return std::nullopt;
  active_->writes.push_back({chunk.meta, chunk.offset, chunk.bytes, chunk.last});
  active_->received += chunk.bytes.size();
  active_->last = chunk.last;
  return std::nullopt;
}

void SnapshotStaging::Abandon() {
  if (!is_active()) return;
  abandoned_writes_ += active_->writing;
  active_.reset();
  discard_ = true;
}

bool SnapshotStaging::Tick(int stall_ticks) {
  return is_active() && ++active_->ticks_since_chunk >= stall_ticks;
}

SnapshotStaging::Written SnapshotStaging::ChunkWritten(Index index, uint64_t next_offset) {
  if (abandoned_writes_ > 0) {
    --abandoned_writes_;
    return Written::kAbandoned;
  }
  ASSERT(is_active() && active_->writing > 0, "a write was handed out");
  ASSERT(active_->meta.index == index);
  ASSERT(next_offset <= active_->received);
  --active_->writing;
  active_->staged = std::max(active_->staged, next_offset);
  return active_->last && !active_->is_writing() ? Written::kAll : Written::kPart;
}

bool SnapshotStaging::WriteFailed(Index index) {
  if (abandoned_writes_ > 0) {
    --abandoned_writes_;
    return false;
  }
  ASSERT(is_active() && active_->writing > 0, "a write was handed out");
  ASSERT(active_->meta.index == index);
  --active_->writing;
  Abandon();
  return true;
}

bool SnapshotStaging::TakeDiscard() { return std::exchange(discard_, false); }

std::vector<SnapshotWriteRequest> SnapshotStaging::TakeWrites() {
  if (!is_active()) return {};
  active_->writing += active_->writes.size();
  std::vector<SnapshotWriteRequest> writes(std::make_move_iterator(active_->writes.begin()),
                                           std::make_move_iterator(active_->writes.end()));
  active_->writes.clear();
  return writes;
}

void SnapshotStaging::CheckInvariants(int stall_ticks) const {
  if (!is_active()) return;
  ASSERT(active_->ticks_since_chunk < stall_ticks,
         "a staging that receives no chunks is abandoned");
  ASSERT(active_->staged <= active_->received);
}

}  // namespace quorate::consensus
