// The transfer of a checkpoint to one follower: which chunk is read next, which chunks are on their
// way, and how many bytes may be. Chunks follow each other without waiting for answers, within a
// window of bytes that adapts: it grows while answers come within a heartbeat interval, and shrinks
// when they do not. So the bytes that a heartbeat queues behind are about those that the link
// carries in that interval.
//
//   kStart  which checkpoint is to be sent is not known: the first chunk of the newest is read
//   kSend   chunks of `index()` are read, one at a time, and sent
//   kWait   nothing is done for some ticks: there was no such checkpoint, or the follower could not
//           store what it got
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
    size_t chunk_bytes = 1;       // of one chunk, about
    size_t window_bytes_max = 1;  // the most on their way; one chunk always may be
    int heartbeat_ticks = 1;
    int election_ticks = 2;
    // The most ticks by which bytes sent beyond a tick's share delay the next chunk: a chunk can
    // hold one very large record, and a receiver discards its staging after a long silence.
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
  // The index of the checkpoint that is sent; 0 in kStart and in kWait.
  Index index() const { return meta_.index; }
  const SnapshotMeta& meta() const { return meta_; }
  // The follower has staged everything before this offset.
  uint64_t acked() const { return acked_; }

  // --- Reading ---
  // Whether a chunk is to be read now, at next_offset().
  bool ReadDue() const;
  uint64_t next_offset() const { return next_offset_; }
  void ReadRequested();
  // Takes the chunk that was read. Ignored if it is no longer wanted: the follower has answered
  // meanwhile.
  void Read(const SnapshotMeta& meta, Chunk chunk);
  // The read failed: there is no such checkpoint any more.
  void ReadFailed();

  // --- Sending ---
  // Lets `bytes` more leave before the next call. Returns whether a chunk was kept back only by
  // that limit.
  bool Refill(int64_t bytes);
  // Whether a chunk is there and may leave. `pipelined`: the follower takes several at a time.
  bool SendDue(bool pipelined) const;
  // REQUIRES: SendDue().
  Chunk TakeChunk();

  // --- Answers ---
  // The follower has staged everything before `next_offset`. Returns whether that is more than ever
  // before.
  bool Acknowledged(uint64_t next_offset);
  // The follower has staged the checkpoint of `index` up to `offset` in an earlier leadership: goes
  // on there. Ignored unless the transfer is at its beginning.
  void Resume(Index index, uint64_t offset);
  // The follower has staged part of a checkpoint with which this leader cannot go on: the chunks
  // that it refused because of it are sent again at once.
  void Refuse();
  // The follower could not store the checkpoint: another attempt follows, after a longer wait each
  // time.
  void Failed();
  // The chunks on their way may be lost: goes on from acked().
  void Rewind();

  // --- Time ---
  void Tick();

  std::string ToString() const;
  void CheckInvariants() const;

 private:
  struct Sent {
    uint64_t end = 0;
    size_t bytes = 0;
    int ticks = 0;  // since it was sent
  };
  // Goes on with the chunk at `offset`; forgets the chunks on their way.
  void GoTo(uint64_t offset);
  // Starts again with the newest checkpoint, after a while.
  void Wait(int ticks);
  bool FitsWindow(bool pipelined) const;
  // An answer has acknowledged `bytes` bytes up to the offset `end`, the last `ticks` ticks after
  // they were sent.
  void AdaptWindow(uint64_t end, size_t bytes, int ticks);

  Limits limits_;
  Phase phase_ = Phase::kStart;
  SnapshotMeta meta_;
  uint64_t acked_ = 0;
  uint64_t acked_max_ = 0;    // of this checkpoint
  uint64_t next_offset_ = 0;  // to be read next, or read and in chunk_
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
