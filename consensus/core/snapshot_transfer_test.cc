// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/snapshot_transfer.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <string>

namespace quorate::consensus {
namespace {

using Chunk = SnapshotTransfer::Chunk;

constexpr size_t kChunkBytes = 100;
constexpr int kHeartbeatTicks = 4;
constexpr SnapshotTransfer::Limits kLimits{kChunkBytes, 16 * kChunkBytes, kHeartbeatTicks, 20};

SnapshotMeta Meta(uint64_t index) {
  SnapshotMeta meta;
  meta.index = Index{index};
  meta.term = Term{1};
  return meta;
}

// A receiver on a link that transfers a number of chunks in a tick, with a disk that is as fast.
class Link {
 public:
  explicit Link(size_t chunks_per_tick) : chunks_per_tick_(chunks_per_tick) {}

  // Runs a tick. Returns the staged bytes.
  uint64_t Tick(SnapshotTransfer* transfer) {
    transfer->Tick();
    transfer->Refill(1 << 30);
    for (size_t i = 0; i < chunks_per_tick_ && !queue_.empty(); ++i) {
      if (queue_.front().offset == staged) staged += queue_.front().bytes.size();
      queue_.pop_front();
      transfer->Acknowledged(staged);
    }
    while (true) {
      if (transfer->ReadDue()) {
        const uint64_t offset = transfer->next_offset();
        transfer->ReadRequested();
        transfer->Read(Meta(9), {offset, Slice(std::string(kChunkBytes, 'x'))});
      }
      if (!transfer->SendDue(/*pipelined=*/true)) break;
      queue_.push_back(transfer->TakeChunk());
      ++sent;
      transfer->CheckInvariants();
    }
    queued_max = std::max(queued_max, queue_.size());
    return staged;
  }

  uint64_t staged = 0;
  size_t sent = 0;
  size_t queued_max = 0;  // the most since the test set it

 private:
  size_t chunks_per_tick_;
  std::deque<Chunk> queue_;
};

TEST_CASE("the window grows until the link is full, by at most a heartbeat interval's bytes") {
  for (const size_t chunks_per_tick : {1, 2, 3}) {
    SnapshotTransfer transfer(kLimits);
    Link link(chunks_per_tick);
    for (int i = 0; i < 100; ++i) link.Tick(&transfer);
    const uint64_t before = link.staged;
    link.queued_max = 0;
    for (int i = 0; i < 100; ++i) link.Tick(&transfer);
    CHECK(link.staged - before == 100 * chunks_per_tick * kChunkBytes);
    CHECK(link.queued_max <= chunks_per_tick * (kHeartbeatTicks + 2));
    CHECK(link.sent * kChunkBytes <= link.staged + 16 * kChunkBytes);  // nothing is sent twice
  }
}

TEST_CASE("only one chunk is in flight to a follower that accepts no more") {
  SnapshotTransfer transfer(kLimits);
  transfer.Refill(1000);
  for (const uint64_t offset : {0, 100, 200}) {
    REQUIRE(transfer.ReadDue());
    transfer.ReadRequested();
    transfer.Read(Meta(9), {offset, Slice(std::string(kChunkBytes, 'x')), offset == 200});
    if (offset > 0) {
      CHECK(transfer.SendDue(/*pipelined=*/true));
      CHECK_FALSE(transfer.SendDue(/*pipelined=*/false));
      CHECK(transfer.Acknowledged(offset));
    }
    REQUIRE(transfer.SendDue(/*pipelined=*/false));
    CHECK(transfer.TakeChunk().offset == offset);
  }
  CHECK_FALSE(transfer.ReadDue());  // that was the last chunk
}

TEST_CASE("unanswered chunks are sent again from the follower's offset, ever less often") {
  SnapshotTransfer transfer(kLimits);
  std::deque<int> sent_at;
  for (int tick = 0; tick < 300; ++tick) {
    transfer.Tick();
    transfer.Refill(1000);
    if (transfer.ReadDue()) {
      const uint64_t offset = transfer.next_offset();
      transfer.ReadRequested();
      transfer.Read(Meta(9), {offset, Slice(std::string(kChunkBytes, 'x'))});
    }
    if (!transfer.SendDue(true)) continue;
    if (transfer.TakeChunk().offset == 0) sent_at.push_back(tick);
  }
  REQUIRE(sent_at.size() > 3);
  CHECK(sent_at.size() < 10);
  CHECK(sent_at[1] - sent_at[0] == 2 * kHeartbeatTicks);
  CHECK(sent_at[2] - sent_at[1] == 4 * kHeartbeatTicks);
  // An answer to the first transmission counts like an answer to the last.
  CHECK(transfer.Acknowledged(200));
  CHECK(transfer.next_offset() >= 200);
  CHECK_FALSE(transfer.Acknowledged(100));
  CHECK(transfer.acked() == 200);
}

TEST_CASE("after a chunk that exceeds its share the next one waits only for a bounded time") {
  SnapshotTransfer::Limits limits = kLimits;
  limits.silent_ticks_max = 10;
  SnapshotTransfer transfer(limits);
  const auto next = [&](uint64_t offset, size_t bytes) {
    transfer.ReadRequested();
    transfer.Read(Meta(9), {offset, Slice(std::string(bytes, 'x'))});
    int ticks = 0;
    while (!transfer.SendDue(true)) {
      REQUIRE(++ticks < 1000);
      transfer.Tick();
      transfer.Refill(100);
    }
    transfer.TakeChunk();
    transfer.Acknowledged(offset + bytes);
    return ticks;
  };
  next(0, 500);
  CHECK(next(500, 1'000'000) == 5);  // the bytes sent, at 100 a tick
  const int ticks = next(1'000'500, 500);
  CHECK(ticks <= limits.silent_ticks_max + 1);
  CHECK(ticks > limits.silent_ticks_max / 2);
}

TEST_CASE(
    "a lost staging starts again, and makes no progress until it exceeds the earlier offset") {
  SnapshotTransfer transfer(kLimits);
  Link link(2);
  for (int i = 0; i < 10; ++i) link.Tick(&transfer);
  const uint64_t before = transfer.acked();
  REQUIRE(before > 300);
  CHECK_FALSE(transfer.Acknowledged(0));
  CHECK(transfer.acked() == 0);
  CHECK(transfer.next_offset() == 0);
  CHECK_FALSE(transfer.Acknowledged(before));
  CHECK(transfer.Acknowledged(before + 1));
}

TEST_CASE("a follower that has the beginning of another checkpoint gets the rest of it") {
  SnapshotTransfer transfer(kLimits);
  transfer.Refill(1000);
  transfer.ReadRequested();
  transfer.Read(Meta(9), {0, Slice("header"), false});
  (void)transfer.TakeChunk();
  transfer.Resume(Index{5}, 12345);
  CHECK(transfer.index() == Index{5});
  REQUIRE(transfer.ReadDue());
  CHECK(transfer.next_offset() == 12345);
  transfer.ReadRequested();
  SECTION("the checkpoint exists") {
    transfer.Read(Meta(9), {12345, Slice("of another"), false});
    CHECK_FALSE(transfer.SendDue(true));
    transfer.Read(Meta(5), {12345, Slice("rest"), true});
    REQUIRE(transfer.SendDue(true));
    CHECK(transfer.TakeChunk().offset == 12345);
    CHECK(transfer.meta() == Meta(5));
    // Resume has no effect when the transfer is in progress.
    CHECK(transfer.Acknowledged(12349));
    transfer.Resume(Index{9}, 7);
    CHECK(transfer.index() == Index{5});
  }
  SECTION("the checkpoint does not exist") {
    transfer.ReadFailed();
    CHECK(transfer.phase() == SnapshotTransfer::Phase::kWait);
    for (int i = 0; i < kHeartbeatTicks; ++i) transfer.Tick();
    CHECK(transfer.ReadDue());
    CHECK(transfer.index() == Index{0});
    CHECK(transfer.next_offset() == 0);
  }
}

TEST_CASE("attempts to send a checkpoint that a follower cannot store become less frequent") {
  SnapshotTransfer transfer(kLimits);
  int last_wait = 0;
  for (int attempt = 0; attempt < 12; ++attempt) {
    transfer.Failed();
    int wait = 0;
    for (; !transfer.ReadDue(); ++wait) transfer.Tick();
    CHECK(wait >= last_wait);
    CHECK((attempt == 0 || attempt > 9 || wait == 2 * last_wait));
    last_wait = wait;
  }
}

}  // namespace
}  // namespace quorate::consensus
