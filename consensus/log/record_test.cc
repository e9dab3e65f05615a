#include "consensus/log/record.h"

#include <catch2/catch.hpp>
#include <string>

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
    CHECK(MayBeRecord(bytes, Index{12}, Index{12}, bytes.size()));
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
  CHECK_FALSE(MayBeRecord(std::string(200, '\0'), Index{1}, Index{1000}, 200));
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
