// One log entry as it stands in a segment file.
//
//   offset  bytes
//        0      4  CRC-32C of all that follows up to the end of the payload
//        4      4  payload length
//        8      8  index
//       16      8  term
//       24      4  index minus the log's durable index when the record was written; 0: unknown
//       28      1  kind
//       29      3  check of the header: of the CRC-32C of bytes 4 to 28, the lower 24 bits
//       32         payload, then one to 8 bytes kRecordEnd up to a multiple of 8
//
// Little-endian. Both CRCs go on from one over the generation of the segment and the record's own
// offset, so that bytes of another segment, or of this one at another place, are never taken for a
// record. The check of the header says whether its length is to be believed when the rest is not.
//
// A record says how far the log was durable before it was written. So a valid record proves that
// whatever is damaged at or below that index had been durable: damage, and not a torn write.
//
// Thread-safety: functions of their arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "consensus/core/types.h"

namespace quorate::consensus {

inline constexpr size_t kRecordHeaderBytes = 32;
inline constexpr size_t kRecordAlignment = 8;
// A record ends with it, so that what is in the last of its sectors is never zero.
inline constexpr char kRecordEnd = '\xa5';

// Where a record stands; part of what its CRC covers.
struct RecordPlace {
  uint64_t generation = 0;
  uint64_t offset = 0;
};

// Bytes of a record in the file, padding included.
constexpr uint64_t RecordBytes(size_t payload_bytes) {
  return (kRecordHeaderBytes + payload_bytes + kRecordAlignment) / kRecordAlignment *
         kRecordAlignment;
}

// What follows a payload of that size.
std::string_view RecordPadding(size_t payload_bytes);

// Writes the kRecordHeaderBytes bytes before the payload of `entry` to `to`; `durable` is the index
// up to which the log is durable now. REQUIRES: durable < entry.index.
void EncodeRecordHeader(const Entry& entry, Index durable, RecordPlace place, char* to);

struct RecordView {
  enum class State : uint8_t {
    kValid,
    kBad,         // no record stands here
    kIncomplete,  // `bytes` is too short to tell; `size` bytes are needed
  };
  State state = State::kBad;
  uint64_t size = 0;  // of the whole record
  Index index;
  Term term;
  Index durable;  // 0 if unknown
  EntryKind kind = EntryKind::kCommand;
  std::string_view payload;
};

// What stands at the beginning of `bytes`, which were read at `place`.
RecordView ParseRecord(std::string_view bytes, RecordPlace place);

// Tells damage from a write that a crash has torn: whether `bytes`, which are no valid record and
// were read at `place`, were written as one to the end. What was there before is zero, and a crash
// leaves each sector (kSectorBytes) of a write either old or new. So no sector that the record
// touches is zero then, with one exception: a payload may hold a whole sector of zeros, and damage
// to such a record, unless it is to the header, cannot be told from a torn write.
// One set bit alone among zeros is no record.
// `bytes` are those of the whole record if ParseRecord said that it is incomplete, and else at
// least its header; what the file does not have counts as zero.
bool WasRecord(std::string_view bytes, RecordPlace place);

// A look at a header, before all that it speaks of is worth reading: whether it may be that of a
// record with an index in [first, last] that ends within `bytes_max`.
bool MayBeRecord(std::string_view header, RecordPlace place, Index first, Index last,
                 uint64_t bytes_max);

}  // namespace quorate::consensus
