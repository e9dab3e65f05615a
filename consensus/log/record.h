// SPDX-License-Identifier: Apache-2.0

// The format of a log entry in a segment file.
//
//   offset  bytes
//        0      4  CRC-32C of all that follows up to the end of the payload
//        4      4  payload length
//        8      8  index
//       16      8  term
//       24      4  index minus the log's durable index when the record was written; 0: unknown
//       28      1  kind
//       29      3  check of the header: the lower 24 bits of the CRC-32C of bytes 4 to 28
//       32         payload, then one to 8 bytes kRecordEnd up to a multiple of 8
//
// Little-endian. Both CRCs continue a CRC over the generation of the segment and the record's own
// offset, so that bytes of another segment, or of another place in this one, are never taken for a
// record. The check of the header shows whether the length in it is valid even if the rest is not.
//
// A record contains the index up to which the log was durable when it was written. So a valid
// record proves that a bad record at or below that index had been durable: it is damaged, not torn.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "consensus/core/types.h"

namespace quorate::consensus {

inline constexpr size_t kRecordHeaderBytes = 32;
inline constexpr size_t kRecordAlignment = 8;
// A record ends with this byte, so that the part of the record in its last sector is never zero.
inline constexpr char kRecordEnd = '\xa5';

// The place of a record, which its CRC covers.
struct RecordPlace {
  uint64_t generation = 0;
  uint64_t offset = 0;
};

// Returns the bytes of a record in the file, padding included.
constexpr uint64_t RecordBytes(size_t payload_bytes) {
  return (kRecordHeaderBytes + payload_bytes + kRecordAlignment) / kRecordAlignment *
         kRecordAlignment;
}

// Returns the padding that follows a payload of that size.
std::string_view RecordPadding(size_t payload_bytes);

// Writes the kRecordHeaderBytes bytes before the payload of `entry` to `to`; `durable` is the index
// up to which the log is durable now. REQUIRES: durable < entry.index.
void EncodeRecordHeader(const Entry& entry, Index durable, RecordPlace place, char* to);

struct RecordView {
  enum class State : uint8_t {
    kValid,
    kBad,         // there is no valid record
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

// Parses the record at the beginning of `bytes`, which were read at `place`.
RecordView ParseRecord(std::string_view bytes, RecordPlace place);

// Distinguishes damage from a torn write: returns whether `bytes`, which were read at `place` and
// are not a valid record, were once written completely as a record. The bytes were zero before the
// write, and a crash leaves each sector (kSectorBytes) of a write either old or new. So no sector
// of a completely written record is zero. There is one exception: a payload may hold a whole sector
// of zeros, and damage to such a record, unless it is in the header, cannot be distinguished from a
// torn write. A single set bit among zeros does not count as a record. `bytes` must hold the whole
// record if ParseRecord returned kIncomplete, and at least the header otherwise; bytes after the
// end of the file count as zero.
bool WasRecord(std::string_view bytes, RecordPlace place);

// Returns whether `header` may belong to a record with an index in [first, last] that ends within
// `bytes_max`. A quick check, before the whole record is read.
bool MayBeRecord(std::string_view header, RecordPlace place, Index first, Index last,
                 uint64_t bytes_max);

}  // namespace quorate::consensus
