// SPDX-License-Identifier: Apache-2.0

// The frames that wait to be sent on one connection to another server, and the batches in which
// they leave. Pure: no socket, lock or clock. PeerLink sends the batches on a socket, the simulator
// on its own network.
//
// A queue has two lanes:
//
//   control  what liveness depends on, and all that is small: votes, heartbeats and their
//            responses, acknowledgements of entries and of snapshot chunks, requests for a read
//            index and their answers, digests, reports about disks, touches of a few sessions.
//            Never dropped: if there are more than kControlBytesMax of them, the connection has to
//            be closed (overflowed()).
//   data     AppendRequests, snapshot chunks, forwarded writes, reconfigs, touches of many sessions. Above
//            kPeerQueueBytesMax the next frame is dropped. Producers stop long before: Raft at its
//            window of unacknowledged entries for each follower (consensus/core/limits.h) and at
//            one snapshot chunk, WriteRouter at its window of forwarded writes. They resume when
//            the receiver has acknowledged or applied what it got.
//
// A batch holds the control frames that wait, and then up to kBatchDataBytes of data. A data frame
// that is larger is cut into fragments (rpc/peer/frame.h), if the receiver understands them. So no
// more than one batch is in front of a control frame that is added while data is being sent,
// however much data waits.
//
// Order. Frames of one lane arrive in the order in which they were added. Data never overtakes
// control. Control overtakes data, and all of this is safe because of it:
//
//   AppendRequest      keeps its order, with or without entries: a probe or a commit-only append
//                      comes after the entries that it refers to.
//   Heartbeat          comes before AppendRequests that were sent earlier. Its commit index is not
//                      above what the receiver has acknowledged, and the receiver commits only
//                      what it knows to match.
//   ReadIndexRequest   comes before forwarded writes. It covers what is committed; a front end
//                      waits for a session's own writes before it asks.
//   TimeoutNow         is sent to a follower that has acknowledged the whole log.
//   forwarded writes   keep their order; WriteRouter relies on it.
//   any Raft message   may arrive late, twice or not at all, and Raft tolerates that.
//
// Thread-safety: none. SendQueue and BatchWriter of one connection may be used by different
// threads, except for BatchWriter::Refill, which uses both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "consensus/core/message.h"
#include "rpc/peer/batch_reader.h"
#include "rpc/peer/frame.h"

namespace quorate::rpc {

// The most bytes of data that wait for a peer that does not read. Frames beyond that are dropped:
// Raft sends again by itself, and forwarded writes are sent again when they are not applied in
// time.
inline constexpr size_t kPeerQueueBytesMax = 64u << 20;
// The most bytes of control frames that wait. They are small, so that a peer that is alive never
// lets this many wait.
inline constexpr size_t kControlBytesMax = 8u << 20;

// The most bytes of each lane that a batch holds.
inline constexpr size_t kBatchControlBytes = 32u << 10;
inline constexpr size_t kBatchDataBytes = 128u << 10;
// No batch is longer, unless it holds a frame for a receiver that does not understand fragments.
inline constexpr size_t kBatchBytesMax = 4 + kBatchControlBytes + kBatchDataBytes;

class SendQueue {
 public:
  explicit SendQueue(size_t data_bytes_max = kPeerQueueBytesMax,
                     size_t control_bytes_max = kControlBytesMax)
      : data_bytes_max_(data_bytes_max), control_bytes_max_(control_bytes_max) {}

  // Each function adds one or more frames to a lane.
  void AddHello(const Hello& hello);
  void AddProof(const Proof& proof);
  void AddMessage(const consensus::Message& message);
  void AddForward(const std::vector<std::string_view>& commands);
  void AddTouches(const std::vector<int64_t>& sessions);
  void AddDigest(const DigestNote& note);
  void AddDiskReport(const DiskReport& report);
  // Returns false if the frame was dropped.
  bool AddReconfig(const ReconfigNote& note);

  bool empty() const { return control_.empty() && data_.empty(); }
  // Returns whether a control frame exceeded the limit. The connection must then be closed.
  bool overflowed() const { return overflowed_; }
  // Returns the number of data frames that were dropped.
  uint64_t dropped() const { return dropped_; }

 private:
  friend class BatchWriter;
  enum class Lane : uint8_t { kControl, kData };

  static Lane LaneOf(const consensus::Message& message);
  // Returns the string to which a frame of `lane` is appended; null if the lane is full.
  std::string* RoomIn(Lane lane);

  const size_t data_bytes_max_;
  const size_t control_bytes_max_;
  // The pending bytes of each lane: whole frames, concatenated in the order of their sending.
  std::string control_;
  std::string data_;
  bool overflowed_ = false;
  uint64_t dropped_ = 0;
};

// Makes batches of the frames of a SendQueue, without copying data, and keeps the unsent rest of
// the current batch. The caller calls Refill and MakeBatch, sends Rest(), reports it by Sent(), and
// begins again when done().
class BatchWriter {
 public:
  // The parts of a batch: its header, control frames, the header of a fragment, data.
  static constexpr size_t kPartsMax = 4;

  BatchWriter() = default;
  BatchWriter(const BatchWriter&) = delete;
  BatchWriter& operator=(const BatchWriter&) = delete;

  // Sets the newest version (kPeerProtocol...) that the receiver understands.
  void SetReceiverVersion(uint32_t version) { fragments_ = version >= kPeerProtocolFragments; }

  // For each lane whose earlier frames are all in batches, takes over the frames in `queue`.
  // Returns whether there are frames to send. REQUIRES: done().
  bool Refill(SendQueue* queue);
  // Makes the next batch. REQUIRES: Refill returned true since the last batch.
  void MakeBatch();

  // Returns whether the current batch, if there was one, has been sent.
  bool done() const { return next_part_ == part_count_; }
  // Returns the unsent parts of the batch, to be sent in this order. Valid until the next call of
  // Sent, Refill or MakeBatch.
  std::span<const std::string_view> Rest() const {
    return std::span(parts_).subspan(next_part_, part_count_ - next_part_);
  }
  // Records that the first `count` bytes of Rest() have been sent.
  void Sent(size_t count);

 private:
  static constexpr size_t kBatchHeaderBytes = kBatchLengthBytes + 4;

  // Each function returns the next part of a lane, and advances in that lane.
  std::string_view TakeControl();
  std::string_view TakeDataFrames();
  std::string_view TakeFragment();
  void AddPart(std::string_view part);

  bool fragments_ = false;
  // The frames of each lane that were taken over from the queue; those before `..._at_` are in
  // batches.
  std::string control_;
  std::string data_;
  size_t control_at_ = 0;
  size_t data_at_ = 0;
  // Whether the frame at `data_at_` is being sent in fragments, and how many bytes of its payload
  // are in batches.
  bool in_fragments_ = false;
  size_t fragment_at_ = 0;

  // The current batch.
  char header_[kBatchHeaderBytes];
  char fragment_header_[kFragmentHeaderBytes];
  std::array<std::string_view, kPartsMax> parts_;
  size_t part_count_ = 0;
  size_t next_part_ = 0;
};

}  // namespace quorate::rpc
