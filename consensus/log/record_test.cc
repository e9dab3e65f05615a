// SPDX-License-Identifier: Apache-2.0

#include "consensus/log/record.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "consensus/log/env.h"
#include "consensus/log/segment.h"

namespace quorate::consensus {
namespace {

constexpr RecordPlace kPlace{7, 4096};

std::string Encode(const Entry& entry, Index durable) {
  std::string bytes(kRecordHeaderBytes, '\0');
  EncodeRecordHeader(entry, durable, kPlace, bytes.data());
  bytes += entry.payload.view();
  bytes += RecordPadding(entry.payload.size());
  return bytes;
}

TEST_CASE("a record comes back as it was written, whatever its size") {
  for (size_t size : {0, 1, 7, 8, 9, 100}) {
    const Entry entry{Index{12}, Term{3}, EntryKind::kNoOp, Slice(std::string(size, 'x'))};
    const std::string bytes = Encode(entry, Index{10});
    CHECK(bytes.size() == RecordBytes(size));
    CHECK(bytes.size() % kRecordAlignment == 0);
    const std::string longer = bytes + "what follows";
    const RecordView record = ParseRecord(longer, kPlace);
    REQUIRE(record.state == RecordView::State::kValid);
    CHECK(record.size == bytes.size());
    CHECK(record.index == entry.index);
    CHECK(record.term == entry.term);
    CHECK(record.kind == entry.kind);
    CHECK(record.durable == Index{10});
    CHECK(record.payload == entry.payload.view());
    CHECK(MayBeRecord(bytes, kPlace, Index{12}, Index{12}, bytes.size()));
  }
}

TEST_CASE("a flipped bit anywhere in a record is noticed") {
  const std::string good =
      Encode({Index{12}, Term{3}, EntryKind::kCommand, Slice("hello")}, Index{9});
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    CAPTURE(bit);
    CHECK(ParseRecord(bad, kPlace).state != RecordView::State::kValid);
  }
}

// Returns a payload without a sector of zeros.
std::string Payload(size_t size) {
  std::string payload(size, '\0');
  for (size_t i = 0; i < size; i += 100) payload[i] = static_cast<char>(i / 100 + 1);
  return payload;
}

std::string EncodeAt(const std::string& payload, RecordPlace place) {
  const Entry entry{Index{12}, Term{3}, EntryKind::kCommand, Slice(payload)};
  std::string bytes(kRecordHeaderBytes, '\0');
  EncodeRecordHeader(entry, Index{10}, place, bytes.data());
  return bytes.append(payload).append(RecordPadding(payload.size()));
}

std::string Flipped(std::string bytes, size_t bit) {
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
  return bytes;
}

// Places and payloads for records that were written completely, and for torn ones.
const uint64_t kOffsets[] = {4096, 4096 + 416, 4096 + 480, 4096 + 488, 4096 + 496, 4096 + 504};
const std::string kPayloads[] = {
    "", "hello", std::string(68, '\1'), std::string(8, '\0'), Payload(448), Payload(3000)};

TEST_CASE("a record in which a bit has turned over is told from a torn one") {
  for (uint64_t offset : kOffsets) {
    for (const std::string& payload : kPayloads) {
      const std::string good = EncodeAt(payload, {7, offset});
      for (size_t bit = 0; bit < good.size() * 8; ++bit) {
        if (WasRecord(Flipped(good, bit), {7, offset})) continue;
        CAPTURE(offset, payload.size(), bit);
        FAIL("taken for a torn write");
      }
    }
  }
}

TEST_CASE("a record of which a sector was not written is torn, whatever else was") {
  for (uint64_t offset : kOffsets) {
    for (const std::string& payload : kPayloads) {
      const std::string good = EncodeAt(payload, {7, offset});
      const uint64_t first = offset / kSectorBytes;
      const uint64_t count = (offset + good.size() - 1) / kSectorBytes - first + 1;
      for (uint64_t written = 0; written + 1 < uint64_t{1} << count; ++written) {
        std::string torn = good;
        for (size_t i = 0; i < torn.size(); ++i) {
          const uint64_t sector = (offset + i) / kSectorBytes - first;
          if ((written >> sector & 1) == 0) torn[i] = '\0';
        }
        CAPTURE(offset, payload.size(), written);
        CHECK_FALSE(WasRecord(torn, {7, offset}));
      }
    }
  }
}

TEST_CASE("a record whose payload has a sector of zeros is torn if it is not whole") {
  std::string payload = Payload(3000);
  std::fill(payload.begin() + 500, payload.begin() + 1700, '\0');
  const std::string good = EncodeAt(payload, kPlace);
  CHECK(ParseRecord(good, kPlace).state == RecordView::State::kValid);
  CHECK_FALSE(WasRecord(Flipped(good, 8 * 2000), kPlace));
  // Damage to the header of such a record is recognised nevertheless.
  for (size_t bit = 8 * 4; bit < 8 * kRecordHeaderBytes; ++bit) {
    CHECK(WasRecord(Flipped(good, bit), kPlace));
  }
}

TEST_CASE("a record that goes on behind the end of the file is torn") {
  const std::string good = EncodeAt(Payload(3000), kPlace);
  for (size_t size = 0; size < good.size(); ++size) {
    CHECK_FALSE(WasRecord(std::string_view(good).substr(0, size), kPlace));
  }
}

TEST_CASE("a set bit among zeros is no record") {
  for (size_t bit = 0; bit < kRecordHeaderBytes * 8; ++bit) {
    std::string bytes(200, '\0');
    bytes[bit / 8] = static_cast<char>(1 << (bit % 8));
    CHECK_FALSE(WasRecord(bytes, kPlace));
  }
}

TEST_CASE("a record is valid only in its own segment and at its own offset") {
  const std::string bytes =
      Encode({Index{12}, Term{3}, EntryKind::kCommand, Slice("hello")}, Index{9});
  CHECK(ParseRecord(bytes, kPlace).state == RecordView::State::kValid);
  CHECK(ParseRecord(bytes, {kPlace.generation + 1, kPlace.offset}).state ==
        RecordView::State::kBad);
  CHECK(ParseRecord(bytes, {kPlace.generation, kPlace.offset + 8}).state ==
        RecordView::State::kBad);
}

TEST_CASE("zeros are no record") {
  CHECK(ParseRecord(std::string(200, '\0'), kPlace).state == RecordView::State::kBad);
  CHECK_FALSE(MayBeRecord(std::string(200, '\0'), kPlace, Index{1}, Index{1000}, 200));
}

TEST_CASE("a record that is cut short asks for as much as it needs") {
  const std::string bytes =
      Encode({Index{12}, Term{3}, EntryKind::kCommand, Slice("hello")}, Index{9});
  const RecordView header = ParseRecord(bytes.substr(0, 10), kPlace);
  CHECK(header.state == RecordView::State::kIncomplete);
  CHECK(header.size == kRecordHeaderBytes);
  const RecordView payload = ParseRecord(bytes.substr(0, bytes.size() - 1), kPlace);
  CHECK(payload.state == RecordView::State::kIncomplete);
  CHECK(payload.size == bytes.size());
}

TEST_CASE("a distance to the durable mark that does not fit is unknown, never too high") {
  const Entry entry{Index{uint64_t{1} << 40}, Term{3}, EntryKind::kCommand, Slice("x")};
  CHECK(ParseRecord(Encode(entry, Index{5}), kPlace).durable == Index{0});
  CHECK(ParseRecord(Encode(entry, entry.index - 1), kPlace).durable == entry.index - 1);
}

TEST_CASE("segment names sort by index and come back") {
  const SegmentName name{Index{1234}, 56};
  CHECK(ToFileName(name) == "00000000000000001234.000000000056.log");
  CHECK(ParseSegmentFileName(ToFileName(name)) == name);
  const SegmentName first{Index{1234}, 56, /*begins_log=*/true};
  CHECK(ToFileName(first) == "00000000000000001234.000000000056.first.log");
  CHECK(ParseSegmentFileName(ToFileName(first)) == first);
  const std::string good = ToFileName(name);
  for (const std::string& bad :
       {std::string(), good + "x", good.substr(1), "x" + good.substr(1), ToFileName({Index{0}, 1}),
        ToFileName({Index{1}, 0}), ToFileName(first) + "x", ToFileName(first).substr(0, 39),
        good.substr(0, 20), std::string("99999999999999999999.000000000056.log")}) {
    CAPTURE(bad);
    CHECK_FALSE(ParseSegmentFileName(bad).has_value());
  }
}

TEST_CASE("a segment header comes back, and a flipped bit in it is noticed") {
  const SegmentName name{Index{1234}, 56};
  const std::string good = EncodeSegmentHeader(name, Term{9});
  const auto header = ParseSegmentHeader("p", good);
  REQUIRE(header.ok());
  REQUIRE(header->has_value());
  CHECK((*header)->first == name.first);
  CHECK((*header)->generation == name.generation);
  CHECK((*header)->previous_term == Term{9});
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    const auto parsed = ParseSegmentHeader("p", bad);
    CAPTURE(bit);
    REQUIRE((parsed.ok() && !parsed->has_value()));
  }
}

}  // namespace
}  // namespace quorate::consensus
