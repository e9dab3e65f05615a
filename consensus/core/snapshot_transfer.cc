// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/snapshot_transfer.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "consensus/core/describe.h"

namespace quorate::consensus {
namespace {

constexpr size_t kFirstWindowChunks = 2;
// The pause between attempts is doubled at most this many times.
constexpr int kDoublingsMax = 9;

}  // namespace

SnapshotTransfer::SnapshotTransfer(Limits limits)
    : limits_(limits),
      window_bytes_(std::min(kFirstWindowChunks * limits.chunk_bytes, limits.window_bytes_max)),
      resend_ticks_(2 * limits.heartbeat_ticks) {
  ASSERT(limits_.chunk_bytes > 0 && limits_.window_bytes_max > 0);
  ASSERT(limits_.heartbeat_ticks > 0 && limits_.election_ticks > 0);
}

void SnapshotTransfer::GoTo(uint64_t offset) {
  next_offset_ = offset;
  reading_ = false;
  chunk_.reset();
  last_sent_ = false;
  inflight_.clear();
  inflight_bytes_ = 0;
  ticks_since_answer_ = 0;
}

void SnapshotTransfer::Wait(int ticks) {
  meta_ = SnapshotMeta{};
  acked_ = acked_max_ = shrunk_until_ = 0;
  GoTo(0);
  phase_ = Phase::kWait;
  wait_ticks_ = ticks;
}

// --- Reading -------------------------------------------------------------------------------------

bool SnapshotTransfer::ReadDue() const {
  return phase_ != Phase::kWait && !reading_ && !chunk_ && !last_sent_;
}

void SnapshotTransfer::ReadRequested() {
  ASSERT(ReadDue());
  reading_ = true;
}

void SnapshotTransfer::Read(const SnapshotMeta& meta, Chunk chunk) {
  if (!reading_ || chunk.offset != next_offset_) return;
  if (meta_.index != Index{0} && meta.index != meta_.index) return;
  reading_ = false;
  meta_ = meta;
  chunk_ = std::move(chunk);
  phase_ = Phase::kSend;
}

void SnapshotTransfer::ReadFailed() {
  if (reading_) Wait(limits_.heartbeat_ticks);
}

// --- Sending -------------------------------------------------------------------------------------

bool SnapshotTransfer::Refill(int64_t bytes) {
  ASSERT(bytes > 0);
  const bool kept_back = budget_bytes_ <= 0 && FitsWindow(/*pipelined=*/true);
  budget_bytes_ = std::clamp(budget_bytes_, -bytes * limits_.silent_ticks_max, int64_t{0}) + bytes;
  return kept_back;
}

bool SnapshotTransfer::SendDue(bool pipelined) const {
  return budget_bytes_ > 0 && FitsWindow(pipelined);
}

bool SnapshotTransfer::FitsWindow(bool pipelined) const {
  if (!chunk_) return false;
  if (inflight_.empty()) return true;
  return pipelined && inflight_bytes_ + chunk_->bytes.size() <= window_bytes_;
}

SnapshotTransfer::Chunk SnapshotTransfer::TakeChunk() {
  ASSERT(chunk_.has_value());
  Chunk chunk = *std::exchange(chunk_, std::nullopt);
  if (inflight_.empty()) ticks_since_answer_ = 0;
  next_offset_ = chunk.offset + chunk.bytes.size();
  inflight_.push_back({next_offset_, chunk.bytes.size()});
  inflight_bytes_ += chunk.bytes.size();
  budget_bytes_ -= static_cast<int64_t>(std::max<size_t>(1, chunk.bytes.size()));
  last_sent_ = chunk.last;
  return chunk;
}

// --- Answers -------------------------------------------------------------------------------------

bool SnapshotTransfer::Acknowledged(uint64_t next_offset) {
  if (phase_ != Phase::kSend) return false;
  if (next_offset <= acked_) {
    // The answer is outdated, unless the follower has lost its staging.
    if (next_offset == 0 && acked_ > 0) {
      acked_ = 0;
      GoTo(0);
    }
    return false;
  }
  size_t bytes = 0;
  int ticks = 0;
  while (!inflight_.empty() && inflight_.front().end <= next_offset) {
    bytes += inflight_.front().bytes;
    ticks = inflight_.front().ticks;
    inflight_.pop_front();
  }
  if (bytes > 0) AdaptWindow(next_offset, bytes, ticks);
  inflight_bytes_ -= bytes;
  acked_ = next_offset;
  ticks_since_answer_ = 0;
  resend_ticks_ = 2 * limits_.heartbeat_ticks;
  // Chunks that were thought to be lost have arrived.
  if (acked_ > next_offset_) GoTo(acked_);
  if (acked_ <= acked_max_) return false;
  acked_max_ = acked_;
  return true;
}

void SnapshotTransfer::AdaptWindow(uint64_t end, size_t bytes, int ticks) {
  if (ticks > limits_.heartbeat_ticks) {
    slow_start_ = false;
    if (end > shrunk_until_) {
      window_bytes_ = std::max(limits_.chunk_bytes, window_bytes_ / 2);
      shrunk_until_ = next_offset_;
    }
    return;
  }
  // A window that is not fully used does not grow.
  if (inflight_bytes_ + limits_.chunk_bytes < window_bytes_) return;
  const size_t more =
      slow_start_ ? bytes : std::max<size_t>(1, limits_.chunk_bytes * bytes / window_bytes_);
  window_bytes_ =
      std::min(window_bytes_ + more, std::max(limits_.window_bytes_max, limits_.chunk_bytes));
}

void SnapshotTransfer::Resume(Index index, uint64_t offset) {
  if (phase_ != Phase::kSend || acked_ > 0 || index == Index{0} || offset == 0) return;
  meta_ = SnapshotMeta{};
  meta_.index = index;
  acked_ = acked_max_ = offset;
  GoTo(offset);
}

void SnapshotTransfer::Refuse() {
  if (acked_ == 0) Rewind();
}

void SnapshotTransfer::Failed() {
  Wait(2 * limits_.election_ticks << std::min(failures_, kDoublingsMax));
  ++failures_;
}

void SnapshotTransfer::Rewind() {
  if (phase_ != Phase::kSend) return;
  GoTo(acked_);
  window_bytes_ = limits_.chunk_bytes;
  slow_start_ = true;
}

// --- Time ----------------------------------------------------------------------------------------

void SnapshotTransfer::Tick() {
  if (phase_ == Phase::kWait && --wait_ticks_ <= 0) phase_ = Phase::kStart;
  for (Sent& sent : inflight_) ++sent.ticks;
  if (inflight_.empty() || ++ticks_since_answer_ < resend_ticks_) return;
  // A follower whose disk is slow gets the same part again after longer and longer intervals.
  resend_ticks_ = std::min(2 * resend_ticks_, std::max(resend_ticks_, 4 * limits_.election_ticks));
  Rewind();
}

std::string SnapshotTransfer::ToString() const {
  if (phase_ == Phase::kWait) return "waiting=" + std::to_string(wait_ticks_);
  return "sending=" + Describe(meta_.index) + " offset=" + std::to_string(acked_);
}

void SnapshotTransfer::CheckInvariants() const {
  ASSERT(meta_.index > Index{0} || acked_ == 0);
  ASSERT(acked_ <= next_offset_);
  ASSERT(!reading_ || !chunk_);
  size_t bytes = 0;
  uint64_t previous = acked_;
  for (const Sent& sent : inflight_) {
    ASSERT(sent.end >= previous, "chunks in flight ascend and are not answered");
    previous = sent.end;
    bytes += sent.bytes;
  }
  ASSERT(bytes == inflight_bytes_);
}

}  // namespace quorate::consensus
