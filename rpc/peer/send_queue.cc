// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/send_queue.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/seeded_bug.h"

namespace quorate::rpc {
namespace {

// A buffer that grew larger, while the peer was slow, is freed when it is empty.
constexpr size_t kBufferBytesKept = 1u << 20;
// Touches of more sessions than this go to the data lane, in frames of at most this many.
constexpr size_t kControlTouchesMax = 1024;

// Returns the size of the longest run of whole frames at the beginning of `frames` that has at most
// `bytes_max` bytes.
size_t WholeFrames(std::string_view frames, size_t bytes_max) {
  if (frames.size() <= bytes_max) return frames.size();
  size_t end = 0;
  for (;;) {
    const size_t next = end + FirstFrameBytes(frames.substr(end));
    ASSERT(next <= frames.size(), "a lane holds whole frames");
    if (next > bytes_max) return end;
    end = next;
  }
}

// If all of `*sent` is in batches, replaces it by the contents of `*from`.
void TakeOver(std::string* sent, size_t* sent_at, std::string* from) {
  if (*sent_at < sent->size()) return;
  sent->clear();
  if (sent->capacity() > kBufferBytesKept) sent->shrink_to_fit();
  sent->swap(*from);
  *sent_at = 0;
}

}  // namespace

// --- The queue -----------------------------------------------------------------------------------

SendQueue::Lane SendQueue::LaneOf(const consensus::Message& message) {
  const bool is_data = std::holds_alternative<consensus::AppendRequest>(message.body) ||
                       std::holds_alternative<consensus::SnapshotChunk>(message.body);
  return is_data ? Lane::kData : Lane::kControl;
}

std::string* SendQueue::RoomIn(Lane lane) {
  if (lane == Lane::kControl && !SeededBug("heartbeats wait behind data")) {
    overflowed_ |= control_.size() >= control_bytes_max_;
    return overflowed_ ? nullptr : &control_;
  }
  if (data_.size() <= data_bytes_max_) return &data_;
  ++dropped_;
  return nullptr;
}

void SendQueue::AddHello(const Hello& hello) {
  if (std::string* out = RoomIn(Lane::kControl)) AppendHelloFrame(hello, out);
}

void SendQueue::AddProof(const Proof& proof) {
  if (std::string* out = RoomIn(Lane::kControl)) AppendProofFrame(proof, out);
}

void SendQueue::AddMessage(const consensus::Message& message) {
  if (std::string* out = RoomIn(LaneOf(message))) AppendMessageFrame(message, out);
}

void SendQueue::AddForward(const std::vector<std::string_view>& commands) {
  if (std::string* out = RoomIn(Lane::kData)) AppendForwardFrame(commands, out);
}

void SendQueue::AddTouches(const std::vector<int64_t>& sessions) {
  const Lane lane = sessions.size() <= kControlTouchesMax ? Lane::kControl : Lane::kData;
  for (size_t at = 0; at < sessions.size(); at += kControlTouchesMax) {
    std::string* out = RoomIn(lane);
    if (out == nullptr) return;
    const size_t count = std::min(kControlTouchesMax, sessions.size() - at);
    const auto begin = sessions.begin() + static_cast<ptrdiff_t>(at);
    AppendTouchFrame({begin, begin + static_cast<ptrdiff_t>(count)}, out);
  }
}

void SendQueue::AddDigest(const DigestNote& note) {
  if (std::string* out = RoomIn(Lane::kControl)) AppendDigestFrame(note, out);
}

void SendQueue::AddDiskReport(const DiskReport& report) {
  if (std::string* out = RoomIn(Lane::kControl)) AppendDiskFrame(report, out);
}

bool SendQueue::AddReconfig(const ReconfigNote& note) {
  std::string* out = RoomIn(Lane::kData);
  if (out != nullptr) AppendReconfigFrame(note, out);
  return out != nullptr;
}

// --- Batches -------------------------------------------------------------------------------------

bool BatchWriter::Refill(SendQueue* queue) {
  ASSERT(done());
  TakeOver(&control_, &control_at_, &queue->control_);
  TakeOver(&data_, &data_at_, &queue->data_);
  return control_at_ < control_.size() || data_at_ < data_.size();
}

void BatchWriter::MakeBatch() {
  ASSERT(done());
  part_count_ = next_part_ = 0;
  AddPart({header_, kBatchHeaderBytes});
  AddPart(TakeControl());
  // Data does not overtake control.
  if (control_at_ == control_.size() && data_at_ < data_.size()) {
    const std::string_view frames = in_fragments_ ? std::string_view() : TakeDataFrames();
    AddPart(frames.empty() ? TakeFragment() : frames);
  }
  size_t bytes = 0;
  uint32_t checksum = 0;
  for (size_t i = 1; i < part_count_; ++i) {
    checksum = Crc32c(parts_[i], checksum);
    bytes += parts_[i].size();
  }
  ASSERT(bytes > 0);
  StoreInt<std::endian::little>(header_, static_cast<uint32_t>(bytes + 4));
  StoreInt<std::endian::little>(header_ + kBatchLengthBytes, checksum);
}

void BatchWriter::AddPart(std::string_view part) {
  if (!part.empty()) parts_[part_count_++] = part;
}

std::string_view BatchWriter::TakeControl() {
  const std::string_view rest = std::string_view(control_).substr(control_at_);
  const size_t bytes = WholeFrames(rest, kBatchControlBytes);
  ASSERT(bytes > 0 || rest.empty(), "a control frame is small");
  control_at_ += bytes;
  return rest.substr(0, bytes);
}

std::string_view BatchWriter::TakeDataFrames() {
  const std::string_view rest = std::string_view(data_).substr(data_at_);
  size_t bytes = WholeFrames(rest, kBatchDataBytes);
  if (bytes == 0) {
    if (fragments_) {
      in_fragments_ = true;
      fragment_at_ = 0;
    } else {
      bytes = FirstFrameBytes(rest);
    }
  }
  data_at_ += bytes;
  return rest.substr(0, bytes);
}

std::string_view BatchWriter::TakeFragment() {
  std::string_view frame = std::string_view(data_).substr(data_at_);
  frame = frame.substr(0, FirstFrameBytes(frame));
  const std::string_view payload = frame.substr(kFrameHeaderBytes);
  const size_t count =
      std::min(kBatchDataBytes - kFragmentHeaderBytes, payload.size() - fragment_at_);
  WriteFragmentHeader(frame.substr(0, kFrameHeaderBytes), fragment_at_, count, fragment_header_);
  AddPart({fragment_header_, kFragmentHeaderBytes});
  const std::string_view piece = payload.substr(fragment_at_, count);
  fragment_at_ += count;
  if (fragment_at_ == payload.size()) {
    in_fragments_ = false;
    data_at_ += frame.size();
  }
  return piece;
}

void BatchWriter::Sent(size_t count) {
  while (count > 0) {
    ASSERT(!done(), "no more is sent than there is");
    std::string_view& part = parts_[next_part_];
    const size_t of_part = std::min(count, part.size());
    part.remove_prefix(of_part);
    count -= of_part;
    if (part.empty()) ++next_part_;
  }
}

}  // namespace quorate::rpc
