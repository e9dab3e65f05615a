// SPDX-License-Identifier: Apache-2.0

// Records of the log, as found on a disk.
#include <bit>
#include <string>

#include "base/assert.h"
#include "consensus/log/record.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {

using consensus::RecordView;

// Input: an offset, an index and a term, which byte to change and how. The rest is read as a
// record, and also put into a valid record, which is then damaged.
void Run(Input input) {
  const consensus::RecordPlace place{input.Take<uint64_t>(),
                                     input.Take<uint32_t>() * consensus::kRecordAlignment};
  const consensus::Index index(input.Take<uint32_t>() + 1ull);
  const consensus::Term term(input.Take<uint32_t>() + 1ull);
  const auto where = input.Take<uint16_t>();
  const auto change = input.Take<uint8_t>();
  const std::string_view bytes = input.rest();

  const RecordView found = consensus::ParseRecord(bytes, place);
  if (found.state == RecordView::State::kValid) ASSERT(found.size <= bytes.size());
  if (bytes.size() >= consensus::kRecordHeaderBytes) {
    consensus::MayBeRecord(bytes.substr(0, consensus::kRecordHeaderBytes), place,
                           consensus::Index(1), index, bytes.size());
    consensus::WasRecord(bytes, place);
  }

  const consensus::Entry entry{.index = index, .term = term, .payload = Slice(std::string(bytes))};
  std::string record(consensus::kRecordHeaderBytes, '\0');
  consensus::EncodeRecordHeader(entry, consensus::Index(index.value() - 1), place, record.data());
  record.append(bytes).append(consensus::RecordPadding(bytes.size()));
  RecordView view = consensus::ParseRecord(record, place);
  ASSERT(view.state == RecordView::State::kValid);
  ASSERT(view.size == record.size());
  ASSERT(view.index == index);
  ASSERT(view.term == term);
  ASSERT(view.payload == bytes);

  if (change == 0) return;
  const size_t changed = where % (consensus::kRecordHeaderBytes + bytes.size());
  record[changed] = static_cast<char>(record[changed] ^ change);
  view = consensus::ParseRecord(record, place);
  ASSERT(view.state != RecordView::State::kValid, "damage of one byte is always seen");
  ASSERT(consensus::WasRecord(record, place) || !std::has_single_bit(change),
         "one turned bit is never taken for a torn write");
}

}  // namespace quorate::fuzz
