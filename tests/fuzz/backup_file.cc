// SPDX-License-Identifier: Apache-2.0

// A backup. libFuzzer cannot get past checksums, so the checksums of the input are corrected first,
// part by part, unless its first byte says otherwise.
#include "tree/store/backup_file.h"

#include <bit>
#include <memory>
#include <sstream>
#include <string>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {
namespace {

constexpr size_t kMagicBytes = 12;
constexpr size_t kHeadBytes = 9;
constexpr size_t kCrcBytes = 4;

void MakeChecksumsRight(std::string* bytes) {
  size_t at = kMagicBytes;
  for (uint32_t number = 0; at + kHeadBytes + kCrcBytes <= bytes->size(); ++number) {
    StoreInt<std::endian::little>(bytes->data() + at + 1, number);
    const size_t size = LoadInt<std::endian::little, uint32_t>(bytes->data() + at + 5);
    if (size > bytes->size() - at - kHeadBytes - kCrcBytes) return;
    const uint32_t crc = Crc32c(std::string_view(*bytes).substr(at, kHeadBytes + size));
    StoreInt<std::endian::little>(bytes->data() + at + kHeadBytes + size, crc);
    at += kHeadBytes + size + kCrcBytes;
  }
}

}  // namespace

void Run(Input input) {
  const bool repaired = input.Take<uint8_t>() % 2 == 0;
  std::string bytes(input.rest());
  if (repaired) MakeChecksumsRight(&bytes);
  const size_t size = bytes.size();
  auto file =
      tree::BackupFileReader::Open(std::make_unique<std::istringstream>(std::move(bytes)), "input");
  if (!file.ok()) return;
  uint64_t records = 0;
  std::string last;
  std::string_view key;
  std::string_view value;
  while (true) {
    const auto more = (*file)->Next(&key, &value);
    if (!more.ok()) return;
    if (!*more) break;
    ASSERT(key > last);
    last = key;
    ++records;
  }
  ASSERT((*file)->totals().records == records);
  ASSERT((*file)->totals().file_bytes == size);
}

}  // namespace quorate::fuzz
