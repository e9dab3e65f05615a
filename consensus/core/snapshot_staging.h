// SPDX-License-Identifier: Apache-2.0

// A snapshot that a member receives: which chunks it accepts, which chunks are being written to the
// disk, and what it answers to the leader. The chunks of a snapshot are staged until all have
// arrived. The staging outlives its sender's leadership: the next leader may be able to continue
// with it.
//
// A write that was handed out is answered later, perhaps after its snapshot was abandoned. Answers
// come in the order of the writes.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "consensus/core/message.h"
#include "consensus/core/output.h"
#include "consensus/core/types.h"

namespace quorate::consensus {

class SnapshotStaging {
 public:
  // `window_bytes_max` is the most bytes that may be received and not yet staged.
  explicit SnapshotStaging(size_t window_bytes_max) : window_bytes_max_(window_bytes_max) {}

  bool is_active() const { return active_.has_value(); }
  // Returns the metadata of the snapshot that is being received. REQUIRES: is_active().
  const SnapshotMeta& meta() const { return active_->meta; }
  // Returns the offset before which every byte is staged. REQUIRES: is_active().
  uint64_t staged() const { return active_->staged; }

  // Handles a chunk from the leader of `term`. Takes the chunk if the window has space for it;
  // otherwise drops it, and the leader sends it again. Returns an acknowledgement to send at once
  // if the chunk is not the next one, or if the leader is asked to continue with another snapshot,
  // a part of which is staged. If the leader begins with its snapshot again in the same term, that
  // snapshot replaces the staged part.
  std::optional<SnapshotAck> Receive(const SnapshotChunk& chunk, Term term);
  // Abandons the snapshot. Its staged bytes are to be discarded.
  void Abandon();
  // Call this once per tick. Returns whether no chunk has arrived for `stall_ticks`.
  bool Tick(int stall_ticks);

  enum class Written : uint8_t {
    kAbandoned,  // the snapshot was abandoned before: nothing to do
    kPart,       // acknowledge staged()
    kAll,        // all chunks are staged: call Complete or Abandon
  };
  // Records that the oldest unanswered write is durable. REQUIRES: there is one, and it is of the
  // snapshot of `index` if that was not abandoned.
  Written ChunkWritten(Index index, uint64_t next_offset);
  // Records that the oldest unanswered write has failed. Abandons its snapshot and returns true.
  // Returns false if the snapshot was abandoned before. REQUIRES: as for ChunkWritten.
  bool WriteFailed(Index index);
  // Ends the staging and keeps the staged bytes, to be installed. REQUIRES: ChunkWritten returned
  // kAll.
  void Complete() { active_.reset(); }

  // --- For the Output ----------------------------------------------------------------------------
  bool has_output() const { return discard_ || (is_active() && !active_->writes.empty()); }
  // Returns whether the staged bytes are to be discarded, before the writes below.
  bool TakeDiscard();
  // Returns the writes to begin.
  std::vector<SnapshotWriteRequest> TakeWrites();

  // Aborts if an invariant is violated. `stall_ticks` is the same as for Tick.
  void CheckInvariants(int stall_ticks) const;

 private:
  struct Active {
    SnapshotMeta meta;
    uint64_t staged = 0;                      // every byte before this offset is staged
    uint64_t received = 0;                    // every byte before this offset was received
    std::deque<SnapshotWriteRequest> writes;  // not yet handed out
    size_t writing = 0;                       // number of writes handed out and not answered
    bool last = false;                        // the last chunk was received
    // The term whose leader began with another snapshot and was asked to continue with this one.
    Term offered_in;
    int ticks_since_chunk = 0;

    bool is_writing() const { return writing > 0 || !writes.empty(); }
  };

  // Makes the snapshot of `chunk` the active one. Returns the acknowledgement to send if that is
  // not possible.
  std::optional<SnapshotAck> Activate(const SnapshotChunk& chunk, Term term);

  const size_t window_bytes_max_;
  std::optional<Active> active_;
  size_t abandoned_writes_ = 0;  // handed out for abandoned snapshots, not answered yet
  bool discard_ = false;         // for the next Output
};

}  // namespace quorate::consensus
