// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/frame.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"

namespace quorate::rpc {
namespace {

using consensus::Entry;
using consensus::Index;
using consensus::MemberId;
using consensus::Message;
using consensus::Term;

std::vector<DigestNote> Notes() {
  return {{DigestNote::Kind::kQuestion, 5},
          {DigestNote::Kind::kAnswer, 6, 0x8877665544332211},
          {DigestNote::Kind::kAnswer, 7, std::nullopt},
          {DigestNote::Kind::kVerdict, 8, 0},
          {DigestNote::Kind::kConfirmation, 8, 1}};
}

std::string AllFrames() {
  std::string bytes;
  AppendHelloFrame({kPeerProtocolVersion, MemberId(1), MemberId(2), "0123456789abcdef"}, &bytes);
  AppendAnswerFrame({false, "no", "fedcba9876543210"}, &bytes);
  consensus::AppendRequest append;
  append.prev_index = Index(4);
  append.prev_term = Term(2);
  append.entries.push_back(
      {Index(5), Term(3), consensus::EntryKind::kCommand, Slice(std::string("payload"))});
  AppendMessageFrame(Message{MemberId(1), MemberId(2), Term(3), append}, &bytes);
  AppendForwardFrame({"first", "second"}, &bytes);
  AppendTouchFrame({7, -8}, &bytes);
  for (const DigestNote& note : Notes()) AppendDigestFrame(note, &bytes);
  AppendDiskFrame({true, false}, &bytes);
  AppendReconfigFrame({.is_answer = true, .id = 9, .body = "outcome"}, &bytes);
  SealFrames(&bytes);
  return bytes;
}

TEST_CASE("frames come out as they went in") {
  auto batch = FrameDecoder().Decode(std::make_shared<std::string>(AllFrames()));
  REQUIRE(batch.ok());
  CHECK(batch->reconfigs == std::vector<ReconfigNote>{{true, 9, "outcome"}});
  REQUIRE(batch->hello.has_value());
  CHECK(batch->hello->cluster_id == "0123456789abcdef");
  CHECK(batch->hello->to == MemberId(2));
  REQUIRE(batch->answer.has_value());
  CHECK(!batch->answer->accepted);
  CHECK(batch->answer->reason == "no");
  CHECK(batch->answer->cluster_id == "fedcba9876543210");
  REQUIRE(batch->messages.size() == 1);
  const auto& append = std::get<consensus::AppendRequest>(batch->messages[0].body);
  REQUIRE(append.entries.size() == 1);
  CHECK(append.entries[0].payload.view() == "payload");
  REQUIRE(batch->forwards.size() == 1);
  REQUIRE(batch->forwards[0].commands.size() == 2);
  CHECK(batch->forwards[0].view(batch->forwards[0].commands[1]) == "second");
  CHECK(batch->touched_sessions == std::vector<int64_t>{7, -8});
  CHECK(batch->disk_report == DiskReport{true, false});
  CHECK(batch->digests == Notes());
}

TEST_CASE("a server of the release before understands our hello and answer, and we theirs") {
  std::string bytes;
  AppendHelloFrame(
      {kPeerProtocolVersion, MemberId(1), MemberId(2), "0123456789abcdef", kPeerProtocolNewest, 77},
      &bytes);
  AppendAnswerFrame({true, "", "fedcba9876543210", kPeerProtocolNewest, 78}, &bytes);
  SealFrames(&bytes);
  auto batch = FrameDecoder().Decode(std::make_shared<std::string>(bytes));
  REQUIRE(batch.ok());
  CHECK(batch->hello->newest_version == kPeerProtocolNewest);
  CHECK(batch->answer->newest_version == kPeerProtocolNewest);
  CHECK(batch->hello->process == 77);
  CHECK(batch->answer->process == 78);
  // The exact bytes of the previous release: without the last fields of each frame. That release
  // ignores bytes after the fields that it knows.
  const std::string old(
      "\x01\x20\0\0\0\x02\0\0\0\x01\0\0\0\x02\0\0\0\x10\0\0\0"
      "0123456789abcdef"
      "\x07\x05\0\0\0\x01\0\0\0\0",
      47);
  const std::string old_answer_end(4, '\0');
  std::string frames = old + old_answer_end;
  frames[38] = 9;  // the length of the answer: accepted, and two empty strings
  SealFrames(&frames);
  batch = FrameDecoder().Decode(std::make_shared<std::string>(frames));
  INFO(batch.status().ToString());
  REQUIRE(batch.ok());
  CHECK(batch->hello->protocol_version == 2);
  CHECK(batch->hello->newest_version == 2);
  CHECK(batch->hello->process == 0);
  CHECK(batch->answer->accepted);
  CHECK(batch->answer->newest_version == 2);
}

TEST_CASE("fragments make the frame they were cut from, and nothing else is taken for one") {
  std::string frame;
  AppendForwardFrame({"a command", "another"}, &frame);
  const std::string_view payload = std::string_view(frame).substr(kFrameHeaderBytes);
  const auto fragment = [&](size_t offset, size_t count) {
    char header[kFragmentHeaderBytes];
    WriteFragmentHeader(std::string_view(frame).substr(0, kFrameHeaderBytes), offset, count,
                        header);
    return std::string(header, sizeof(header)).append(payload.substr(offset, count));
  };
  const auto batch_of = [](std::string frames) {
    SealFrames(&frames);
    return std::make_shared<std::string>(std::move(frames));
  };
  std::string touch;
  AppendTouchFrame({5}, &touch);

  FrameDecoder decoder;
  auto batch = decoder.Decode(batch_of(fragment(0, 4)));
  REQUIRE(batch.ok());
  CHECK(batch->forwards.empty());
  batch = decoder.Decode(batch_of(touch + fragment(4, 7)));
  REQUIRE(batch.ok());
  CHECK(batch->touched_sessions == std::vector<int64_t>{5});
  batch = decoder.Decode(batch_of(fragment(11, payload.size() - 11) + touch));
  REQUIRE(batch.ok());
  REQUIRE(batch->forwards.size() == 1);
  REQUIRE(batch->forwards[0].commands.size() == 2);
  CHECK(batch->forwards[0].view(batch->forwards[0].commands[0]) == "a command");

  CHECK(!decoder.Decode(batch_of(fragment(3, 4))).ok());  // of a frame that was not begun
  REQUIRE(decoder.Decode(batch_of(fragment(0, 4))).ok());
  CHECK(!decoder.Decode(batch_of(fragment(5, 4))).ok());  // one byte is missing
  CHECK(!FrameDecoder().Decode(batch_of(fragment(0, 4) + fragment(0, 4))).ok());
  std::string other = fragment(4, 4);
  other[kFrameHeaderBytes] = 2;  // of another type
  CHECK(!FrameDecoder().Decode(batch_of(fragment(0, 4) + other)).ok());
  std::string huge = fragment(0, 4);
  StoreInt<std::endian::little>(huge.data() + kFrameHeaderBytes + 1,
                                static_cast<uint32_t>(kFrameBytesMax + 1));
  CHECK(!FrameDecoder().Decode(batch_of(huge)).ok());
  const std::string nested = [&] {
    std::string inner = fragment(0, payload.size());
    char header[kFragmentHeaderBytes];
    WriteFragmentHeader(std::string_view(inner).substr(0, kFrameHeaderBytes), 0,
                        inner.size() - kFrameHeaderBytes, header);
    return std::string(header, sizeof(header)).append(inner.substr(kFrameHeaderBytes));
  }();
  CHECK(!FrameDecoder().Decode(batch_of(nested)).ok());
}

TEST_CASE("a note about digests that says what no member says is refused") {
  const DigestNote bad[] = {{DigestNote::Kind::kQuestion, 5, 1},
                            {DigestNote::Kind::kVerdict, 5, std::nullopt},
                            {DigestNote::Kind::kAnswer, 0, 1},
                            {DigestNote::Kind{0}, 5, std::nullopt},
                            {DigestNote::Kind{5}, 5, 1}};
  for (const DigestNote& note : bad) {
    auto bytes = std::make_shared<std::string>();
    AppendDigestFrame(note, bytes.get());
    SealFrames(bytes.get());
    CHECK_FALSE(FrameDecoder().Decode(bytes).ok());
  }
}

TEST_CASE("each flipped bit of a message is noticed") {
  const std::string good = AllFrames();
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = std::make_shared<std::string>(good);
    (*bad)[bit / 8] = static_cast<char>((*bad)[bit / 8] ^ (1 << (bit % 8)));
    CHECK_FALSE(FrameDecoder().Decode(bad).ok());
  }
}

TEST_CASE("bytes of any kind under a right checksum decode or are refused") {
  std::mt19937_64 random(1);
  const std::string good = AllFrames();
  for (int round = 0; round < 20000; ++round) {
    auto bytes = std::make_shared<std::string>(good);
    for (int change = 0; change < 3; ++change) {
      (*bytes)[4 + random() % (bytes->size() - 4)] = static_cast<char>(random());
    }
    if (random() % 2 == 0) bytes->resize(5 + random() % (bytes->size() - 5));
    bytes->erase(0, 4);
    SealFrames(bytes.get());
    auto batch = FrameDecoder().Decode(bytes);
    if (batch.ok()) {
      for (const CommandBatch& forward : batch->forwards) {
        for (const auto& range : forward.commands) CHECK(forward.view(range).size() == range.size);
      }
    }
  }
}

}  // namespace
}  // namespace quorate::rpc
