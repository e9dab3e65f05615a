// SPDX-License-Identifier: Apache-2.0

// The transfer of a checkpoint to one follower: which chunk is read next, which chunks are in
// flight, and how many bytes of them may be in flight. Chunks follow each other without waiting for
// answers, within a window of bytes that adapts: it grows while answers arrive within a heartbeat
// interval, and shrinks when they do not. Therefore a heartbeat queues behind about as many bytes
// as the link carries in that interval.
//
//   kStart  it is not known which checkpoint is to be sent: the first chunk of the newest is read
//   kSend   chunks of `index()` are read, one at a time, and sent
//   kWait   nothing is done for some ticks: there was no such checkpoint, or the follower could not
//           store its chunks
//
// kStart -> kSend: the first chunk was read.
// kSend -> kWait -> kStart: a chunk could not be read, or the follower failed to store the
// checkpoint (the wait is longer each time).
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "consensus/core/types.h"

namespace quorate::consensus {

class SnapshotTransfer {
 public:
  struct Limits {
    size_t chunk_bytes = 1;       // approximate size of one chunk
    size_t window_bytes_max = 1;  // the most bytes in flight; one chunk is always allowed
    int heartbeat_ticks = 1;
    int election_ticks = 2;
    // The most ticks by which a chunk is delayed if earlier chunks exceeded the share of a tick. It
    // is bounded because a chunk can have one very large record, and a receiver discards its
    // staging after a long silence.
    int silent_ticks_max = 1'000'000;
  };
  enum class Phase : uint8_t { kStart, kSend, kWait };
  struct Chunk {
    uint64_t offset = 0;
    Slice bytes;
    bool last = false;
  };

  SnapshotTransfer() : SnapshotTransfer(Limits{}) {}
  explicit SnapshotTransfer(Limits limits);

  Phase phase() const { return phase_; }
  // Returns the index of the checkpoint that is being sent; 0 in kStart and in kWait.
  Index index() const { return meta_.index; }
  const SnapshotMeta& meta() const { return meta_; }
  // Returns the offset before which the follower has staged everything.
  uint64_t acked() const { return acked_; }

  // --- Reading ---
  // Returns whether a chunk is to be read now, at next_offset().
  bool ReadDue() const;
  uint64_t next_offset() const { return next_offset_; }
  void ReadRequested();
  // Takes the chunk that was read. Ignores it if it is not wanted any more because the follower has
  // answered in the meantime.
  void Read(const SnapshotMeta& meta, Chunk chunk);
  // Records that the read failed: the checkpoint does not exist any more.
  void ReadFailed();

  // --- Sending ---
  // Allows `bytes` more bytes to be sent before the next call. Returns whether only this limit
  // delayed a chunk.
  bool Refill(int64_t bytes);
  // Returns whether there is a chunk that may be sent. `pipelined`: the follower accepts several at
  // a time.
  bool SendDue(bool pipelined) const;
  // Returns the chunk to send. REQUIRES: SendDue().
  Chunk TakeChunk();

  // --- Answers ---
  // Records that the follower has staged everything before `next_offset`. Returns whether that is
  // more than ever before.
  bool Acknowledged(uint64_t next_offset);
  // Records that the follower has staged the checkpoint of `index` up to `offset` in an earlier
  // leadership, and continues there. Ignored unless the transfer is at its beginning.
  void Resume(Index index, uint64_t offset);
  // Records that the follower has staged part of a checkpoint with which this leader cannot
  // continue. The chunks that the follower refused because of that are sent again at once.
  void Refuse();
  // Records that the follower could not store the checkpoint. Another attempt follows, after a
  // longer wait each time.
  void Failed();
  // Records that the chunks in flight may be lost, and continues from acked().
  void Rewind();

  // --- Time ---
  void Tick();

  std::string ToString() const;
  void CheckInvariants() const;

 private:
  struct Sent {
    uint64_t end = 0;
    size_t bytes = 0;
    int ticks = 0;  // ticks since the chunk was sent
  };
  // Continues with the chunk at `offset`, and no longer waits for the chunks in flight.
  void GoTo(uint64_t offset);
  // Starts again with the newest checkpoint after `ticks` ticks.
  void Wait(int ticks);
  bool FitsWindow(bool pipelined) const;
  // Adapts the window to an answer that has acknowledged `bytes` bytes up to the offset `end`, the
  // last of them `ticks` ticks after they were sent.
  void AdaptWindow(uint64_t end, size_t bytes, int ticks);

  Limits limits_;
  Phase phase_ = Phase::kStart;
  SnapshotMeta meta_;
  uint64_t acked_ = 0;
  uint64_t acked_max_ = 0;    // the greatest acked_ of this checkpoint
  uint64_t next_offset_ = 0;  // offset of the chunk to read next, or of the one in chunk_
  bool reading_ = false;
  std::optional<Chunk> chunk_;
  bool last_sent_ = false;
  std::deque<Sent> inflight_;  // ascending
  size_t inflight_bytes_ = 0;
  size_t window_bytes_;
  int64_t budget_bytes_ = 0;
  bool slow_start_ = true;
  uint64_t shrunk_until_ = 0;  // the window shrinks again only when this offset is acknowledged
  int ticks_since_answer_ = 0;
  int resend_ticks_;
  int wait_ticks_ = 0;
  int failures_ = 0;
};

}  // namespace quorate::consensus
