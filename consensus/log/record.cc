// SPDX-License-Identifier: Apache-2.0

#include "consensus/log/record.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "consensus/core/limits.h"
#include "consensus/log/env.h"

namespace quorate::consensus {
namespace {

constexpr std::endian kLittle = std::endian::little;
constexpr char kEnds[kRecordAlignment] = {kRecordEnd, kRecordEnd, kRecordEnd, kRecordEnd,
                                          kRecordEnd, kRecordEnd, kRecordEnd, kRecordEnd};

constexpr size_t kCrcAt = 0;
constexpr size_t kLengthAt = 4;
constexpr size_t kIndexAt = 8;
constexpr size_t kTermAt = 16;
constexpr size_t kDurableDistanceAt = 24;
constexpr size_t kKindAt = 28;
constexpr size_t kHeaderCheckAt = 29;
constexpr size_t kHeaderCheckBytes = kRecordHeaderBytes - kHeaderCheckAt;

static_assert(kRecordHeaderBytes % kRecordAlignment == 0);
static_assert(kEntryPayloadBytesMax <= std::numeric_limits<uint32_t>::max(),
              "the length field holds it");

uint32_t HeaderCrc(const char* header, RecordPlace place) {
  char seed[16];
  StoreInt<kLittle>(seed, place.generation);
  StoreInt<kLittle>(seed + 8, place.offset);
  const uint32_t crc = Crc32c({seed, sizeof(seed)});
  return Crc32c({header + kLengthAt, kHeaderCheckAt - kLengthAt}, crc);
}

uint32_t RecordCrc(const char* header, std::string_view payload, uint32_t header_crc) {
  return Crc32c(payload, Crc32c({header + kHeaderCheckAt, kHeaderCheckBytes}, header_crc));
}

void StoreHeaderCheck(char* header, uint32_t header_crc) {
  for (size_t i = 0; i < kHeaderCheckBytes; ++i) {
    header[kHeaderCheckAt + i] = static_cast<char>(header_crc >> (8 * i));
  }
}

bool HeaderIsSound(const char* header, uint32_t header_crc) {
  char check[kRecordHeaderBytes];
  StoreHeaderCheck(check, header_crc);
  return std::equal(check + kHeaderCheckAt, check + kRecordHeaderBytes, header + kHeaderCheckAt);
}

bool IsZero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; });
}

// Returns whether a sector that [place.offset, place.offset + size) touches is zero within that
// range, or `bytes` end before its part of the range does.
bool HasZeroSector(std::string_view bytes, uint64_t size, RecordPlace place) {
  for (uint64_t at = 0; at < size;) {
    const uint64_t end = std::min(size, at + kSectorBytes - (place.offset + at) % kSectorBytes);
    if (end > bytes.size() || IsZero(bytes.substr(at, end - at))) return true;
    at = end;
  }
  return false;
}

size_t SetBits(std::string_view bytes) {
  size_t count = 0;
  for (char c : bytes) count += static_cast<size_t>(std::popcount(static_cast<unsigned char>(c)));
  return count;
}

}  // namespace

std::string_view RecordPadding(size_t payload_bytes) {
  return {kEnds, RecordBytes(payload_bytes) - kRecordHeaderBytes - payload_bytes};
}

void EncodeRecordHeader(const Entry& entry, Index durable, RecordPlace place, char* to) {
  ASSERT(durable < entry.index, "an entry is not durable before it is written");
  ASSERT(entry.payload.size() <= kEntryPayloadBytesMax);
  const uint64_t distance = entry.index - durable;
  const bool fits = distance <= std::numeric_limits<uint32_t>::max();
  StoreInt<kLittle>(to + kLengthAt, static_cast<uint32_t>(entry.payload.size()));
  StoreInt<kLittle>(to + kIndexAt, entry.index.value());
  StoreInt<kLittle>(to + kTermAt, entry.term.value());
  StoreInt<kLittle>(to + kDurableDistanceAt, fits ? static_cast<uint32_t>(distance) : 0u);
  to[kKindAt] = static_cast<char>(entry.kind);
  const uint32_t header_crc = HeaderCrc(to, place);
  StoreHeaderCheck(to, header_crc);
  StoreInt<kLittle>(to + kCrcAt, RecordCrc(to, entry.payload.view(), header_crc));
}

RecordView ParseRecord(std::string_view bytes, RecordPlace place) {
  RecordView record;
  if (bytes.size() < kRecordHeaderBytes) {
    record.state = RecordView::State::kIncomplete;
    record.size = kRecordHeaderBytes;
    return record;
  }
  const size_t length = LoadInt<kLittle, uint32_t>(bytes.data() + kLengthAt);
  record.index = Index(LoadInt<kLittle, uint64_t>(bytes.data() + kIndexAt));
  record.term = Term(LoadInt<kLittle, uint64_t>(bytes.data() + kTermAt));
  const uint64_t distance = LoadInt<kLittle, uint32_t>(bytes.data() + kDurableDistanceAt);
  if (length > kEntryPayloadBytesMax || record.index == Index{0} ||
      distance > record.index.value()) {
    return record;
  }
  const uint32_t header_crc = HeaderCrc(bytes.data(), place);
  if (!HeaderIsSound(bytes.data(), header_crc)) return record;
  record.durable = distance == 0 ? Index{0} : record.index - distance;
  record.kind = static_cast<EntryKind>(bytes[kKindAt]);
  record.size = RecordBytes(length);
  if (bytes.size() < record.size) {
    record.state = RecordView::State::kIncomplete;
    return record;
  }
  record.payload = bytes.substr(kRecordHeaderBytes, length);
  const size_t padded_at = kRecordHeaderBytes + length;
  // The padding is outside the CRC; it is compared so that no flipped bit goes unnoticed.
  if (LoadInt<kLittle, uint32_t>(bytes.data() + kCrcAt) ==
          RecordCrc(bytes.data(), record.payload, header_crc) &&
      bytes.substr(padded_at, record.size - padded_at) == RecordPadding(length)) {
    record.state = RecordView::State::kValid;
  }
  return record;
}

bool WasRecord(std::string_view bytes, RecordPlace place) {
  const std::string_view header = bytes.substr(0, kRecordHeaderBytes);
  if (HasZeroSector(header, kRecordHeaderBytes, place) || SetBits(header) == 1) return false;
  const uint32_t header_crc = HeaderCrc(header.data(), place);
  if (!HeaderIsSound(header.data(), header_crc)) return true;
  const size_t length = LoadInt<kLittle, uint32_t>(header.data() + kLengthAt);
  return !HasZeroSector(bytes, RecordBytes(length), place);
}

bool MayBeRecord(std::string_view header, RecordPlace place, Index first, Index last,
                 uint64_t bytes_max) {
  if (header.size() < kRecordHeaderBytes) return false;
  const Index index(LoadInt<kLittle, uint64_t>(header.data() + kIndexAt));
  const size_t length = LoadInt<kLittle, uint32_t>(header.data() + kLengthAt);
  return index >= first && index <= last && length <= kEntryPayloadBytesMax &&
         RecordBytes(length) <= bytes_max &&
         HeaderIsSound(header.data(), HeaderCrc(header.data(), place));
}

}  // namespace quorate::consensus
