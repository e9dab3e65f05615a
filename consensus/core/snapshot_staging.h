// A snapshot that a member receives: which chunks it takes, which of them are on their way to the
// disk, and what the leader is answered. The chunks of one snapshot are staged until all have come.
// The staging outlives its sender's leadership: the next leader may be able to continue with it.
//
// A write that was handed out is answered later, perhaps when its snapshot was abandoned already:
// answers come in the order of the writes.
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
  // `window_bytes_max`: how many bytes may be received and not yet staged.
  explicit SnapshotStaging(size_t window_bytes_max) : window_bytes_max_(window_bytes_max) {}

  bool is_active() const { return active_.has_value(); }
  // The snapshot that is being received. REQUIRES: is_active().
  const SnapshotMeta& meta() const { return active_->meta; }
  // Every byte before it is staged. REQUIRES: is_active().
  uint64_t staged() const { return active_->staged; }

  // The leader of `term` has sent a chunk. Takes it, unless there is no room in the window: then it
  // is dropped, and the leader sends it again. Returns the acknowledgement to send at once if the
  // chunk is not the next one, or if the leader is asked to continue with another snapshot, of
  // which a part is staged. A leader that begins anyway, in the same term, replaces that part.
  std::optional<SnapshotAck> Receive(const SnapshotChunk& chunk, Term term);
  // Gives up what was received; its bytes are to be discarded.
  void Abandon();
  // Call once per tick. Returns whether no chunk has come for `stall_ticks`.
  bool Tick(int stall_ticks);

  enum class Written : uint8_t {
    kAbandoned,  // of a snapshot that was abandoned: nothing follows
    kPart,       // acknowledge staged()
    kAll,        // all chunks are staged: call Complete or Abandon
  };
  // The oldest unanswered write is durable. REQUIRES: there is one, of the snapshot of `index` if
  // that was not abandoned.
  Written ChunkWritten(Index index, uint64_t next_offset);
  // The oldest unanswered write has failed. Abandons its snapshot and returns true; returns false
  // if it was abandoned before. REQUIRES: as for ChunkWritten.
  bool WriteFailed(Index index);
  // Ends the staging and keeps what is staged, to be installed. REQUIRES: ChunkWritten returned
  // kAll.
  void Complete() { active_.reset(); }

  // --- For the Output ----------------------------------------------------------------------------
  bool has_output() const { return discard_ || (is_active() && !active_->writes.empty()); }
  // Whether what was staged is to be discarded, before the writes below.
  bool TakeDiscard();
  // Returns the writes to begin.
  std::vector<SnapshotWriteRequest> TakeWrites();

  // `stall_ticks` as for Tick.
  void CheckInvariants(int stall_ticks) const;

 private:
  struct Active {
    SnapshotMeta meta;
    uint64_t staged = 0;                      // everything before it is staged
    uint64_t received = 0;                    // everything before it was received
    std::deque<SnapshotWriteRequest> writes;  // not yet handed out
    size_t writing = 0;                       // handed out and not answered
    bool last = false;                        // the last chunk was received
    // The term whose leader began another snapshot and was asked to continue with this one.
    Term offered_in;
    int ticks_since_chunk = 0;

    bool is_writing() const { return writing > 0 || !writes.empty(); }
  };

  // Makes `chunk`'s snapshot the active one. Returns the acknowledgement to send if that is not
  // possible.
  std::optional<SnapshotAck> Activate(const SnapshotChunk& chunk, Term term);

  const size_t window_bytes_max_;
  std::optional<Active> active_;
  size_t abandoned_writes_ = 0;  // handed out for abandoned snapshots, not answered yet
  bool discard_ = false;         // for the next Output
};

}  // namespace quorate::consensus
