// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/message.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "consensus/core/membership.h"
#include "consensus/core/output.h"
#include "consensus/core/testing/test_member.h"

namespace quorate::consensus {
namespace {

Entry Command(uint64_t index, uint64_t term, std::string payload) {
  return {Index{index}, Term{term}, EntryKind::kCommand, Slice(std::move(payload))};
}

template <typename Body>
Message Make(Body body) {
  return {MemberId{1}, MemberId{2}, Term{7}, std::move(body)};
}

Membership SomeMembership() {
  return {{MemberId{1}, MemberId{2}},
          {MemberId{4}},
          {MemberId{2}, MemberId{3}},
          {{MemberId{1}, "one:1"}, {MemberId{3}, ""}}};
}
SnapshotMeta SomeMeta() { return {Index{9}, Term{2}, SomeMembership(), 2}; }
Entry Changed(uint64_t index) {
  return {Index{index}, Term{2}, EntryKind::kMembership, Slice(EncodeMembership(SomeMembership()))};
}
Entry NewVersion(uint64_t index) {
  return {Index{index}, Term{2}, EntryKind::kVersion, Slice(EncodeVersion(2))};
}

// Returns a message of each kind, with all fields set.
std::vector<Message> Samples() {
  return {
      Make(VoteRequest{true, false, Index{3}, Term{2}}),
      Make(VoteRequest{false, true, Index{3}, Term{2}}),
      Make(VoteRequest{false, false, Index{}, Term{}, true}),
      Make(VoteResponse{true, false}),
      Make(VoteResponse{false, true}),
      Make(VoteResponse{true, true, Membership{{MemberId{1}, MemberId{4}}, {MemberId{2}}, {}, {}}}),
      Make(AppendRequest{Index{3}, Term{2}, Index{1}, {}}),
      Make(AppendRequest{Index{3}, Term{2}, Index{3}, {}, /*commit_only=*/true}),
      Make(AppendRequest{Index{3},
                         Term{2},
                         Index{1},
                         {Entry{Index{4}, Term{2}, EntryKind::kNoOp, {}}, Command(5, 6, "a\"\x01"),
                          Command(6, 7, std::string(50, 'x'))}}),
      Make(AppendAccepted{Index{5}, Index{6}}),
      Make(AppendRejected{Index{9}, Index{4}, Term{2}}),
      Make(Heartbeat{Index{4}, ReadRound{8}}),
      Make(HeartbeatResponse{ReadRound{8}}),
      Make(ReadIndexRequest{~uint64_t{0}}),
      Make(ReadIndexRequest{5, true}),
      Make(ReadIndexResponse{77, Index{4}}),
      Make(TimeoutNow{}),
      Make(AppendRequest{Index{3}, Term{2}, Index{1}, {Changed(4), NewVersion(5)}}),
      Make(SnapshotChunk{SomeMeta(), 1000, true, Slice("bytes")}),
      Make(SnapshotChunk{SomeMeta(), 0, false, {}}),
      Make(SnapshotAck{Index{9}, 1005, false}),
      Make(SnapshotAck{Index{9}, 0, true}),
      Make(DirectoryEpochRequest{}),
      Make(DirectoryEpochResponse{5, 6}),
      Make(LossNotice{Index{9}, Term{4}}),
      Make(SnapshotRejected{Index{9}, "the digest is 0x1, and should be 0x2"}),
      Message{MemberId{3}, MemberId{1}, Term{4}, TimeoutNow{}, 77, 1, false},
      Make(Heartbeat{Index{4}, ReadRound{8}, {MemberId{3}, MemberId{254}}}),
      Make(HeartbeatResponse{ReadRound{8}, std::vector<FedObserver>{}}),
      Make(HeartbeatResponse{ReadRound{8}, std::vector<FedObserver>{{MemberId{3}, Index{5}, 6},
                                                                    {MemberId{4}, {}, 0}}}),
      Message{MemberId{1}, MemberId{2}, Term{7}, Heartbeat{}, 1, 11, true, MemberId{9}},
  };
}

absl::StatusOr<Message> Decode(std::string bytes) {
  auto buffer = std::make_shared<const std::string>(std::move(bytes));
  return DecodeMessage(buffer, *buffer);
}

std::string Encode(const Message& message) {
  std::string bytes;
  EncodeMessage(message, &bytes);
  return bytes;
}

TEST_CASE("each kind of message is decoded as it was encoded") {
  for (const Message& message : Samples()) {
    const absl::StatusOr<Message> decoded = Decode(Encode(message));
    REQUIRE(decoded.ok());
    CHECK(*decoded == message);
  }
}

TEST_CASE("the encoding of a message has not changed by accident") {
  Message heartbeat = Make(Heartbeat{Index{4}, ReadRound{8}});
  heartbeat.version = 4;
  CHECK(Encode(heartbeat) == std::string("\x05\x01\0\0\0\x02\0\0\0\x07\0\0\0\0\0\0\0"
                                         "\x01\0\0\0\0\0\0\0\x04\0\0\0\x01"
                                         "\x04\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0",
                                         46));
}

TEST_CASE("encoding appends, and decoding reads from the middle of a buffer without copying") {
  const Message message = Make(AppendRequest{Index{3}, Term{2}, {}, {Command(4, 2, "payload")}});
  std::string bytes = "before";
  EncodeMessage(message, &bytes);
  const size_t end = bytes.size();
  bytes += "after";
  const auto buffer = std::make_shared<const std::string>(std::move(bytes));
  const absl::StatusOr<Message> decoded =
      DecodeMessage(buffer, std::string_view(*buffer).substr(6, end - 6));
  REQUIRE(decoded.ok());
  CHECK(*decoded == message);
  const Slice& payload = std::get<AppendRequest>(decoded->body).entries[0].payload;
  CHECK(payload.data() >= buffer->data());
  CHECK(payload.data() + payload.size() <= buffer->data() + buffer->size());
}

TEST_CASE("bytes that are too short, too long or of an unknown kind are refused") {
  for (const Message& message : Samples()) {
    const std::string bytes = Encode(message);
    for (size_t size = 0; size < bytes.size(); ++size) {
      CHECK(absl::IsInvalidArgument(Decode(bytes.substr(0, size)).status()));
    }
    CHECK(absl::IsInvalidArgument(Decode(bytes + '\0').status()));
  }
  for (int type : {0, 14, 255}) {
    std::string bytes = Encode(Make(TimeoutNow{}));
    bytes[0] = static_cast<char>(type);
    CHECK(absl::IsInvalidArgument(Decode(bytes).status()));
  }
}

TEST_CASE("entries with gaps are refused") {
  auto refused = [](AppendRequest request) {
    return absl::IsInvalidArgument(Decode(Encode(Make(std::move(request)))).status());
  };
  CHECK(refused({Index{3}, Term{2}, {}, {Command(5, 2, "a")}}));
  CHECK(refused({Index{3}, Term{2}, {}, {Command(3, 2, "a")}}));
  CHECK(refused({Index{3}, Term{2}, {}, {Command(4, 2, "a"), Command(6, 2, "b")}}));
  CHECK(refused({Index{~uint64_t{0}}, Term{2}, {}, {Command(0, 2, "a")}}));
  Entry strange = Command(4, 2, "a");
  strange.kind = static_cast<EntryKind>(4);
  CHECK(refused({Index{3}, Term{2}, {}, {strange}}));
}

TEST_CASE("decoding accepts only bytes that encoding writes, and never crashes") {
  TestRandom random(3);
  const std::vector<Message> samples = Samples();
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = Encode(samples[random.Below(samples.size())]);
    for (uint64_t n = 1 + random.Below(3); n > 0; --n) {
      bytes[random.Below(bytes.size())] = static_cast<char>(random.Below(256));
    }
    if (random.OneIn(4)) bytes.resize(random.Below(bytes.size() + 8), '\x7f');
    const absl::StatusOr<Message> decoded = Decode(bytes);
    if (!decoded.ok()) continue;
    ++accepted;
    REQUIRE(Encode(*decoded) == bytes);
    REQUIRE_FALSE(ToString(*decoded).empty());
  }
  CHECK(accepted > 1000);
}

TEST_CASE("a message is described on one line") {
  std::vector<std::string> lines;
  for (const Message& message : Samples()) lines.push_back(ToString(message));
  const std::string kMembership =
      "voters=[1 2] learners=[4] outgoing=[2 3] addresses=[1:\"one:1\" 3:\"\"]";
  const std::vector<std::string> expected = {
      "1->2 term=7 PreVoteRequest last=3@2",
      "1->2 term=7 VoteRequest (transfer) last=3@2",
      "1->2 term=7 VoteRequest (bootstrap) last=0@0",
      "1->2 term=7 PreVoteResponse rejected",
      "1->2 term=7 VoteResponse granted",
      "1->2 term=7 PreVoteResponse granted configured voters=[1 4] learners=[2]",
      "1->2 term=7 AppendRequest prev=3@2 commit=1",
      "1->2 term=7 AppendRequest prev=3@2 commit=3 commit-only",
      "1->2 term=7 AppendRequest prev=3@2 commit=1 [4@2 no-op, 5@6 \"a\\\"\\x01\", 6@7 \"" +
          std::string(40, 'x') + "\"...(50 bytes)]",
      "1->2 term=7 AppendAccepted match=5 received=6",
      "1->2 term=7 AppendRejected prev=9 candidate=4@2",
      "1->2 term=7 Heartbeat commit=4 round=8",
      "1->2 term=7 HeartbeatResponse round=8",
      "1->2 term=7 ReadIndexRequest id=18446744073709551615",
      "1->2 term=7 ReadIndexRequest id=5 recovering",
      "1->2 term=7 ReadIndexResponse id=77 index=4",
      "1->2 term=7 TimeoutNow",
      "1->2 term=7 AppendRequest prev=3@2 commit=1 [4@2 membership " + kMembership +
          ", 5@2 version 2]",
      "1->2 term=7 SnapshotChunk {9@2 version=2 " + kMembership + "} offset=1000 bytes=5 last",
      "1->2 term=7 SnapshotChunk {9@2 version=2 " + kMembership + "} offset=0 bytes=0",
      "1->2 term=7 SnapshotAck index=9 next_offset=1005",
      "1->2 term=7 SnapshotAck index=9 done",
      "1->2 term=7 DirectoryEpochRequest",
      "1->2 term=7 DirectoryEpochResponse directory_epoch=5 known=6",
      "1->2 term=7 LossNotice acknowledged=9@4",
      "1->2 term=7 SnapshotRejected index=9 reason=the digest is 0x1, and should be 0x2",
      "3->1 term=4 (not voting) TimeoutNow",
      "1->2 term=7 Heartbeat commit=4 round=8 feed=3 feed=254",
      "1->2 term=7 HeartbeatResponse round=8 feeds",
      "1->2 term=7 HeartbeatResponse round=8 feeds 3:5 4:0",
      "1->2 term=7 for=9 Heartbeat commit=0 round=0",
  };
  CHECK(lines == expected);
}

TEST_CASE("an output is described by one line for each part") {
  Output output;
  CHECK(ToString(output).empty());
  output.status.emplace();
  output.status->role = Role::kLeader;
  output.status->term = Term{2};
  output.status->leader = MemberId{1};
  output.status->leader_established = true;
  output.persist_id = PersistId{4};
  output.hard_state = HardState{Term{2}, MemberId{1}, Index{3}};
  output.truncate_after = Index{5};
  output.entries = {Command(6, 2, "x")};
  output.messages_after_persist = {Make(TimeoutNow{})};
  output.messages_now = {Make(HeartbeatResponse{})};
  output.apply = ApplyRange{Index{2}, Index{3}, {}};
  output.log_reads = {{MemberId{3}, Index{1}, Index{2}, 100}};
  output.reads = {{8, true, Index{3}}, {9, false, Index{}}};
  CHECK(ToString(output) ==
        "status leader term=2 leader=1 established\n"
        "persist #4 {term=2 vote=1 commit=3} truncate_after=5 [6@2 \"x\"]\n"
        "send after #4 1->2 term=7 TimeoutNow\n"
        "send 1->2 term=7 HeartbeatResponse round=0\n"
        "apply 2..3 from the log\n"
        "read log 1..2 for 3 bytes<=100\n"
        "read 8 at 3\n"
        "read 9 failed\n");
  const Membership membership{{MemberId{1}, MemberId{2}}, {MemberId{3}}, {}, {}};
  CHECK(ToString(membership) == "voters=[1 2] learners=[3]");
}

}  // namespace
}  // namespace quorate::consensus
