#include "consensus/log/record.h"

#include <algorithm>
#include <limits>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "consensus/core/limits.h"

namespace quorate::consensus {
namespace {

constexpr std::endian kLittle = std::endian::little;
constexpr char kZeros[kRecordAlignment] = {};

constexpr size_t kCrcAt = 0;
constexpr size_t kLengthAt = 4;
constexpr size_t kIndexAt = 8;
constexpr size_t kTermAt = 16;
constexpr size_t kDurableDistanceAt = 24;
constexpr size_t kKindAt = 28;
constexpr size_t kZeroAt = 29;

static_assert(kRecordHeaderBytes % kRecordAlignment == 0);
static_assert(kEntryPayloadBytesMax <= std::numeric_limits<uint32_t>::max(),
              "the length field holds it");

uint32_t RecordCrc(const char* header, std::string_view payload, RecordPlace place) {
  char seed[16];
  StoreInt<kLittle>(seed, place.generation);
  StoreInt<kLittle>(seed + 8, place.offset);
  const uint32_t crc = Crc32c({seed, sizeof(seed)});
  return Crc32c(payload, Crc32c({header + kLengthAt, kRecordHeaderBytes - kLengthAt}, crc));
}

bool IsZero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; });
}

}  // namespace

std::string_view RecordPadding(size_t payload_bytes) {
  return {kZeros, RecordBytes(payload_bytes) - kRecordHeaderBytes - payload_bytes};
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
  std::fill(to + kZeroAt, to + kRecordHeaderBytes, '\0');
  StoreInt<kLittle>(to + kCrcAt, RecordCrc(to, entry.payload.view(), place));
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
          RecordCrc(bytes.data(), record.payload, place) &&
      IsZero(bytes.substr(kZeroAt, kRecordHeaderBytes - kZeroAt)) &&
      IsZero(bytes.substr(padded_at, record.size - padded_at))) {
    record.state = RecordView::State::kValid;
  }
  return record;
}

bool MayBeRecord(std::string_view header, Index first, Index last, uint64_t bytes_max) {
  if (header.size() < kRecordHeaderBytes) return false;
  const Index index(LoadInt<kLittle, uint64_t>(header.data() + kIndexAt));
  const size_t length = LoadInt<kLittle, uint32_t>(header.data() + kLengthAt);
  return index >= first && index <= last && length <= kEntryPayloadBytesMax &&
         RecordBytes(length) <= bytes_max &&
         IsZero(header.substr(kZeroAt, kRecordHeaderBytes - kZeroAt));
}

}  // namespace quorate::consensus
