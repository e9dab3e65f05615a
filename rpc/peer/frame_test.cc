#include "rpc/peer/frame.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>

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
  SealFrames(&bytes);
  return bytes;
}

TEST_CASE("frames come out as they went in") {
  auto batch = DecodeFrames(std::make_shared<std::string>(AllFrames()));
  REQUIRE(batch.ok());
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
    CHECK_FALSE(DecodeFrames(bytes).ok());
  }
}

TEST_CASE("each flipped bit of a message is noticed") {
  const std::string good = AllFrames();
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = std::make_shared<std::string>(good);
    (*bad)[bit / 8] = static_cast<char>((*bad)[bit / 8] ^ (1 << (bit % 8)));
    CHECK_FALSE(DecodeFrames(bad).ok());
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
    SealFrames(bytes.get());
    auto batch = DecodeFrames(bytes);
    if (batch.ok()) {
      for (const CommandBatch& forward : batch->forwards) {
        for (const auto& range : forward.commands) CHECK(forward.view(range).size() == range.size);
      }
    }
  }
}

}  // namespace
}  // namespace quorate::rpc
