// How the sending of a checkpoint to one follower goes: which part is read next, what is on its
// way, and how much may be. Chunks follow each other without waiting for answers, within a window
// of bytes that adapts: it grows as long as answers come within a heartbeat's time, so that what
// queues in front of a heartbeat is about what the link carries in that time, and shrinks when they
// do not.
//
//   kStart  which checkpoint is to be sent is not known: the first chunk of the newest is read
//   kSend   chunks of `index()` are read, one at a time, and sent
//   kWait   nothing is done for some ticks: there was no such checkpoint, or the follower could not
//           keep what it got
//
// kStart -> kSend: the first chunk was read, or the follower says what it has staged already.
// kSend -> kWait -> kStart: a part could not be read; the follower failed to keep it (longer each
// time).
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
    size_t window_bytes_max = 1;  // on their way at most; one chunk always may be
    int heartbeat_ticks = 1;
    int election_ticks = 2;
    // What was sent beyond a tick's share delays the next chunk by so many ticks at most: a chunk
    // can hold one very large record, and a receiver gives up what it has after a long silence.
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
  // Of the checkpoint that is sent; 0 in kStart, and in kWait.
  Index index() const { return meta_.index; }
  const SnapshotMeta& meta() const { return meta_; }
  // Everything before it is staged at the follower.
  uint64_t acked() const { return acked_; }

  // --- Reading ---
  // Whether a part is to be read: at next_offset().
  bool ReadDue() const;
  uint64_t next_offset() const { return next_offset_; }
  void ReadRequested();
  // The answer. Ignored if it is not what is wanted now: the follower has answered meanwhile.
  void Read(const SnapshotMeta& meta, Chunk chunk);
  // The answer: there is no such checkpoint any more.
  void ReadFailed();

  // --- Sending ---
  // What may leave before the next call, besides. Returns whether only that kept a chunk back.
  bool Refill(int64_t bytes);
  // Whether a chunk is there and may leave. `pipelined`: the follower takes several at a time.
  bool SendDue(bool pipelined) const;
  // REQUIRES: SendDue().
  Chunk TakeChunk();

  // --- Answers ---
  // Everything before `next_offset` is staged. Returns whether that is more than ever before.
  bool Acknowledged(uint64_t next_offset);
  // The follower has the beginning of the checkpoint of `index` from an earlier leadership, up to
  // `offset`. Ignored unless the transfer is at its beginning.
  void Resume(Index index, uint64_t offset);
  // The follower has the beginning of one that is of no use: what it refused meanwhile is sent
  // again at once.
  void Refuse();
  // The follower could not keep it: another attempt follows later, later each time.
  void Failed();
  // What is on its way may be lost.
  void Rewind();

  // --- Time ---
  void Tick();

  std::string ToString() const;
  void CheckInvariants() const;

 private:
  struct Sent {
    uint64_t end = 0;
    size_t bytes = 0;
    int ticks = 0;  // ago
  };
  // Goes on with the part at `offset`; forgets what is on its way.
  void GoTo(uint64_t offset);
  // Starts again with the newest checkpoint, after a while.
  void Wait(int ticks);
  bool FitsWindow(bool pipelined) const;
  // `bytes` up to `end` were answered, the last of them after `ticks`.
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
  uint64_t shrunk_until_ = 0;  // not again before what was sent until then is answered
  int ticks_since_answer_ = 0;
  int resend_ticks_;
  int wait_ticks_ = 0;
  int failures_ = 0;
};

}  // namespace quorate::consensus
