// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/send_queue.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "rpc/peer/batch_reader.h"

namespace quorate::rpc {
namespace {

using consensus::Entry;
using consensus::Index;
using consensus::MemberId;
using consensus::Message;
using consensus::ReadRound;
using consensus::Term;

Message From1To2(decltype(Message::body) body) { return {MemberId(1), MemberId(2), Term(1), body}; }

Message Heartbeat(uint64_t round) {
  return From1To2(consensus::Heartbeat{Index(0), ReadRound(round)});
}

// Returns an AppendRequest of one entry with `bytes` bytes.
Message Append(uint64_t index, size_t bytes) {
  consensus::AppendRequest append;
  append.prev_index = Index(index - 1);
  append.prev_term = index == 1 ? Term(0) : Term(1);
  append.entries.push_back({Index(index), Term(1), consensus::EntryKind::kCommand,
                            Slice(std::string(bytes, static_cast<char>('a' + index % 26)))});
  return From1To2(append);
}

// The other end of a connection: decodes bytes as they arrive.
class Receiver {
 public:
  explicit Receiver(size_t batch_bytes_max = kBatchBytesMax) : reader_(batch_bytes_max) {}

  // Returns the contents of the batches that are complete now.
  std::vector<PeerBatch> Take(std::string_view bytes) {
    std::vector<PeerBatch> batches;
    while (!bytes.empty()) {
      const std::span<char> space = reader_.Space();
      const size_t count = std::min(space.size(), bytes.size());
      std::copy_n(bytes.data(), count, space.data());
      reader_.Added(count);
      bytes.remove_prefix(count);
      for (;;) {
        auto buffer = reader_.Next();
        REQUIRE(buffer.ok());
        if (*buffer == nullptr) break;
        auto batch = decoder_.Decode(*std::move(buffer));
        INFO(batch.status().ToString());
        REQUIRE(batch.ok());
        batches.push_back(*std::move(batch));
      }
    }
    return batches;
  }

 private:
  BatchReader reader_;
  FrameDecoder decoder_;
};

// A queue and its writer, as a link has them.
struct Sender {
  explicit Sender(uint32_t receiver_version = kPeerProtocolNewest) {
    writer.SetReceiverVersion(receiver_version);
  }
  // Returns the next bytes on the wire, at most `bytes_max`; empty if there are none.
  std::string Next(size_t bytes_max) {
    std::string bytes;
    while (bytes.size() < bytes_max) {
      if (writer.done()) {
        if (!writer.Refill(&queue)) break;
        writer.MakeBatch();
      }
      const std::string_view part = writer.Rest()[0].substr(0, bytes_max - bytes.size());
      bytes += part;
      writer.Sent(part.size());
    }
    return bytes;
  }
  // Returns the whole next batch; empty if there is none.
  std::string NextBatch() {
    REQUIRE(writer.done());
    if (!writer.Refill(&queue)) return "";
    writer.MakeBatch();
    std::string bytes;
    for (std::string_view part : writer.Rest()) bytes += part;
    writer.Sent(bytes.size());
    return bytes;
  }

  SendQueue queue;
  BatchWriter writer;
};

std::vector<uint64_t> RoundsOf(const std::vector<PeerBatch>& batches) {
  std::vector<uint64_t> rounds;
  for (const PeerBatch& batch : batches) {
    for (const Message& message : batch.messages) {
      const auto* heartbeat = std::get_if<consensus::Heartbeat>(&message.body);
      if (heartbeat != nullptr) rounds.push_back(heartbeat->read_round.value());
    }
  }
  return rounds;
}

TEST_CASE("few bytes are in front of a heartbeat, however much data waits") {
  // The kernel holds kUnsent bytes that have not left, which the network takes at its own pace: at
  // 50 MB/s, 60 ms between two heartbeats are 3,000,000 bytes.
  constexpr size_t kUnsent = 128u << 10;
  constexpr size_t kPiece = 16u << 10;
  constexpr size_t kBetweenHeartbeats = 3'000'000;
  const size_t entry_bytes = GENERATE(100u, 100'000u, 1'000'000u, 16'000'000u);
  Sender sender;
  Receiver receiver;
  for (size_t index = 1; index <= (16u << 20) / entry_bytes; ++index) {
    sender.queue.AddMessage(Append(index, entry_bytes));
  }
  std::string kernel;
  size_t left = 0;  // bytes that have left the kernel
  size_t next_heartbeat = 0;
  std::vector<size_t> sent_at;
  std::vector<size_t> gaps;
  for (;;) {
    if (left >= next_heartbeat) {
      sent_at.push_back(left);
      sender.queue.AddMessage(Heartbeat(sent_at.size()));
      next_heartbeat = left + kBetweenHeartbeats;
    }
    kernel += sender.Next(kUnsent - kernel.size());
    if (kernel.empty()) break;
    const std::string piece = kernel.substr(0, kPiece);
    kernel.erase(0, piece.size());
    left += piece.size();
    for (uint64_t round : RoundsOf(receiver.Take(piece))) {
      REQUIRE(round == gaps.size() + 1);
      gaps.push_back(left - sent_at[round - 1]);
    }
  }
  CHECK(left > (15u << 20));
  REQUIRE(gaps.size() == sent_at.size());
  REQUIRE(gaps.size() >= 5);
  // The limit: what the kernel holds, the rest of a batch, and the batch with the heartbeat itself.
  CHECK(*std::max_element(gaps.begin(), gaps.end()) <= kUnsent + 2 * kBatchBytesMax + kPiece);
}

TEST_CASE("control frames pass between the fragments of one large frame") {
  const size_t size = GENERATE(kBatchDataBytes + 1, 256u << 10, 1'000'000u, 5'000'000u);
  Sender sender;
  Receiver receiver;
  consensus::SnapshotChunk chunk;
  chunk.meta.index = Index(9);
  chunk.meta.term = Term(1);
  chunk.meta.membership.voters = {MemberId(1), MemberId(2)};
  chunk.bytes = Slice(std::string(size, 's'));
  const Message append = Append(1, size);
  const Message snapshot = From1To2(chunk);
  sender.queue.AddMessage(append);
  sender.queue.AddMessage(snapshot);
  uint64_t round = 0;
  std::vector<Message> data;
  for (;;) {
    const std::string bytes = sender.NextBatch();
    if (bytes.empty()) break;
    CHECK(bytes.size() <= kBatchLengthBytes + kBatchBytesMax);
    const std::vector<PeerBatch> batches = receiver.Take(bytes);
    REQUIRE(batches.size() == 1);
    // The heartbeat is in the first batch after it was added.
    if (round > 0) CHECK(RoundsOf(batches) == std::vector<uint64_t>{round});
    for (const Message& message : batches[0].messages) {
      if (!std::holds_alternative<consensus::Heartbeat>(message.body)) data.push_back(message);
    }
    if (data.size() < 2) sender.queue.AddMessage(Heartbeat(++round));
  }
  CHECK(round >= 2 * (size / kBatchDataBytes));
  CHECK(data == std::vector<Message>{append, snapshot});
}

TEST_CASE("a receiver of the release before gets whole frames, control first") {
  Sender sender(kPeerProtocolVersion);
  Receiver receiver(4 * kPeerQueueBytesMax);
  sender.queue.AddMessage(Append(1, 100));
  sender.queue.AddMessage(Append(2, 1'000'000));
  sender.queue.AddMessage(Append(3, 100));
  sender.queue.AddMessage(Heartbeat(1));
  for (size_t index : {1u, 2u, 3u}) {
    const std::vector<PeerBatch> batches = receiver.Take(sender.NextBatch());
    REQUIRE(batches.size() == 1);
    CHECK(RoundsOf(batches) == (index == 1 ? std::vector<uint64_t>{1} : std::vector<uint64_t>{}));
    CHECK(batches[0].messages.back() == Append(index, index == 2 ? 1'000'000 : 100));
  }
  CHECK(sender.NextBatch().empty());
}

TEST_CASE("what waits in both lanes leaves as one batch") {
  Sender sender;
  Receiver receiver;
  sender.queue.AddMessage(Append(1, 1000));
  sender.queue.AddForward({"first", "second"});
  sender.queue.AddTouches({7});
  sender.queue.AddDigest({DigestNote::Kind::kQuestion, 5});
  sender.queue.AddDiskReport({true, false});
  sender.queue.AddMessage(Heartbeat(1));
  const std::vector<PeerBatch> batches = receiver.Take(sender.NextBatch());
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].messages == std::vector<Message>{Heartbeat(1), Append(1, 1000)});
  CHECK(batches[0].forwards.size() == 1);
  CHECK(batches[0].touched_sessions == std::vector<int64_t>{7});
  CHECK(batches[0].digests.size() == 1);
  CHECK(batches[0].disk_report.has_value());
  CHECK(sender.NextBatch().empty());
}

TEST_CASE("votes are not dropped when the data that waits is") {
  Sender sender;
  Receiver receiver;
  uint64_t index = 0;
  while (sender.queue.dropped() == 0) sender.queue.AddMessage(Append(++index, 1u << 20));
  CHECK(index > 60);
  const Message vote = From1To2(consensus::VoteResponse{false, true});
  sender.queue.AddMessage(vote);
  CHECK(!sender.queue.overflowed());
  const std::vector<PeerBatch> batches = receiver.Take(sender.NextBatch());
  REQUIRE(batches.size() == 1);
  REQUIRE(!batches[0].messages.empty());
  CHECK(batches[0].messages[0] == vote);
}

TEST_CASE("more control frames than anybody leaves waiting overflow the queue") {
  SendQueue queue;
  uint64_t rounds = 0;
  while (!queue.overflowed()) queue.AddMessage(Heartbeat(++rounds));
  CHECK(rounds > 50'000);
  CHECK(queue.dropped() == 0);
}

TEST_CASE("touches of many sessions leave with the data, and are all there") {
  Sender sender;
  Receiver receiver;
  std::vector<int64_t> sessions(100'000);
  for (size_t i = 0; i < sessions.size(); ++i) sessions[i] = static_cast<int64_t>(i);
  sender.queue.AddTouches(sessions);
  sender.queue.AddMessage(Heartbeat(1));
  std::vector<int64_t> touched;
  std::string bytes = sender.NextBatch();
  std::vector<PeerBatch> batches = receiver.Take(bytes);
  CHECK(RoundsOf(batches) == std::vector<uint64_t>{1});
  while (!batches.empty()) {
    const std::vector<int64_t>& more = batches[0].touched_sessions;
    touched.insert(touched.end(), more.begin(), more.end());
    batches = receiver.Take(sender.NextBatch());
  }
  CHECK(touched == sessions);
}

// Adds random frames of either lane. Control frames are heartbeats, data frames AppendRequests;
// both carry their place in the order of all frames, and of their lane.
TEST_CASE("each lane keeps its order, and data never overtakes control") {
  std::mt19937_64 random(GENERATE(range(1, 21)));
  const auto below = [&](size_t end) { return random() % end; };
  const bool is_old = below(4) == 0;
  Sender sender(is_old ? kPeerProtocolVersion : kPeerProtocolNewest);
  Receiver receiver(is_old ? 4 * kPeerQueueBytesMax : kBatchBytesMax);
  uint64_t added_control = 0;
  uint64_t added_data = 0;
  std::vector<uint64_t>
      control_before;  // of each data frame: control frames that were added before
  std::vector<size_t> sizes;
  uint64_t received_control = 0;
  uint64_t received_data = 0;
  for (int step = 0; step < 400; ++step) {
    if (below(3) == 0) sender.queue.AddMessage(Heartbeat(++added_control));
    if (below(3) == 0) {
      const size_t kinds[] = {below(100), below(5'000), below(200'000), below(800'000)};
      sizes.push_back(kinds[below(4)]);
      control_before.push_back(added_control);
      sender.queue.AddMessage(Append(++added_data, sizes.back()));
    }
    const bool is_end = step == 399;
    const std::string bytes = sender.Next(is_end ? SIZE_MAX : below(300'000));
    for (const PeerBatch& batch : receiver.Take(bytes)) {
      for (const Message& message : batch.messages) {
        if (const auto* heartbeat = std::get_if<consensus::Heartbeat>(&message.body)) {
          REQUIRE(heartbeat->read_round.value() == ++received_control);
          continue;
        }
        REQUIRE(message == Append(received_data + 1, sizes[received_data]));
        REQUIRE(received_control >= control_before[received_data]);
        ++received_data;
      }
    }
  }
  CHECK(received_control == added_control);
  CHECK(received_data == added_data);
}

}  // namespace
}  // namespace quorate::rpc
